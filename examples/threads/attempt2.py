"""Attempt 2: threads as before, and a lock around the measure that they share.

    python3 attempt2.py [--steps N]
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import toy


def main():
    begun = time.time()
    configs, real = toy.configs(), toy.images()
    fid, fid_lock = toy.FrechetDistance(real), threading.Lock()

    def train_on_gpu(cfg, gpu_id):
        started = time.time()
        model = toy.train(cfg, real, toy.device(gpu_id))
        with fid_lock:
            fid.reset()
            for batch in model.samples():
                fid.update(batch)
            distance = fid.compute()
        return toy.row(cfg, distance, started, gpu_id)

    with ThreadPoolExecutor(max_workers=8) as pool:
        futures = [pool.submit(train_on_gpu, cfg, i % 8) for i, cfg in enumerate(configs)]
        toy.show([future.result for future in futures], begun)


if __name__ == "__main__":
    main()
