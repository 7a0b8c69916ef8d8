"""Attempt 3: eight processes, started by `spawn` because CUDA cannot be forked, each on its own GPU.

    python3 attempt3.py [--steps N]

The function is at the top level of the file, and everything that it uses is now an argument:
attempt3_first.py shows why.
"""

import time

import toy

try:
    import torch.multiprocessing as multiprocessing
except ImportError:
    import multiprocessing


def train_on_gpu(gpu_id, configs, real, results):
    fid = toy.FrechetDistance(real)
    for cfg in configs[gpu_id::8]:
        started = time.time()
        model = toy.train(cfg, real, toy.device(gpu_id))
        fid.reset()
        for batch in model.samples():
            fid.update(batch)
        results.put(toy.row(cfg, fid.compute(), started, gpu_id))


def main():
    begun = time.time()
    configs, real = toy.configs(), toy.images()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=train_on_gpu, args=(gpu_id, configs, real, results)) for gpu_id in range(8)]
    for worker in workers:
        worker.start()
    toy.show([results.get for _ in configs], begun)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
