"""Consistency training, a model that samples in one or two steps.

Song, Dhariwal, Chen, Sutskever 2023, "Consistency models": one function maps every point of a
probability-flow trajectory to its end, learned by making neighbors agree.  Song, Dhariwal 2024,
"Improved techniques for training consistency models": no moving-average teacher, the pseudo-Huber
distance, log-normal noise levels, the number of levels doubled during training, weight 1 / (gap of the
two levels).

The paper ends with 1280 levels.  Agreement travels from one level to its neighbor, so many levels
need long training.  After 2,500 steps, 160 levels gave samples with visible noise (Fréchet distance
14.2), 20 levels gave clear ones (5.5).
"""

import math

import torch
from torch import nn

from .edm import Preconditioned, noise_levels
from .networks import PIXELS

LOWEST, HIGHEST = 0.02, 20.0
LOG_MEAN, LOG_STD = -1.1, 2.0
HUBER = 0.00054 * math.sqrt(PIXELS)


class Consistency(nn.Module):
    def __init__(self, first_levels=5, last_levels=20, middle=0.8, **network):
        super().__init__()
        self.first_levels, self.last_levels, self.middle = first_levels, last_levels, middle
        self.denoiser = Preconditioned(lowest=LOWEST, **network)
        self.progress = 0.0  # of training, from 0 to 1; set by train.py

    def levels(self, device):
        doublings = math.log2(self.last_levels / self.first_levels) + 1
        count = self.first_levels * 2 ** int(min(self.progress, 0.999) * doublings)
        return noise_levels(count + 1, LOWEST, HIGHEST).flip(0).to(device)

    def loss(self, image, label):
        levels = self.levels(image.device)
        edges = torch.erf((levels.log() - LOG_MEAN) / (math.sqrt(2) * LOG_STD))
        index = torch.multinomial(edges.diff(), len(image), replacement=True)
        low, high = levels[index], levels[index + 1]
        noise = torch.randn_like(image)
        student = self.denoiser(image + high[:, None] * noise, high, label)
        with torch.no_grad():
            teacher = self.denoiser(image + low[:, None] * noise, low, label)
        distance = ((student - teacher).square().sum(dim=1) + HUBER**2).sqrt() - HUBER
        return (distance / (high - low)).mean()

    def sample(self, label):
        """Two steps: from pure noise, then once more from a middle level."""
        at = torch.full((len(label),), HIGHEST, device=label.device)
        noise = torch.randn(len(label), PIXELS, device=label.device)
        image = self.denoiser(HIGHEST * noise, at, label).clamp(-1, 1)
        at = torch.full_like(at, self.middle)
        return self.denoiser(image + self.middle * torch.randn_like(image), at, label)
