"""Callbacks for frameworks, with those that are installed: metrics are reported, a signal saves and ends with 75."""
import json
import os
import subprocess
import sys

import pytest

HEAD = """
import os, signal, sys
import pergpu
"""
LIGHTNING = HEAD + """
from pergpu.lightning import Callback
try:
    import lightning.pytorch as pl
    from lightning.pytorch.demos.boring_classes import BoringModel
except ImportError:
    import pytorch_lightning as pl
    from pytorch_lightning.demos.boring_classes import BoringModel

class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        if os.environ.get("SIGNAL_AT") == str(self.trainer.global_step):
            os.kill(os.getpid(), signal.SIGUSR1)
        result = super().training_step(batch, batch_idx)
        self.log("loss", result["loss"])
        return result

last = str(pergpu.out / "last.ckpt")
trainer = pl.Trainer(accelerator="cpu", max_epochs=2, limit_train_batches=6, limit_val_batches=1, log_every_n_steps=3, logger=False,
                     enable_progress_bar=False, enable_checkpointing=False, callbacks=[Callback(last)])
trainer.fit(Model(), ckpt_path=last if os.path.exists(last) else None)
print("steps", trainer.global_step)
"""
TRANSFORMERS = HEAD + """
import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from pergpu.transformers import Callback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = 0

    def forward(self, x, labels):
        self.seen += 1
        if os.environ.get("SIGNAL_AT") == str(self.seen):
            os.kill(os.getpid(), signal.SIGUSR1)
        return {"loss": ((self.layer(x) - labels) ** 2).mean()}

rows = [{"x": torch.tensor([float(i)]), "labels": torch.tensor([2.0 * i])} for i in range(12)]
arguments = TrainingArguments(output_dir=str(pergpu.out), max_steps=12, per_device_train_batch_size=1, logging_steps=3, report_to=[],
                              use_cpu=True, disable_tqdm=True)
trainer = Trainer(Model(), arguments, train_dataset=rows, callbacks=[Callback()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(str(pergpu.out)))
print("steps", trainer.state.global_step)
"""
KERAS = HEAD + """
import keras, numpy
from pergpu.keras import Callback

class Signal(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        print("epoch", epoch, flush=True)
        if os.environ.get("SIGNAL_AT") == str(epoch):
            os.kill(os.getpid(), signal.SIGUSR1)

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
x = numpy.arange(8.0).reshape(8, 1)
model.fit(x, 2 * x, epochs=4, verbose=0, callbacks=[Signal(), keras.callbacks.BackupAndRestore(str(pergpu.out / "backup")), Callback()])
print("steps 12")
"""
FRAMEWORKS = {"lightning": (LIGHTNING, "4"), "transformers": (TRANSFORMERS, "4"), "keras": (KERAS, "1")}


def has(*modules):
    text = "import sys\nfor name in sys.argv[1:]:\n  try: __import__(name)\n  except ImportError: pass\n  else: sys.exit(0)\nsys.exit(1)"
    return subprocess.run([sys.executable, "-c", text, *modules], capture_output=True).returncode == 0


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_is_logged_is_reported_and_a_signal_goes_on_in_the_next_attempt(name, tmp_path):
    if not has(*{"lightning": ("lightning", "pytorch_lightning")}.get(name, (name,))):
        pytest.skip(f"{name} is not installed")
    text, signal_at = FRAMEWORKS[name]
    path = tmp_path / "metrics.jsonl"
    env = {**os.environ, "PERGPU_JOB": "1", "PERGPU_OUT": str(tmp_path), "PERGPU_METRICS": str(path), "PERGPU_SIGNAL": "USR1"}

    def attempt(**more):
        return subprocess.run([sys.executable, "-c", text], env={**env, **more}, capture_output=True, text=True, timeout=240)

    def lines():
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    first = attempt(SIGNAL_AT=signal_at)
    assert first.returncode == 75, first.stdout + first.stderr
    before = len(lines())
    second = attempt()
    assert second.returncode == 0 and "steps 12" in second.stdout, second.stdout + second.stderr
    assert len(lines()) > before and all("loss" in line for line in lines()[before : before + 1])
    if name == "keras":
        assert "epoch 2" in second.stdout and "epoch 0" not in second.stdout
    else:
        steps = [line["step"] for line in lines()]
        assert steps == sorted(steps) and steps[-1] == 12 and steps.count(3) == 1


