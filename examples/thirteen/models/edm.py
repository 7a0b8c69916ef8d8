"""Karras, Aittala, Aila, Laine 2022, "Elucidating the design space of diffusion-based generative
models": preconditioning (table 1, equation 7), log-normal noise levels, Heun's sampler with optional
churn (algorithm 2) on noise levels that are evenly spaced in sigma^(1/7) (equation 5).
"""

import torch
from torch import nn

from .networks import PIXELS, Denoiser

SIGMA_DATA = 0.75  # standard deviation of the digits' pixels in [-1, 1]
RHO = 7.0


class Preconditioned(nn.Module):
    """D(x; sigma) = c_skip x + c_out F(c_in x; ln(sigma) / 4), equal to x where sigma is `lowest`.

    EDM itself has lowest = 0; consistency models need the boundary at their smallest noise level.
    """

    def __init__(self, lowest=0.0, **network):
        super().__init__()
        self.lowest = lowest
        self.network = Denoiser(**network)

    def forward(self, noisy, sigma, label):
        spread = sigma**2 + SIGMA_DATA**2
        distance = sigma - self.lowest
        skip = SIGMA_DATA**2 / (distance**2 + SIGMA_DATA**2)
        out = distance * SIGMA_DATA / spread.sqrt()
        inner = self.network(noisy / spread.sqrt()[:, None], sigma.log() / 4, label)
        return skip[:, None] * noisy + out[:, None] * inner


def noise_levels(count, lowest, highest):
    """`count` levels from highest to lowest."""
    ramp = torch.linspace(0, 1, count)
    return (highest ** (1 / RHO) + ramp * (lowest ** (1 / RHO) - highest ** (1 / RHO))) ** RHO


class Edm(nn.Module):
    def __init__(
        self, log_mean=-1.2, log_std=1.2, sample_steps=18, churn=0.0, lowest=0.01, highest=20.0, **network
    ):
        super().__init__()
        self.log_mean, self.log_std, self.churn = log_mean, log_std, churn
        self.denoiser = Preconditioned(**network)
        self.levels = noise_levels(sample_steps, lowest, highest).tolist() + [0.0]

    def loss(self, image, label):
        sigma = (self.log_mean + self.log_std * torch.randn(len(image), device=image.device)).exp()
        noisy = image + sigma[:, None] * torch.randn_like(image)
        weight = (sigma**2 + SIGMA_DATA**2) / (sigma * SIGMA_DATA) ** 2
        error = (self.denoiser(noisy, sigma, label) - image).square().mean(dim=1)
        return (weight * error).mean()

    def slope(self, noisy, sigma, label):
        """dx/dsigma of the probability flow."""
        at = torch.full((len(noisy),), sigma, device=noisy.device)
        return (noisy - self.denoiser(noisy, at, label)) / sigma

    def sample(self, label):
        noisy = self.levels[0] * torch.randn(len(label), PIXELS, device=label.device)
        gamma = min(self.churn / len(self.levels), 2**0.5 - 1)
        for sigma, then in zip(self.levels, self.levels[1:]):
            if gamma > 0 and 0.05 < sigma < 10.0:
                raised = sigma * (1 + gamma)
                noisy = noisy + (raised**2 - sigma**2) ** 0.5 * torch.randn_like(noisy)
                sigma = raised
            slope = self.slope(noisy, sigma, label)
            there = noisy + (then - sigma) * slope
            if then > 0:
                slope = (slope + self.slope(there, then, label)) / 2
                there = noisy + (then - sigma) * slope
            noisy = there
        return noisy
