"""A loader in the form that torch's tools expect."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Callable

_data: Any = importlib.import_module("torch.utils.data")


def dataset_of(loader: Any, iterated: Callable[[], Iterator[Any]]) -> Any:
    """The length of `iterated`; everything else is the loader's."""
    return _Batches(loader, iterated)


class _Batches(_data.IterableDataset):
    """Whole batches: use DataLoader with batch_size=None, and without workers."""

    def __init__(self, loader: Any, iterated: Callable[[], Iterator[Any]]) -> None:
        self._loader = loader
        self._iterated = iterated

    def __iter__(self) -> Iterator[Any]:
        if _data.get_worker_info() is not None:
            raise RuntimeError("a share.Loader has its own threads, and each DataLoader worker would load the same batches; use num_workers=0")
        return self._iterated()

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._loader.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loader.load_state_dict(state)
