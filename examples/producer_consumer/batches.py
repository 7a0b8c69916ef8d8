"""The common part of the producer and the trainers: the data, and the channel of each trainer."""

import numpy

from pergpu import share

SIZE = 64


def load():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return {"images": (digits.images / 16).astype("float32"), "labels": digits.target.astype("int64")}


def digits():
    """Loaded once for all processes.  The last 300 images are for tests."""
    return share.dataset("digits as images", load)


def channel(lr):
    """The channel of the trainer with this learning rate: separate channels, so each trainer gets every batch."""
    like = {"x": numpy.empty((SIZE, 8, 8), "float32"), "y": numpy.empty(SIZE, "int64")}
    return share.Channel(f"batches for lr={lr}", slots=4, like=like)
