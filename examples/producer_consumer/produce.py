"""Makes batches of digits that are moved by up to a pixel, and sends each one to every trainer."""

import json
import sys

import numpy

import batches
from pergpu import share


def moved(images, chance):
    """Moves each by -1, 0 or 1 pixel in both directions."""
    padded = numpy.pad(images, ((0, 0), (1, 1), (1, 1)))
    at = chance.integers(0, 3, (2, len(images)))
    return numpy.stack([one[row : row + 8, column : column + 8] for one, row, column in zip(padded, *at)])


def main():
    runs = [json.loads(line) for line in sys.argv[1].splitlines()]
    data = batches.digits()
    images, labels = data["images"].numpy()[:-300], data["labels"].numpy()[:-300]
    chance = numpy.random.default_rng(1)
    channels = [batches.channel(run["lr"]) for run in runs]
    outs = {channel: channel.producer() for channel in channels}
    for _ in range(runs[0]["batches"]):
        rows = chance.integers(0, len(images), batches.SIZE)
        x, y = moved(images[rows], chance), labels[rows]
        for channel, out in [*outs.items()]:
            try:
                out.put({"x": x, "y": y}, timeout=60)
            except share.PeerDied as died:
                print(f"{channel.name}: {died}", flush=True)
                del outs[channel]  # the others go on
    for channel, out in outs.items():
        out.close()
    for channel in outs:
        channel.join(timeout=60)
    print(f"{runs[0]['batches']} batches for {len(outs)} of {len(runs)} trainers")


if __name__ == "__main__":
    main()
