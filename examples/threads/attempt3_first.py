"""Attempt 3, first version: attempt 1 with processes instead of threads.

    python3 attempt3_first.py [--steps N]

They are started by `spawn`, because CUDA cannot be forked.
"""

import time
from concurrent.futures import ProcessPoolExecutor

import toy

try:
    import torch.multiprocessing as multiprocessing
except ImportError:
    import multiprocessing


def main():
    begun = time.time()
    configs, real = toy.configs(), toy.images()
    fid = toy.FrechetDistance(real)

    def train_on_gpu(cfg, gpu_id):
        started = time.time()
        model = toy.train(cfg, real, toy.device(gpu_id))
        fid.reset()
        for batch in model.samples():
            fid.update(batch)
        return toy.row(cfg, fid.compute(), started, gpu_id)

    with ProcessPoolExecutor(max_workers=8, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(train_on_gpu, cfg, i % 8) for i, cfg in enumerate(configs)]
        toy.show([future.result for future in futures], begun)


if __name__ == "__main__":
    main()
