"""Stands for lightning.pytorch."""
