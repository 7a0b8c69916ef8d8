"""Torch tensors in pickles: their data is stored outside the pickle, as that of numpy arrays is."""

from __future__ import annotations

import sys
from typing import Any

from . import _payload


def reduced(obj: Any) -> Any:
    """A value as __reduce__ returns it; None: it isn't a large plain CPU tensor, so torch pickles it."""
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or type(obj) not in (torch.Tensor, torch.nn.Parameter) or not _is_plain(torch, obj):
            return None
        flat = obj.detach().reshape(-1).view(torch.uint8).numpy()
    except Exception:  # of another version, or numpy isn't there
        return None
    is_parameter = type(obj) is torch.nn.Parameter
    return _tensor, (flat, str(obj.dtype).rpartition(".")[2], tuple(obj.shape), obj.requires_grad, is_parameter)


def _is_plain(torch: Any, obj: Any) -> bool:
    return bool(
        obj.device.type == "cpu"
        and obj.layout == torch.strided
        and obj.is_contiguous()
        and obj.numel() * obj.element_size() >= _payload.LARGE
        and not (obj.is_conj() or obj.is_neg() or obj.is_quantized or vars(obj) or obj._backward_hooks)
    )


def _tensor(flat: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool, is_parameter: bool) -> Any:
    import torch

    tensor = torch.from_numpy(flat).view(getattr(torch, dtype)).reshape(shape)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
