"""Stands for lightning.pytorch.demos."""
