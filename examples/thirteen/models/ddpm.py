"""Denoising diffusion in discrete steps.

Ho, Jain, Abbeel 2020, "Denoising diffusion probabilistic models" (DDPM): the forward process
x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) e, where a_t is the product of (1 - beta).  Nichol, Dhariwal 2021,
"Improved DDPM": the cosine schedule, equation 17.  Salimans, Ho 2022, "Progressive distillation":
the target v = sqrt(a) e - sqrt(1 - a) x_0.  Song, Meng, Ermon 2021, "Denoising diffusion implicit
models" (DDIM), equations 12 and 16: sampling in fewer steps; `eta` 1 is DDPM's own noise, 0 none.
"""

import math

import torch
from torch import nn

from .networks import PIXELS, Denoiser

TRAIN_STEPS = 1000


def kept_signal(schedule):
    """a_t for t = 0 … TRAIN_STEPS - 1."""
    if schedule == "linear":
        betas = torch.linspace(1e-4, 0.02, TRAIN_STEPS, dtype=torch.float64)
    elif schedule == "cosine":
        at = torch.arange(TRAIN_STEPS + 1, dtype=torch.float64) / TRAIN_STEPS
        curve = torch.cos((at + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = (1 - curve[1:] / curve[:-1]).clamp(max=0.999)
    else:
        raise ValueError(f"schedule is '{schedule}', expected linear or cosine")
    return torch.cumprod(1 - betas, dim=0).float()


class Ddpm(nn.Module):
    def __init__(self, schedule="cosine", predict="eps", sample_steps=100, eta=1.0, **network):
        super().__init__()
        if predict not in ("eps", "x0", "v"):
            raise ValueError(f"predict is '{predict}', expected eps, x0 or v")
        self.predict, self.sample_steps, self.eta = predict, sample_steps, eta
        self.network = Denoiser(**network)
        self.register_buffer("kept", kept_signal(schedule))

    def output(self, noisy, step, label):
        return self.network(noisy, 2.0 * step / TRAIN_STEPS - 1.0, label)

    def loss(self, image, label):
        step = torch.randint(TRAIN_STEPS, (len(image),), device=image.device)
        signal, noise_level = self.scales(step)
        noise = torch.randn_like(image)
        noisy = signal * image + noise_level * noise
        target = {
            "eps": noise,
            "x0": image,
            "v": signal * noise - noise_level * image,
        }[self.predict]
        return (self.output(noisy, step, label) - target).square().mean()

    def scales(self, step):
        kept = self.kept[step][:, None]
        return kept.sqrt(), (1 - kept).sqrt()

    def clean(self, noisy, step, label):
        """The estimate of x_0, kept within the range of images."""
        signal, noise_level = self.scales(step)
        output = self.output(noisy, step, label)
        estimate = {
            "eps": lambda: (noisy - noise_level * output) / signal,
            "x0": lambda: output,
            "v": lambda: signal * noisy - noise_level * output,
        }[self.predict]()
        return estimate.clamp(-1, 1)

    def sample(self, label):
        steps = torch.linspace(TRAIN_STEPS - 1, 0, self.sample_steps).round().long().tolist()
        noisy = torch.randn(len(label), PIXELS, device=label.device)
        for now, then in zip(steps, steps[1:] + [None]):
            step = torch.full_like(label, now)
            clean = self.clean(noisy, step, label)
            if then is None:
                return clean
            a_now, a_then = self.kept[now], self.kept[then]
            noise = (noisy - a_now.sqrt() * clean) / (1 - a_now).sqrt()
            fresh = self.eta * ((1 - a_then) / (1 - a_now) * (1 - a_now / a_then)).sqrt()
            noisy = (
                a_then.sqrt() * clean
                + (1 - a_then - fresh**2).sqrt() * noise
                + fresh * torch.randn_like(noisy)
            )
