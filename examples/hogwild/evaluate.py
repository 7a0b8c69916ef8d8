"""Prints the quality of the model that the workers trained, from the last worker that ended."""

import pathlib

import torch

import pergpu
from digits import digits, network, objective


def main():
    models = sorted(pathlib.Path(pergpu.out).parent.parent.glob("*/train/model.pt"))
    trained = max((torch.load(path) for path in models), key=lambda one: one["steps"])
    model = network()
    model.load_state_dict(trained["state"])
    (images, classes), (others, theirs) = digits()
    with torch.no_grad():
        loss = objective(model, images, classes, trained["weight_decay"]).item()
        accuracy = (model(others).argmax(dim=1) == theirs).float().mean().item()
    pergpu.report(step=trained["steps"], loss=loss, accuracy=accuracy)
    print(f"loss {loss:.5f} after {trained['steps']} steps; {accuracy:.1%} of {len(others)} test digits right")


if __name__ == "__main__":
    main()
