"""What the producer and the trainers have in common: the data, and the channel of each trainer."""

import numpy

from pergpu import share

SIZE = 64


def load():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return {"images": (digits.images / 16).astype("float32"), "labels": digits.target.astype("int64")}


def digits():
    """Once for all processes.  The last 300 are for tests."""
    return share.dataset("digits as images", load)


def channel(lr):
    """The trainer with this learning rate has one for itself, so that it gets every batch."""
    like = {"x": numpy.empty((SIZE, 8, 8), "float32"), "y": numpy.empty(SIZE, "int64")}
    return share.Channel(f"batches for lr={lr}", slots=4, like=like)
