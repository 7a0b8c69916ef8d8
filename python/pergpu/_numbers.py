"""Selects the numbers among the values that frameworks log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def numbers(values: Mapping[str, Any] | None) -> dict[str, float]:
    """The values that are single numbers: Python's, numpy's, and tensors of one element."""
    found = {}
    for name, value in (values or {}).items():
        if isinstance(value, (str, bytes)):
            continue
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue
    return found
