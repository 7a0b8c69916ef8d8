"""Of what frameworks log, the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def numbers(values: Mapping[str, Any] | None) -> dict[str, float]:
    """Those that one number stands for: Python's, numpy's, and tensors of one element."""
    found = {}
    for name, value in (values or {}).items():
        if isinstance(value, (str, bytes)):
            continue
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue
    return found
