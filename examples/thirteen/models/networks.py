"""The network that every denoising method shares, and its input for the noise level.

Everything is a multi-layer perceptron on 64 numbers: an 8x8 image is too small to need convolutions,
and a matrix product is the fastest operation on one CPU core.
"""

import math

import torch
from torch import nn

PIXELS = 64
CLASSES = 10


class FourierFeatures(nn.Module):
    """sin and cos of a scalar at `count` frequencies from 1 to `highest`, evenly in the logarithm
    (the position encoding of "Attention is all you need", section 3.5, on a continuous scale)."""

    def __init__(self, count=16, highest=64.0):
        super().__init__()
        exponents = torch.linspace(0.0, math.log(highest), count)
        self.register_buffer("frequencies", exponents.exp())
        self.size = 2 * count

    def forward(self, scalar):
        angles = scalar[:, None] * self.frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=1)


class Block(nn.Module):
    """A residual block with pre-normalization; the condition shifts its hidden layer."""

    def __init__(self, width, condition):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, width)
        self.shift = nn.Linear(condition, width)
        self.leave = nn.Linear(width, width)
        # The block starts as the identity, so that depth costs nothing early in training.
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, hidden, condition):
        inner = self.enter(self.norm(hidden)) + self.shift(condition)
        return hidden + self.leave(nn.functional.silu(inner))


class Denoiser(nn.Module):
    """A function of (noisy image, a scalar for the noise level in about [-1, 1], class)."""

    def __init__(self, width=192, blocks=3, condition=64):
        super().__init__()
        self.noise_features = FourierFeatures()
        self.noise_in = nn.Linear(self.noise_features.size, condition)
        self.label_in = nn.Embedding(CLASSES, condition)
        self.enter = nn.Linear(PIXELS, width)
        self.blocks = nn.ModuleList(Block(width, condition) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, PIXELS)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, image, noise, label):
        condition = nn.functional.silu(
            self.noise_in(self.noise_features(noise)) + self.label_in(label)
        )
        hidden = self.enter(image)
        for block in self.blocks:
            hidden = block(hidden, condition)
        return self.leave(nn.functional.silu(self.norm(hidden)))
