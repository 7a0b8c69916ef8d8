"""Trains a linear classifier on the producer's batches, until the producer closes."""

import numpy

import batches
import pergpu


def features(images):
    """The pixels, and products of neighbours."""
    across = images[:, :, :-1] * images[:, :, 1:]
    down = images[:, :-1] * images[:, 1:]
    parts = [images, across, down, numpy.ones((len(images), 1, 1), "float32")]
    return numpy.concatenate([part.reshape(len(images), -1) for part in parts], axis=1)


def main():
    cfg = pergpu.config()
    data = batches.digits()
    test_x, test_y = features(data["images"].numpy()[-300:]), data["labels"].numpy()[-300:]
    weights = numpy.zeros((test_x.shape[1], 10), "float32")
    step = 0
    with batches.channel(cfg.lr).consumer() as came:
        for step, batch in enumerate(came, 1):
            x, y = features(batch["x"].numpy()), batch["y"].numpy()  # y lies in the slot
            scores = x @ weights
            scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
            scores[numpy.arange(len(y)), y] -= 1
            weights -= cfg.lr * x.T @ scores / len(y)
            if step % 50 == 0:
                accuracy = float(((test_x @ weights).argmax(axis=1) == test_y).mean())
                pergpu.report(step=step, accuracy=accuracy)
    print(f"{step} batches")


if __name__ == "__main__":
    main()
