"""Transforms images for a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Union

_DTYPES = ("float32", "float16", "bfloat16", "uint8")
_MOST = 1 << 20
_Numbers = Union[float, Sequence[float]]


class Images:
    """For `share.Loader(…, transforms={"image": share.Images(…)})`: converts images of bytes, (n, height,
    width, channels) or (n, height, width), to (n, channels, height, width) of `dtype`.

    `crop`: the size of the result, (height, width) or one number for both; from the center, or with
    `random_crop` from anywhere.  `padding`: adds this many black pixels around the image first.
    `flip`: mirrors half of the images left to right.  The crop's place and the flip depend only on the seed,
    the epoch and the row.

    A value is (byte * scale - mean) / std; `scale` is 1/255 by default, `mean` and `std` are one number or
    one for each channel.  It is computed as float32 and rounded to `dtype`; with "uint8" the bytes stay.

    ValueError: impossible arguments.  Arguments that don't match the images fail when you make the loader.
    """

    __module__ = "pergpu.share"

    def __init__(
        self,
        *,
        crop: int | tuple[int, int] | None = None,
        random_crop: bool = False,
        padding: int = 0,
        flip: bool = False,
        mean: _Numbers | None = None,
        std: _Numbers | None = None,
        scale: float | None = None,
        dtype: Literal["float32", "float16", "bfloat16", "uint8"] = "float32",
    ) -> None:
        if dtype not in _DTYPES:
            raise ValueError(f"dtype is {dtype!r}; expected one of {', '.join(_DTYPES)}")
        if dtype == "uint8" and not (mean is std is scale is None):
            raise ValueError("mean, std and scale: bytes can't be normalized; use float32, float16 or bfloat16")
        self.crop = None if crop is None else _sides(crop)
        self.random_crop = bool(random_crop)
        self.padding = _pixels("padding", padding, 0)
        self.flip = bool(flip)
        self.mean = None if mean is None else _numbers("mean", mean)
        self.std = None if std is None else _numbers("std", std)
        self.scale = 1 / 255 if scale is None else float(scale)
        self.dtype = dtype

    def shape_of(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one result, from that of the array of images."""
        height, width = self.crop or rows[1:3]
        return (rows[3] if len(rows) == 4 else 1, height, width)

    def for_native(self, rows: tuple[int, ...]) -> tuple[object, ...]:
        channels = rows[3] if len(rows) == 4 else 1

        def each(values: tuple[float, ...] | None) -> tuple[float, ...]:
            return () if values is None else values * channels if len(values) == 1 else values

        height, width = self.crop or (0, 0)
        return (height, width, self.padding, self.random_crop, self.flip, each(self.mean), each(self.std), self.scale, self.dtype)

    def __repr__(self) -> str:
        return f"share.Images({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def _sides(crop: int | tuple[int, int]) -> tuple[int, int]:
    sides = (crop, crop) if isinstance(crop, int) else tuple(crop)
    if len(sides) != 2:
        raise ValueError(f"crop is {crop!r}; expected a number or (height, width)")
    return _pixels("crop", sides[0], 1), _pixels("crop", sides[1], 1)


def _pixels(what: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise ValueError(f"{what} is {value!r}; expected a number of pixels from {least} to {_MOST}")
    return value


def _numbers(what: str, value: _Numbers) -> tuple[float, ...]:
    try:
        return (float(value),)  # type: ignore[arg-type]
    except TypeError:
        pass
    try:
        return tuple(float(one) for one in value)  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(f"{what} is {value!r}; expected a number, or one for each channel") from None
