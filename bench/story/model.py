"""One small model, trained and evaluated: the work of bench/story.

    python3 model.py train SEED FOLDER STEPS      writes FOLDER/model.pt
    python3 model.py evaluate SEED FOLDER         reads it, writes FOLDER/score

A denoising autoencoder of one hidden layer on points of 64 dimensions in ten heaps, and a score that compares means
and spread of features as the Frechet distance does.  Everything is drawn from generators of its own, so that a model
has the same score wherever it is trained, but for the last digits.
"""
import os
import sys
import time

import torch

POINTS, WIDTH, HIDDEN, BATCH, FEATURES = 4096, 64, 512, 256, 64


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Data:
    def __init__(self):
        heaps = drawn(1, 10, WIDTH)
        self.points = heaps[torch.arange(POINTS) % 10] + 0.2 * drawn(2, POINTS, WIDTH)
        self.noise = 0.5 * drawn(3, POINTS, WIDTH)


def initial(seed):
    shapes = ((WIDTH, HIDDEN), (HIDDEN,), (HIDDEN, WIDTH), (WIDTH,))
    return [0.05 * drawn(100 * seed + i, *shape) for i, shape in enumerate(shapes)]


def forward(parameters, x):
    """Of one model, or of many whose parameters and points have one dimension more, in front."""
    w1, b1, w2, b2 = parameters
    return torch.relu(x @ w1 + b1) @ w2 + b2


def step(parameters, speeds, noisy, clean):
    # The sum over models of their own means: none has a part in another's gradient.
    loss = (forward(parameters, noisy) - clean).square().mean(dim=(-2, -1)).sum()
    with torch.no_grad():
        for parameter, speed, slope in zip(parameters, speeds, torch.autograd.grad(loss, parameters)):
            speed.mul_(0.9).add_(slope)
            parameter.sub_(speed, alpha=0.1)


def train(seed, steps, data):
    parameters = [p.requires_grad_() for p in initial(seed)]
    speeds = [torch.zeros_like(p) for p in parameters]
    draw = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        of_points, of_noise = torch.randint(POINTS, (2, BATCH), generator=draw)
        clean = data.points[of_points]
        step(parameters, speeds, clean + data.noise[of_noise], clean)
    return [p.detach() for p in parameters]


def train_together(seeds, steps, data):
    """All models in one: the limit that no processes can reach."""
    parameters = [torch.stack(same).requires_grad_() for same in zip(*map(initial, seeds))]
    for i in (1, 3):  # what is added to each point
        parameters[i] = parameters[i].detach()[:, None].requires_grad_()
    speeds = [torch.zeros_like(p) for p in parameters]
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    for _ in range(steps):
        indices = torch.stack([torch.randint(POINTS, (2, BATCH), generator=draw) for draw in draws])
        clean = data.points[indices[:, 0]]
        step(parameters, speeds, clean + data.noise[indices[:, 1]], clean)
    return [[p.detach()[i].squeeze(0) if n in (1, 3) else p.detach()[i] for n, p in enumerate(parameters)]
            for i in range(len(seeds))]  # fmt: skip


class Metric:
    """Like those that people use, it gathers in itself what it has seen so far: it is not for threads."""

    def __init__(self, data):
        self.net = drawn(4, WIDTH, FEATURES)
        self.reset()
        self.update(data.points)
        self.reference = self.moments()
        self.reset()

    def reset(self):
        self.seen, self.sum, self.products = 0, torch.zeros(FEATURES), torch.zeros(FEATURES, FEATURES)

    def update(self, points):
        for part in points.split(64):
            features = torch.tanh(part @ self.net)
            self.seen += len(part)
            self.sum = self.sum + features.sum(0)
            self.products = self.products + features.T @ features

    def moments(self):
        mean = self.sum / self.seen
        return mean, self.products / self.seen - mean.outer(mean)

    def compute(self):
        mean, spread = self.moments()
        return float((mean - self.reference[0]).square().sum() + (spread - self.reference[1]).square().sum())


def evaluate(parameters, metric, data, rounds=40):
    metric.reset()
    for i in range(rounds):
        metric.update(forward(parameters, data.points + data.noise.roll(i, 0)))
    return metric.compute()


class Span:
    """Writes when what it is around began and ended, on the clock that all processes share."""

    def __init__(self, path, what):
        self.path, self.what = path, what

    def __enter__(self):
        self.begin = time.monotonic()

    def __exit__(self, *_):
        line = f"{self.what} {self.begin:.6f} {time.monotonic():.6f}\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, line.encode())
        os.close(file)


def main():
    what, seed, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with Span(os.environ["SPANS"], what):
        data = Data()
        if what == "train":
            torch.save(train(seed, int(sys.argv[4]), data), folder + "/model.pt")
            return
        score = evaluate(torch.load(folder + "/model.pt"), Metric(data), data)
    with open(os.environ["SCORES"] + f"/{seed}", "w") as file:
        file.write(f"{score!r}\n")


if __name__ == "__main__":
    main()
