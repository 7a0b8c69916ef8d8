"""An array in shared memory, for whoever takes arrays."""

from __future__ import annotations

from typing import Any

from .. import _share


class Array(_share.Array):
    """Memory with a shape and a dtype.

    It is no numpy array, and becomes one without a copy: `numpy.asarray(a)`, `torch.from_dlpack(a)`,
    `jax.numpy.from_dlpack(a)`, `memoryview(a)`; `a[…]`, `len(a)` and `for … in a` are numpy's.
    """

    __module__ = "pergpu.share"  # where people know it from

    def __getitem__(self, at: Any) -> Any:
        return self.numpy()[at]

    def __iter__(self) -> Any:
        return iter(self.numpy())

    def numpy(self) -> Any:
        """As numpy's array, of the same memory."""
        import numpy

        return numpy.asarray(self)

    def torch(self) -> Any:
        """As a tensor, of the same memory."""
        import torch

        return torch.from_dlpack(self)
