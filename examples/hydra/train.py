"""An ordinary Hydra program: it doesn't depend on pergpu, but reports if pergpu is installed."""

import logging

import hydra
from omegaconf import DictConfig

log = logging.getLogger(__name__)


@hydra.main(version_base=None, config_path=".", config_name="config")
def train(cfg: DictConfig) -> float:
    """Descends a parabola; the remaining height is the loss."""
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
