"""Trains the small classifier in whose feature space evaluate.py compares images.

    python3 classifier.py --out FOLDER

A fifth of the digits is held out to measure the accuracy.  FOLDER gets classifier.pt and
metrics.jsonl.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import nn

import data

FEATURES = 64
STEPS = 1500


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(64, 128), nn.SiLU(), nn.Dropout(0.2), nn.Linear(128, FEATURES), nn.SiLU()
        )
        self.head = nn.Linear(FEATURES, 10)

    def features(self, images):
        """The features for the Fréchet distance, as Inception's pooled layer for photographs."""
        return self.body(images)

    def forward(self, images):
        return self.head(self.features(images))


def shifted(images):
    """The images moved by at most one pixel each way, so that features depend on shape, not place."""
    padded = nn.functional.pad(images.view(-1, 8, 8), (1, 1, 1, 1), value=-1.0)
    right, down = torch.randint(3, (2,)).tolist()
    return padded[:, down : down + 8, right : right + 8].reshape(-1, 64)


def train(out):
    device = data.device()
    torch.manual_seed(0)
    images, labels = (tensor.to(device) for tensor in data.digits())
    order = torch.randperm(len(images)).to(device)
    kept, used = order[: len(order) // 5], order[len(order) // 5 :]
    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
    with open(out / "metrics.jsonl", "a", buffering=1) as metrics:
        for step, (image, label) in enumerate(data.batches(images[used], labels[used], 128, STEPS), 1):
            loss = nn.functional.cross_entropy(model(shifted(image)), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 500 == 0:
                model.eval()
                right = model(images[kept]).argmax(dim=1) == labels[kept]
                model.train()
                line = {"accuracy": round(right.float().mean().item(), 4)}
                metrics.write(json.dumps(line) + "\n")
                print(f"step {step}: {line['accuracy']:.2%} of {len(kept)} unseen digits right", flush=True)
    torch.save(model.state_dict(), out / "classifier.pt")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train(options.out)


if __name__ == "__main__":
    main()
