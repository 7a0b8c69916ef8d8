"""Hugging Face trainers in a job: `Trainer(…, callbacks=[Callback()])`.  Needs `transformers`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ._checkpoint import checkpoint_requested, requeue
from ._metrics import report
from ._notify import progress, ready
from ._numbers import numbers

__all__ = ["Callback"]


class Callback(TrainerCallback):
    """Reports logged values, with `step`, and saves and ends when the checkpoint signal has come.

    After the checkpoint signal the trainer saves to the folder of its other checkpoints
    (`output_dir`), and the job is started again: `train(resume_from_checkpoint=…)` continues from the
    newest one.
    """

    def __init__(self) -> None:
        checkpoint_requested()  # from here on the signal ends nothing

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        ready()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        values = numbers(logs)
        if values and state.is_world_process_zero:
            report({**values, "step": state.global_step})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        progress(state.global_step, state.max_steps)
        if checkpoint_requested():
            control.should_save = True
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if checkpoint_requested() and state.global_step < state.max_steps:
            requeue()
