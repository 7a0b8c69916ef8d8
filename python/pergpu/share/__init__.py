"""Memory that jobs have in common: data that is loaded once for all of them, parameters that they
train together.

    from pergpu import share

    digits = share.dataset("digits.npz")            # a file: mapped, or loaded by the first that asks
    tokens = share.dataset("tokens", tokenize_all)  # or what a function returns

    model = share.parameters(module)                # Hogwild: its parameters are those of all jobs

Nothing here needs numpy, torch or jax, and all of them take what is here (docs/share.md).
"""

try:
    from .. import _share as _share
except ImportError as error:
    raise ImportError(
        "pergpu.share needs the compiled part of the package, which this installation lacks: "
        "`pip install .` builds it, with the headers of Python (Debian: python3-dev)"
    ) from error

from .._share import Array
from ._dataset import dataset
from ._formats import BadFile
from ._list import SharedList
from ._parameters import SharedParameters, Snapshot, parameters

__all__ = ["Array", "BadFile", "SharedList", "SharedParameters", "Snapshot", "dataset", "parameters"]
