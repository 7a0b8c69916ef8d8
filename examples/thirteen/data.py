"""The 1,797 handwritten digits that come with scikit-learn: 8x8 pixels, values 0 to 16."""

import os

import torch
from sklearn.datasets import load_digits


def digits():
    """Images as N x 64 in [-1, 1], and their classes."""
    bunch = load_digits()
    images = torch.as_tensor(bunch.data, dtype=torch.float32) / 8 - 1
    return images, torch.as_tensor(bunch.target, dtype=torch.long)


def batches(images, labels, size, steps):
    """`steps` random batches; every image comes once before any comes again."""
    order = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        if len(order) < size:
            order = torch.cat([order, torch.randperm(len(images))])
        index, order = order[:size].to(images.device), order[size:]
        yield images[index], labels[index]


def device():
    """The GPU that CUDA_VISIBLE_DEVICES leaves visible, else the CPU with OMP_NUM_THREADS threads."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit():
        torch.set_num_threads(int(threads))
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
