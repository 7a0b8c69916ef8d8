"""A program as Hydra has them: it knows nothing of pergpu, but reports if it is there."""

import logging

import hydra
from omegaconf import DictConfig

log = logging.getLogger(__name__)


@hydra.main(version_base=None, config_path=".", config_name="config")
def train(cfg: DictConfig) -> float:
    """Walks down a parabola; what is left of the way is the loss."""
    x = 10.0
    for step in range(cfg.steps):
        x -= cfg.lr * 2 * x
        report(step, x * x)
    log.info("lr %g: loss %.3g", cfg.lr, x * x)
    return x * x


def report(step: int, loss: float) -> None:
    try:
        import pergpu
    except ImportError:
        return
    pergpu.report(step=step, loss=loss)


if __name__ == "__main__":
    train()
