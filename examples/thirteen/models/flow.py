"""Flow matching: learn the velocity that carries noise x_0 to data x_1 along a chosen path.

Lipman, Chen, Ben-Hamu, Nickel, Le 2023, "Flow matching for generative modeling" and Liu, Gong, Liu
2023, "Flow straight and fast" (rectified flow): x_t = (1 - t) x_0 + t x_1, velocity x_1 - x_0.
Albergo, Vanden-Eijnden 2023, "Building normalizing flows with stochastic interpolants": the path
cos(pi t / 2) x_0 + sin(pi t / 2) x_1.  Tong and others 2023, "Improving and generalizing flow-based
generative models with minibatch optimal transport" (OT-CFM): pair noise and data within the batch so
that the sum of squared distances is least.  Esser and others 2024, "Scaling rectified flow
transformers": t is the logistic function of a normal variable, which spends effort in the middle.
"""

import math

import torch
from torch import nn

from .networks import PIXELS, Denoiser


def paired(noise, image, label):
    """The noise, reordered to be near its image.  Only images of one class trade places: the noise
    of each class has to stay normal, because sampling starts there."""
    from scipy.optimize import linear_sum_assignment

    cost = torch.cdist(image, noise).square()
    cost[label[:, None] != label[None, :]] = 1e6
    _, order = linear_sum_assignment(cost.cpu().numpy())
    return noise[torch.as_tensor(order, device=noise.device)]


class Flow(nn.Module):
    def __init__(
        self, path="linear", coupling="independent", time="uniform", sample_steps=40, **network
    ):
        super().__init__()
        for what, value, known in (
            ("path", path, ("linear", "trigonometric")),
            ("coupling", coupling, ("independent", "ot")),
            ("time", time, ("uniform", "logit-normal")),
        ):
            if value not in known:
                raise ValueError(f"{what} is '{value}', expected {' or '.join(known)}")
        self.path, self.coupling, self.time = path, coupling, time
        self.sample_steps = sample_steps
        self.network = Denoiser(**network)

    def velocity(self, position, time, label):
        return self.network(position, 2 * time - 1, label)

    def loss(self, image, label):
        noise = torch.randn_like(image)
        if self.coupling == "ot":
            noise = paired(noise, image, label)
        time = torch.rand(len(image), device=image.device)
        if self.time == "logit-normal":
            time = torch.randn(len(image), device=image.device).sigmoid()
        at = time[:, None]
        if self.path == "linear":
            position, velocity = (1 - at) * noise + at * image, image - noise
        else:
            cos, sin = (at * math.pi / 2).cos(), (at * math.pi / 2).sin()
            position = cos * noise + sin * image
            velocity = math.pi / 2 * (cos * image - sin * noise)
        return (self.velocity(position, time, label) - velocity).square().mean()

    def sample(self, label):
        """The midpoint method."""
        position = torch.randn(len(label), PIXELS, device=label.device)
        step = 1.0 / self.sample_steps
        for index in range(self.sample_steps):
            time = torch.full((len(label),), index * step, device=label.device)
            middle = position + step / 2 * self.velocity(position, time, label)
            position = position + step * self.velocity(middle, time + step / 2, label)
        return position
