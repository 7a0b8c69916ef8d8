"""The digits that come with scikit-learn, and the network that learns them: what train.py and
evaluate.py have in common."""

import torch
from sklearn.datasets import load_digits


def digits():
    """((images, classes) to train with, the same to test with); images are N x 1 x 8 x 8 in [0, 1]."""
    bunch = load_digits()
    images = torch.as_tensor(bunch.images, dtype=torch.float32)[:, None] / 16
    classes = torch.as_tensor(bunch.target, dtype=torch.long)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return [(images[part], classes[part]) for part in (order[:1500], order[1500:])]


def network():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def objective(model, images, classes, weight_decay):
    """What is made small: cross entropy, and half the decay times the squares of all parameters."""
    squares = sum(parameter.square().sum() for parameter in model.parameters())
    return torch.nn.functional.cross_entropy(model(images), classes) + weight_decay / 2 * squares
