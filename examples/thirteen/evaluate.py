"""Measures a trained model: the Fréchet distance of its samples to the real digits.

    python3 evaluate.py --model model.pt --classifier classifier.pt --out FOLDER [--metrics FILE]

Appends one line to FILE (FOLDER/metrics.jsonl): `frechet`, smaller is better, and `recognised`, the
share of samples that the classifier assigns to the requested class.  FOLDER gets samples.png, a row
of samples for each class.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import data
import frechet
import models
from classifier import Classifier

COLUMNS, ZOOM, GAP = 16, 6, 1


def load(path, device):
    saved = torch.load(path, map_location=device)
    model = models.build(saved["method"], saved["hyper_parameters"]).to(device)
    model.load_state_dict(saved["state"])
    return model.eval()


def contact_sheet(images, labels):
    """The first COLUMNS images of each class, one row per class, dark on white."""
    cell = 8 + GAP
    sheet = np.full((10 * cell + GAP, COLUMNS * cell + GAP), 160, dtype=np.uint8)
    for row in range(10):
        for column, image in enumerate(images[labels == row][:COLUMNS]):
            top, left = row * cell + GAP, column * cell + GAP
            pixels = ((1 - image.reshape(8, 8)) * 127.5).clip(0, 255)
            sheet[top : top + 8, left : left + 8] = pixels.round()
    return Image.fromarray(sheet).resize((sheet.shape[1] * ZOOM, sheet.shape[0] * ZOOM), Image.NEAREST)


@torch.no_grad()
def evaluate(options):
    device = data.device()
    torch.manual_seed(1)
    model = load(options.model, device)
    judge = Classifier().to(device)
    judge.load_state_dict(torch.load(options.classifier, map_location=device))
    judge.eval()
    real, labels = (tensor.to(device) for tensor in data.digits())

    started = time.monotonic()
    # As many of each class as the real ones have.
    samples = model.sample(labels).clamp(-1, 1)
    seconds = time.monotonic() - started

    def fitted(images):
        return frechet.fit(judge.features(images).double().cpu().numpy())

    # Two halves of the real digits: what a perfect model of this size of sample would get.
    half = torch.randperm(len(real)).to(device)
    floor = frechet.distance(fitted(real[half[::2]]), fitted(real[half[1::2]]))
    line = {
        "frechet": round(frechet.distance(fitted(real), fitted(samples)), 4),
        "recognised": round((judge(samples).argmax(dim=1) == labels).float().mean().item(), 4),
    }
    contact_sheet(samples.cpu().numpy(), labels.cpu().numpy()).save(options.out / "samples.png")
    with open(options.metrics or options.out / "metrics.jsonl", "a") as metrics:
        metrics.write(json.dumps(line) + "\n")
    print(f"{len(samples)} samples in {seconds:.1f} s on {device}")
    print(f"Fréchet distance {line['frechet']}, between two halves of the real digits {floor:.4f}")
    print(f"{line['recognised']:.1%} are recognized as the requested class")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--model", type=Path, required=True)
    arguments.add_argument("--classifier", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--metrics", type=Path)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    evaluate(options)


if __name__ == "__main__":
    main()
