"""Memory that jobs share: data that is loaded once for all of them, arrays that pass from process to
process, and parameters that processes train together.

    from pergpu import share

    digits = share.dataset("digits.npz")            # a file: mapped, or loaded by the first process that asks
    tokens = share.dataset("tokens", tokenize_all)  # or the return value of a function
    for batch in share.Loader(digits, batch_size=64): ...  # shuffled, by threads outside the interpreter
    batches = share.Channel("batches", shape=(64, 28, 28), dtype="float32")  # from process to process
    model = share.parameters(module)                # Hogwild: all jobs train the same parameters

None of this needs numpy, torch or jax, and all of them accept these arrays (docs/share.md).
"""

try:
    from .. import _share as _share
except ImportError as error:
    raise ImportError(
        "pergpu.share needs the compiled part of the package, which this installation lacks: "
        "`pip install .` builds it, with Python's headers (Debian: python3-dev)"
    ) from error

from typing import TYPE_CHECKING

from .._share import Array, Consumer, Item, Producer, Slot
from ._channel import Channel
from ._dataset import dataset, drop
from ._formats import BadFile
from ._images import Images
from ._list import SharedList
from ._loader import Loader
from ._loader_feed import Fed
from ._models import best_of, mean
from ._parameters import SharedParameters, Snapshot, parameters
from ._peers import PeerDied, PeerLeft
from . import _sent as _sent  # from here on arrays can be pickled

if TYPE_CHECKING:
    from ._pipes import AsyncConsumer, AsyncProducer, PipeChannel

__all__ = [
    "Array",
    "AsyncConsumer",
    "AsyncProducer",
    "BadFile",
    "Channel",
    "Consumer",
    "Fed",
    "Images",
    "Item",
    "Loader",
    "PeerDied",
    "PeerLeft",
    "PipeChannel",
    "Producer",
    "SharedList",
    "SharedParameters",
    "Slot",
    "Snapshot",
    "best_of",
    "dataset",
    "drop",
    "mean",
    "parameters",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in ("AsyncConsumer", "AsyncProducer", "PipeChannel"):  # asyncio takes long to import
            from . import _pipes

            return getattr(_pipes, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
