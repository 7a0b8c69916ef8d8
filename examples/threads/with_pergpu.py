"""Attempt 1, with a separate process and GPU for each call.

    python3 with_pergpu.py [--steps N]              on a machine with GPUs
    python3 with_pergpu.py [--steps N] --lanes 8    without GPUs: eight at once share the cores
"""

import time

import pergpu
import toy


def main():
    begun = time.time()
    configs, real = toy.configs(), toy.images()
    fid = toy.FrechetDistance(real)

    def train(cfg):
        started = time.time()
        model = toy.train(cfg, real, toy.device())
        fid.reset()
        for batch in model.samples():
            fid.update(batch)
        return toy.row(cfg, fid.compute(), started)

    with pergpu.Executor(gpus=1, lanes=toy.options().lanes, max_workers=8, name="threads") as pool:
        futures = [pool.submit(train, cfg) for cfg in configs]
        toy.show([future.result for future in futures], begun)


if __name__ == "__main__":
    main()
