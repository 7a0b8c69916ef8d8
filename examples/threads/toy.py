"""The common part of all attempts: thirteen small models, and the measure of their samples.

The images have 8x8 pixels with two spots each, and are made here.  A model is a network with one
hidden layer, trained by flow matching to turn noise into such an image.  PyTorch trains it if it is
installed, on the GPU if there is one; else numpy does.

Seeds are set as scripts usually set them: for the whole process.
"""

import argparse
import os
import time

import numpy as np

try:
    import torch
except ImportError:
    torch = None

PIXELS, BATCH, SAMPLE_STEPS, BATCHES_OF_SAMPLES = 64, 128, 25, 12


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000, help="steps per training")
    parser.add_argument("--lanes", type=int, help="with_pergpu.py: CPU lanes instead of GPUs")
    return parser.parse_args()


def configs():
    """One dict per model, larger and smaller ones."""
    steps = options().steps
    sizes = [(hidden, rate) for hidden in (64, 128, 256, 512) for rate in (1e-3, 3e-3, 1e-2)] + [(768, 1e-3)]
    return [
        {"name": f"{hidden}-{rate:g}", "hidden": hidden, "rate": rate, "steps": steps, "seed": seed}
        for seed, (hidden, rate) in enumerate(sizes)
    ]


def images(count=4000):
    random = np.random.default_rng(0)
    row, column = np.mgrid[:8, :8]
    at = random.uniform(1, 6, (count, 2, 2, 1, 1))
    spots = np.exp(-((row - at[:, :, 0]) ** 2 + (column - at[:, :, 1]) ** 2)).sum(axis=1)
    return (2 * spots - 1).reshape(count, PIXELS).astype(np.float32)


def device(gpu_id=0):
    """The GPU with this number, if there are GPUs."""
    return f"cuda:{gpu_id}" if torch and torch.cuda.is_available() else "cpu"


class Flow:
    def samples(self):
        for _ in range(BATCHES_OF_SAMPLES):
            image = np.random.standard_normal((BATCH, PIXELS)).astype(np.float32)
            for step in range(SAMPLE_STEPS):
                when = np.full((BATCH, 1), step / SAMPLE_STEPS, np.float32)
                image += self.velocity(np.hstack([image, when])) / SAMPLE_STEPS
            yield image


class TorchFlow(Flow):
    def __init__(self, hidden, rate, device):
        self.device = device
        self.network = torch.nn.Sequential(
            torch.nn.Linear(PIXELS + 1, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, PIXELS)
        ).to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), rate)

    def learn(self, inputs, target):
        inputs, target = (torch.from_numpy(array).to(self.device) for array in (inputs, target))
        loss = (self.network(inputs) - target).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def velocity(self, inputs):
        with torch.no_grad():
            return self.network(torch.from_numpy(inputs).to(self.device)).cpu().numpy()


class NumpyFlow(Flow):
    def __init__(self, hidden, rate, device):
        self.rate, self.steps = rate, 0
        shapes = (PIXELS + 1, hidden), (hidden,), (hidden, PIXELS), (PIXELS,)
        self.weights = [np.random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
        for weight, width in zip(self.weights, (PIXELS + 1, PIXELS + 1, hidden, hidden)):
            weight /= np.sqrt(width)
        self.mean = [np.zeros_like(weight) for weight in self.weights]
        self.square = [np.zeros_like(weight) for weight in self.weights]

    def learn(self, inputs, target):
        first, first_bias, second, second_bias = self.weights
        hidden = np.tanh(inputs @ first + first_bias)
        error = (hidden @ second + second_bias - target) * (2 / target.size)
        below = error @ second.T * (1 - hidden**2)
        gradients = inputs.T @ below, below.sum(axis=0), hidden.T @ error, error.sum(axis=0)
        self.steps += 1
        rate = self.rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for weight, gradient, mean, square in zip(self.weights, gradients, self.mean, self.square):
            mean += 0.1 * (gradient - mean)  # Adam
            square += 0.001 * (gradient**2 - square)
            weight -= np.float32(rate) * mean / (np.sqrt(square) + 1e-8)

    def velocity(self, inputs):
        first, first_bias, second, second_bias = self.weights
        return np.tanh(inputs @ first + first_bias) @ second + second_bias


def train(cfg, real, device):
    np.random.seed(cfg["seed"])
    if torch:
        torch.manual_seed(cfg["seed"])
    model = (TorchFlow if torch else NumpyFlow)(cfg["hidden"], cfg["rate"], device)
    for _ in range(cfg["steps"]):
        image = real[np.random.randint(len(real), size=BATCH)]
        noise = np.random.standard_normal(image.shape).astype(np.float32)
        when = np.random.random((BATCH, 1)).astype(np.float32)
        model.learn(np.hstack([noise + when * (image - noise), when]), image - noise)
    return model


class FrechetDistance:
    """How far samples are from real images in the features of a network, like FID with InceptionV3.

    Use it like the metrics of torchmetrics: reset(), update() for each batch, compute().  It stores
    the batches between these calls.
    """

    def __init__(self, real):
        random = np.random.default_rng(1)
        self.first = random.standard_normal((PIXELS, 512)) / 8
        self.second = random.standard_normal((512, 48)) / 16
        self.reset()
        self.update(real)
        self.real = self.fit()
        self.reset()

    def reset(self):
        self.count, self.total, self.products = 0, 0.0, 0.0

    def update(self, batch):
        features = np.maximum(batch @ self.first, 0) @ self.second
        self.count += len(features)
        self.total = self.total + features.sum(axis=0)
        self.products = self.products + features.T @ features

    def fit(self):
        mean = self.total / self.count
        return mean, self.products / self.count - np.outer(mean, mean)

    def compute(self):
        (mean1, cov1), (mean2, cov2) = self.real, self.fit()
        values, vectors = np.linalg.eigh(cov1)
        root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
        overlap = np.linalg.eigvalsh(root @ cov2 @ root).clip(min=0)
        return float(((mean1 - mean2) ** 2).sum() + np.trace(cov1) + np.trace(cov2) - 2 * np.sqrt(overlap).sum())


def row(cfg, distance, started, gpu_id=None):
    """The results of a finished model."""
    gpu = (os.environ.get("CUDA_VISIBLE_DEVICES") or "-") if gpu_id is None else gpu_id
    span = {"from": started, "to": time.time()}
    return {"name": cfg["name"], "pid": os.getpid(), "gpu": gpu, "distance": distance, **span}


def show(results, begun):
    """Prints a line for each; `results` are calls that return a row, or raise."""
    print("model      process  gpu  from .. to, s    distance", flush=True)
    for result in results:
        try:
            done = result()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            continue
        span = f"{done['from'] - begun:.1f} .. {done['to'] - begun:.1f}"
        print(f"{done['name']:10} {done['pid']:7}  {done['gpu']}  {span:15} {done['distance']:9.4f}", flush=True)
    print(f"{time.time() - begun:.1f} s in total")
