"""Kingma, Welling 2014, "Auto-encoding variational Bayes", with the class given to both halves (Sohn,
Lee, Yan 2015) and the weight `beta` on the divergence (Higgins and others 2017).

The decoder's variance is one learned number (Rybkin, Daniilidis, Levine 2021, "Simple and effective
VAE training with calibrated decoders"), so that beta 1 is the true bound.
"""


import torch
from torch import nn

from .networks import CLASSES, PIXELS


def perceptron(size_in, width, size_out):
    return nn.Sequential(
        nn.Linear(size_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
        nn.Linear(width, size_out),
    )


class Vae(nn.Module):
    def __init__(self, latent=16, beta=1.0, width=192):
        super().__init__()
        self.latent, self.beta = latent, beta
        self.encoder = perceptron(PIXELS + CLASSES, width, 2 * latent)
        self.decoder = perceptron(latent + CLASSES, width, PIXELS)
        self.log_variance = nn.Parameter(torch.zeros(()))

    def decode(self, code, label):
        return self.decoder(torch.cat([code, one_hot(label)], dim=1)).tanh()

    def loss(self, image, label):
        mean, log_std = self.encoder(torch.cat([image, one_hot(label)], dim=1)).chunk(2, dim=1)
        code = mean + log_std.exp() * torch.randn_like(mean)
        error = (self.decode(code, label) - image).square()
        likelihood = (error / self.log_variance.exp() + self.log_variance).sum(dim=1) / 2
        divergence = ((mean**2 + (2 * log_std).exp() - 1) / 2 - log_std).sum(dim=1)
        return (likelihood + self.beta * divergence).mean() / PIXELS

    def sample(self, label):
        return self.decode(torch.randn(len(label), self.latent, device=label.device), label)


def one_hot(label):
    return nn.functional.one_hot(label, CLASSES).float()
