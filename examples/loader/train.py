"""Trains a classifier of handwritten digits on randomly moved images: the same computation, with
batches of PyTorch's DataLoader or of share.Loader.

Without PyTorch, a hand-written loop replaces the DataLoader.
"""

import time

import numpy

import pergpu
from pergpu import share

BATCH = 50


def load():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return {"image": digits.images.astype("uint8"), "label": digits.target.astype("int64")}


class Network:
    """Two layers."""

    def __init__(self, seed):
        chance = numpy.random.default_rng(seed)
        self.first = chance.normal(0, 0.15, (65, 100)).astype("float32")
        self.second = chance.normal(0, 0.15, (101, 10)).astype("float32")

    def learn(self, images, labels):
        x, hidden, scores = self._through(images)
        scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        scores[numpy.arange(len(labels)), labels] -= 1
        back = (scores @ self.second[:-1].T) * (hidden[:, :-1] > 0)
        self.second -= 0.3 / len(labels) * hidden.T @ scores
        self.first -= 0.3 / len(labels) * x.T @ back

    def right(self, images, labels):
        return float((self._through(images)[2].argmax(axis=1) == labels).mean())

    def _through(self, images):
        one = numpy.ones((len(images), 1), "float32")
        x = numpy.concatenate([images.reshape(len(images), -1), one], axis=1)
        hidden = numpy.concatenate([numpy.maximum(x @ self.first, 0), one], axis=1)
        return x, hidden, hidden @ self.second


class Digits:
    """One example at a time, as DataLoader expects it: moved by up to a pixel."""

    def __init__(self, data, seed):
        self.data, self.chance = data, numpy.random.default_rng(seed)

    def __len__(self):
        return len(self.data["label"])

    def __getitem__(self, at):
        top, left = self.chance.integers(0, 3, 2)
        image = numpy.pad(self.data["image"][at], 1)[top : top + 8, left : left + 8]
        return {"image": image[None].astype("float32") / 16, "label": self.data["label"][at]}


def epochs_of_torch(data, cfg):
    examples = Digits(data, cfg.seed)
    try:
        import torch
    except ImportError:
        chance = numpy.random.default_rng(cfg.seed)
        for _ in range(cfg.epochs):
            order = numpy.array_split(chance.permutation(len(examples)), -(-len(examples) // BATCH))
            yield (joined([examples[at] for at in part]) for part in order)
    else:
        torch.manual_seed(cfg.seed)
        loader = torch.utils.data.DataLoader(examples, batch_size=BATCH, shuffle=True)
        for _ in range(cfg.epochs):
            yield ({name: part.numpy() for name, part in batch.items()} for batch in loader)


def joined(examples):
    return {name: numpy.stack([one[name] for one in examples]) for name in examples[0]}


def epochs_of_share(data, cfg):
    moved = share.Images(padding=1, crop=8, random_crop=True, scale=1 / 16)
    loader = share.Loader(data, batch_size=BATCH, seed=cfg.seed, transforms={"image": moved}, output="numpy")
    for _ in range(cfg.epochs):
        yield loader


def main():
    cfg = pergpu.config()
    data = {name: array.numpy() for name, array in share.dataset("digits as bytes", load).items()}
    train = {name: array[:1500] for name, array in data.items()}
    test = data["image"][1500:].astype("float32") / 16, data["label"][1500:]
    epochs = {"torch": epochs_of_torch, "share": epochs_of_share}[cfg.loader](train, cfg)
    network = Network(cfg.seed)
    for epoch, batches in enumerate(epochs):
        begin, count = time.perf_counter(), 0
        for batch in batches:
            network.learn(batch["image"], batch["label"])
            count += len(batch["label"])
        accuracy = network.right(*test)
        pergpu.report(step=epoch, accuracy=accuracy, images_per_second=count / (time.perf_counter() - begin))
    print(f"{accuracy:.1%} of {len(test[1])} digits right, {count} images per epoch")


if __name__ == "__main__":
    main()
