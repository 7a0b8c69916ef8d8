"""Lightning in a job: `Trainer(callbacks=[Callback()])`; docs/recipes/lightning.md has the whole example.

Needs `lightning`, or `pytorch_lightning`.
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback as _Callback
except ImportError:
    from pytorch_lightning import Callback as _Callback

from ._checkpoint import checkpoint_requested, requeue
from ._metrics import report
from ._notify import progress, ready
from ._numbers import numbers

__all__ = ["Callback"]


class Callback(_Callback):
    """Reports logged values, and saves and ends when the checkpoint signal has come.

    Metrics go to the metrics file every `log_every_n_steps` of the trainer, at the end of each epoch
    and after each validation, with `step` and `epoch`.  After the checkpoint signal the trainer saves
    to `checkpoint`, and the job is started again: `fit(…, ckpt_path=…)` continues from there.
    """

    def __init__(self, checkpoint: str) -> None:
        super().__init__()
        self.checkpoint = checkpoint
        checkpoint_requested()  # from here on the signal ends nothing

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        ready()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        step = trainer.global_step
        progress(step, _or_none(trainer.estimated_stepping_batches))
        every = trainer.log_every_n_steps
        if every and step % every == 0:
            self._report(trainer, trainer.logged_metrics)
        if checkpoint_requested():
            trainer.save_checkpoint(self.checkpoint)
            requeue()

    def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
        self._report(trainer, trainer.callback_metrics)

    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        if not trainer.sanity_checking:
            self._report(trainer, trainer.callback_metrics)

    def _report(self, trainer: Any, metrics: Any) -> None:
        values = numbers(metrics)
        if values and trainer.is_global_zero:
            report({**values, "step": trainer.global_step, "epoch": trainer.current_epoch})


def _or_none(steps: float) -> float | None:
    """An unlimited value has no total."""
    return steps if steps != float("inf") else None
