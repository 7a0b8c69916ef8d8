"""The common part of train.py and evaluate.py: scikit-learn's digits, and the network that learns them."""

import torch
from sklearn.datasets import load_digits


def digits():
    """((images, classes) for training, the same for tests); images are N x 1 x 8 x 8 in [0, 1]."""
    bunch = load_digits()
    images = torch.as_tensor(bunch.images, dtype=torch.float32)[:, None] / 16
    classes = torch.as_tensor(bunch.target, dtype=torch.long)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return [(images[part], classes[part]) for part in (order[:1500], order[1500:])]


def network():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def objective(model, images, classes, weight_decay):
    """The loss: cross entropy, plus half the decay times the squares of all parameters."""
    squares = sum(parameter.square().sum() for parameter in model.parameters())
    return torch.nn.functional.cross_entropy(model(images), classes) + weight_decay / 2 * squares
