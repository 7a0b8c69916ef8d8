"""Trains a linear classifier of handwritten digits: one of eight jobs that share one copy of the data.

The first job that asks loads the images and computes the features (products of neighboring pixels); the
others wait for it and attach.  A job may write to its arrays, which copies only the pages it writes.
"""

import numpy

import pergpu
from pergpu import share


def load():
    """Runs in only one of the jobs; its output shows in which."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.data.astype("float32") / 16
    neighbours = images[:, :-1] * images[:, 1:]
    print("loading the data", flush=True)
    return {
        "x": numpy.concatenate([images, neighbours, numpy.ones((len(images), 1), "float32")], axis=1),
        "y": digits.target.astype("int64"),
    }


def main():
    cfg = pergpu.config()
    data = share.dataset("digits with products", load)
    x, y = data["x"].numpy(), data["y"].numpy()
    chance = numpy.random.default_rng(cfg.seed)
    order = chance.permutation(len(x))
    train, test = order[:1500], order[1500:]
    weights = numpy.zeros((x.shape[1], 10), "float32")
    for epoch in range(cfg.epochs):
        for batch in numpy.array_split(chance.permutation(train), 50):
            scores = x[batch] @ weights
            scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
            scores[numpy.arange(len(batch)), y[batch]] -= 1
            weights -= cfg.lr * x[batch].T @ scores / len(batch)
        accuracy = float(((x[test] @ weights).argmax(axis=1) == y[test]).mean())
        pergpu.report(step=epoch, accuracy=accuracy)
    print(f"{accuracy:.1%} of {len(test)} digits right")


if __name__ == "__main__":
    main()
