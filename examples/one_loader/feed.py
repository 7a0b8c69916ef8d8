"""Runs the loader, and sends each batch to every training."""

import json
import sys

import images


def main():
    runs = [json.loads(line) for line in sys.argv[1].splitlines()]
    channels = [images.channel(cfg) for cfg in runs]
    fed = images.loader(runs[0]["epochs"]).feed(channels, on_death="skip", timeout=60)
    for died in fed.deaths:
        print(f"continued without a training: {died}")
    print(f"{fed.batches} batches, {len(channels) - len(fed.deaths)} of {len(channels)} trainings got all of them")


if __name__ == "__main__":
    main()
