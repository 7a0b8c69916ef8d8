"""Trains the network: as one of several processes that write to the same parameters, or alone.

With `workers = 1` nothing is shared: plain PyTorch, the same steps.
"""

import contextlib
import math
import os
import time

import torch

import pergpu
from digits import digits, network, objective

PATIENCE = 60  # seconds that a worker waits for the others at the start


class Alone:
    """Replaces share.parameters() if there is only one process."""

    def __init__(self):
        self.counters = {}

    def count(self, name):
        self.counters[name] = self.counters.get(name, 0) + 1
        return self.counters[name]

    def update(self):
        return contextlib.nullcontext()


def together(model, workers):
    """The parameters, once all workers have them; after a minute, with the workers so far."""
    from pergpu import share

    shared = share.parameters(model)
    until = time.monotonic() + PATIENCE
    while len(shared.users) < workers and shared.count("seen", 0) < workers and time.monotonic() < until:
        time.sleep(0.01)
    shared.count("seen", workers)  # who is started again later does not wait
    print(f"training with the processes {shared.users}", flush=True)
    return shared


def main():
    cfg = pergpu.config()
    torch.set_num_threads(1)
    (images, classes), _ = digits()
    torch.manual_seed(cfg.seed)
    model = network()
    shared = together(model, cfg.workers) if cfg.workers > 1 else Alone()
    optimizer = torch.optim.SGD(model.parameters(), cfg.lr)  # its state, if it had any, is each worker's own

    mine = 0
    while (epoch := shared.count("epochs")) <= cfg.epochs:  # each worker takes the next one
        for group in optimizer.param_groups:
            group["lr"] = cfg.lr * (1 + math.cos(math.pi * (epoch - 1) / cfg.epochs)) / 2
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1000 * cfg.seed + epoch))
        total = 0.0
        for batch in order.split(cfg.batch):
            loss = objective(model, images[batch], classes[batch], cfg.weight_decay)
            optimizer.zero_grad()
            loss.backward()  # reads parameters that others write meanwhile
            with shared.update():
                optimizer.step()
                shared.count("steps")
            total += loss.item() * len(batch)
        mine += 1
        pergpu.report(step=epoch, loss=total / len(images))

    if cfg.workers > 1:
        state = dict(shared.snapshot())  # the others may be at their last epoch still
    else:
        state = model.state_dict()
    saved = {"state": state, "steps": shared.counters["steps"], "weight_decay": cfg.weight_decay}
    torch.save(saved, os.path.join(pergpu.out, "model.pt"))
    print(f"{mine} of {cfg.epochs} epochs, {shared.counters['steps']} steps by all workers")


if __name__ == "__main__":
    main()
