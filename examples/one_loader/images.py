"""The common part of the feeding job and the trainings: the data, the loader, each training's channel."""

from pergpu import share


def load():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return {"image": digits.images.astype("uint8"), "label": digits.target.astype("int64")}


def digits():
    """Loaded once for all jobs.  The last 297 images are for tests."""
    return {name: array.numpy() for name, array in share.dataset("digits as bytes", load).items()}


def loader(epochs):
    """The training images, moved by up to a pixel.  The loader has no threads before its first batch."""
    train = {name: array[:1500] for name, array in digits().items()}
    moved = share.Images(padding=1, crop=8, random_crop=True, scale=1 / 16)
    return share.Loader(train, batch_size=50, seed=1, epochs=epochs, transforms={"image": moved})


def channel(cfg):
    """The channel of the training with this configuration; the first job that asks creates it."""
    return loader(cfg["epochs"]).channel(f"batches for lr={cfg['lr']}")
