"""Attempt 1: a thread for each of eight GPUs.

    python3 attempt1.py [--steps N]
"""

import time
from concurrent.futures import ThreadPoolExecutor

import toy


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

    with ThreadPoolExecutor(max_workers=8) as pool:
        futures = [pool.submit(train_on_gpu, cfg, i % 8) for i, cfg in enumerate(configs)]
        toy.show([future.result for future in futures], begun)


if __name__ == "__main__":
    main()
