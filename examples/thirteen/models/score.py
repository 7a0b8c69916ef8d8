"""Song, Sohl-Dickstein, Kingma, Kumar, Ermon, Poole 2021, "Score-based generative modeling through
stochastic differential equations": learn the score of noisy data by denoising score matching, then
run the noising equation backwards.

`ve` (variance exploding): noise of geometrically growing size is added, sampled by the reverse
diffusion predictor with Langevin corrector steps (algorithms 2 and 4).  `vp` (variance preserving):
the signal decays while noise comes in (equation 11), sampled by Euler-Maruyama.
"""

import math

import torch
from torch import nn

from .networks import PIXELS, Denoiser

# ve: standard deviation of the noise at time 0 and 1.
SIGMA_MIN, SIGMA_MAX = 0.02, 10.0
# vp: rate of the noise at time 0 and 1.
BETA_MIN, BETA_MAX = 0.1, 20.0
EARLIEST = 1e-3  # the vp score is singular at time 0


class Score(nn.Module):
    def __init__(self, sde="vp", sample_steps=100, corrector=0, snr=0.16, **network):
        super().__init__()
        if sde not in ("ve", "vp"):
            raise ValueError(f"sde is '{sde}', expected ve or vp")
        self.sde, self.sample_steps, self.corrector, self.snr = sde, sample_steps, corrector, snr
        self.network = Denoiser(**network)

    def scales(self, time):
        """Signal and noise of x_t = signal x_0 + noise z."""
        if self.sde == "ve":
            return torch.ones_like(time), SIGMA_MIN * (SIGMA_MAX / SIGMA_MIN) ** time
        log_signal = -(time**2) * (BETA_MAX - BETA_MIN) / 4 - time * BETA_MIN / 2
        return log_signal.exp(), (1 - (2 * log_signal).exp()).sqrt()

    def noise_in(self, noisy, time, label):
        """The network's estimate of z, from an input scaled to about unit variance."""
        _, noise = self.scales(time)
        scale = (1 + noise**2).sqrt()[:, None] if self.sde == "ve" else 1.0
        return self.network(noisy / scale, 2 * time - 1, label)

    def score(self, noisy, time, label):
        return -self.noise_in(noisy, time, label) / self.scales(time)[1][:, None]

    def loss(self, image, label):
        """Weighted with the variance of the noise: an error of z counts the same at each time."""
        time = EARLIEST + (1 - EARLIEST) * torch.rand(len(image), device=image.device)
        signal, noise = self.scales(time)
        z = torch.randn_like(image)
        noisy = signal[:, None] * image + noise[:, None] * z
        return (self.noise_in(noisy, time, label) - z).square().mean()

    def sample(self, label):
        times = torch.linspace(1, EARLIEST, self.sample_steps).tolist()
        noisy = torch.randn(len(label), PIXELS, device=label.device)
        noisy = noisy * (SIGMA_MAX if self.sde == "ve" else 1.0)
        for now, then in zip(times, times[1:] + [0.0]):
            time = torch.full((len(label),), now, device=label.device)
            noisy = self.predicted(noisy, time, now, then, label)
            if then > 0:
                time = torch.full_like(time, then)
                for _ in range(self.corrector):
                    noisy = self.corrected(noisy, time, label)
        return noisy

    def predicted(self, noisy, time, now, then, label):
        """One step backwards; the last one adds no noise."""
        score = self.score(noisy, time, label)
        if self.sde == "ve":
            ratio = SIGMA_MAX / SIGMA_MIN
            until = SIGMA_MIN * ratio**then if then > 0 else 0.0
            variance = (SIGMA_MIN * ratio**now) ** 2 - until**2
            drift = 0.0
        else:
            variance = (BETA_MIN + now * (BETA_MAX - BETA_MIN)) * (now - then)
            drift = variance / 2 * noisy
        fresh = math.sqrt(variance) * torch.randn_like(noisy) if then > 0 else 0.0
        return noisy + drift + variance * score + fresh

    def corrected(self, noisy, time, label):
        score, z = self.score(noisy, time, label), torch.randn_like(noisy)
        size = 2 * (self.snr * z.norm(dim=1).mean() / score.norm(dim=1).mean()) ** 2
        return noisy + size * score + (2 * size).sqrt() * z
