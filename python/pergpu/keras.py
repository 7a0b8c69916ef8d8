"""Keras in a job: `model.fit(…, callbacks=[Callback()])`.  Needs `keras` 3."""

from __future__ import annotations

from typing import Any

from keras.callbacks import Callback as _Callback

from ._checkpoint import checkpoint_requested, requeue
from ._metrics import report
from ._notify import progress, ready
from ._numbers import numbers

__all__ = ["Callback"]


class Callback(_Callback):
    """Reports the logs of each epoch, and ends the job after an epoch when the checkpoint signal has come.

    `keras.callbacks.BackupAndRestore(str(pergpu.out / "backup"))`, put before this one, saves each epoch,
    and continues from there in the next attempt.
    """

    def __init__(self) -> None:
        super().__init__()
        checkpoint_requested()  # from here on the signal ends nothing

    def on_train_begin(self, logs: Any = None) -> None:
        ready()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        report({**numbers(logs), "epoch": epoch})
        progress(epoch + 1, self.params.get("epochs"))
        if checkpoint_requested() and epoch + 1 < self.params.get("epochs", 0):
            requeue()
