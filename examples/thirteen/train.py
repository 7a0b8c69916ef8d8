"""Trains one model on the digits.

    python3 train.py --config config.json --out FOLDER

The configuration is one JSON object; its `settings` name the `method`, any of TRAINING below, and
hyper-parameters of the method (see models/).  FOLDER gets model.pt (configuration and the averaged weights) and
metrics.jsonl.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch

import data
import models

# What every method has, with its value where the settings have none.
TRAINING = {
    "seed": 0,
    "steps": 2000,
    "batch": 128,
    "learning_rate": 2e-3,
    "average": 0.998,  # decay of the moving average of the weights
}
REPORT_EVERY = 200


def average(model, mean, decay):
    """mean <- decay * mean + (1 - decay) * model, for all weights in two calls."""
    with torch.no_grad():
        torch._foreach_mul_(mean, decay)
        torch._foreach_add_(mean, list(model.parameters()), alpha=1 - decay)


def schedule(step, steps, warm_up=100):
    """The learning rate's factor: a linear warm-up, then a cosine down to zero."""
    return min(step + 1, warm_up) / warm_up * (1 + math.cos(math.pi * step / steps)) / 2


def train(config, out):
    device = data.device()
    hyper_parameters = dict(config["settings"])
    method = hyper_parameters.pop("method")
    settings = {key: hyper_parameters.pop(key, value) for key, value in TRAINING.items()}
    torch.manual_seed(settings["seed"])
    images, labels = (tensor.to(device) for tensor in data.digits())
    model = models.build(method, hyper_parameters).to(device)
    mean = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), settings["learning_rate"], foreach=True)
    steps = settings["steps"]
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: schedule(step, steps))

    started, losses = time.monotonic(), []
    with open(out / "metrics.jsonl", "a", buffering=1) as metrics:
        batches = data.batches(images, labels, settings["batch"], steps)
        for step, (image, label) in enumerate(batches, 1):
            model.progress = step / steps
            loss = model.loss(image, label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            rate.step()
            average(model, mean, min(settings["average"], step / (step + 10)))
            losses.append(loss.detach())
            if step % REPORT_EVERY == 0 or step == steps:
                line = {"step": step, "loss": round(torch.stack(losses).mean().item(), 5)}
                metrics.write(json.dumps(line) + "\n")
                print(f"step {step} of {steps}: loss {line['loss']}", flush=True)
                losses.clear()
    with torch.no_grad():
        for parameter, averaged in zip(model.parameters(), mean):
            parameter.copy_(averaged)
    torch.save(
        {"method": method, "hyper_parameters": hyper_parameters, "state": model.state_dict()},
        out / "model.pt",
    )
    print(f"{time.monotonic() - started:.1f} s on {device}, saved {out / 'model.pt'}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--config", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train(json.loads(options.config.read_text()), options.out)


if __name__ == "__main__":
    main()
