#!/usr/bin/env python3
"""Kills processes that share a multiprocessing.Queue, and prints how many that hangs.

    queue_kills.py [--kills N] [--deadline SECONDS] [--seed N]

What kills.cc does to a channel, for comparison: two processes put, two get; one of them, at random,
is killed at a random moment and replaced; then each has to pass an item on within the deadline,
which includes those that ended with an exception. A queue that hangs is thrown away with its processes, counted, and the next one is
taken. That it hangs is nothing that this project can fail by: the exit status is 0.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import time
from typing import Any

EACH = 2  # processes that put, and that get


def put(queue: Any, beats: Any, me: int) -> None:
    number = 0
    while True:
        queue.put((number, b"%d" % number * 300))
        number += 1
        beats[me] += 1


def get(queue: Any, beats: Any, me: int) -> None:
    while True:
        number, data = queue.get()
        if data != b"%d" % number * 300:
            beats[2 * EACH] += 1
        beats[me] += 1


class Workers:
    """One queue and the processes at its ends."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("fork")
        self.queue = self.context.Queue(12)
        self.beats = self.context.RawArray("Q", 2 * EACH + 1)
        self.processes = [self.start(i) for i in range(2 * EACH)]

    def start(self, i: int) -> Any:
        process = self.context.Process(target=put if i < EACH else get, args=(self.queue, self.beats, i), daemon=True)
        process.start()
        return process

    def replace(self, i: int) -> None:
        self.kill(i)
        self.processes[i] = self.start(i)

    def kill(self, i: int) -> None:
        os.kill(self.processes[i].pid, signal.SIGKILL)
        self.processes[i].join()

    def hang(self, deadline: float) -> "list[int]":
        """Who does not get on in so many seconds."""
        before = list(self.beats)
        end = time.monotonic() + deadline
        while True:
            still = [i for i in range(2 * EACH) if self.beats[i] == before[i]]
            if not still or time.monotonic() > end:
                return still
            time.sleep(0.001)

    def end(self) -> None:
        for i in range(2 * EACH):
            self.kill(i)
        self.queue.cancel_join_thread()
        self.queue.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    choose = random.Random(options.seed)
    hung = torn = 0
    begin = time.monotonic()
    workers = Workers()
    workers.hang(options.deadline)
    for _ in range(options.kills):
        time.sleep(choose.random() * 0.002)
        workers.replace(choose.randrange(2 * EACH))
        if workers.hang(options.deadline):
            hung += 1
            torn += workers.beats[2 * EACH]
            workers.end()
            workers = Workers()
            workers.hang(options.deadline)
    torn += workers.beats[2 * EACH]
    workers.end()
    print(
        f"multiprocessing.Queue: {options.kills} kills, {hung} of them left somebody hanging for "
        f"{options.deadline:g} s, {torn} torn, {time.monotonic() - begin:.1f} s, seed {options.seed}"
    )


if __name__ == "__main__":
    main()
