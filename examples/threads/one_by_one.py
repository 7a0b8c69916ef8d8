"""Before all attempts: the thirteen models one after the other, on the first GPU.

    python3 one_by_one.py [--steps N]

Each attempt should give the same results as this.
"""

import time

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
        return toy.row(cfg, fid.compute(), started, 0)

    toy.show([lambda cfg=cfg: train(cfg) for cfg in configs], begun)


if __name__ == "__main__":
    main()
