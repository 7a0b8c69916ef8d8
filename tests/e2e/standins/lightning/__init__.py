"""As much of Lightning as docs/recipes/lightning.md uses: a step is 20 ms of sleep."""
import glob
import os
import time


def seed_everything(seed):
    assert isinstance(seed, int)


class Callback:
    def on_train_batch_end(self, trainer, *_):
        pass

    def on_train_epoch_end(self, trainer, *_):
        pass


class Trainer:
    def __init__(self, accelerator, devices, max_epochs, enable_progress_bar, logger, callbacks):
        assert devices == 1
        self.max_epochs, self.callbacks = max_epochs, callbacks
        self.global_step, self.callback_metrics = 0, {}

    def save_checkpoint(self, path):
        with open(path, "w") as file:
            file.write(str(self.global_step))

    def fit(self, model, ckpt_path):
        assert ckpt_path == "last"
        model.trainer = self
        saved = glob.glob(self.callbacks[0].dirpath + "/last*.ckpt")
        if saved:
            with open(max(saved, key=os.path.getmtime)) as file:
                self.global_step = int(file.read())
        while self.global_step < 64 * self.max_epochs:
            time.sleep(float(os.environ.get("SECONDS_A_STEP", 0)))
            model.training_step(None, self.global_step)
            self.global_step += 1
            for callback in self.callbacks:
                callback.on_train_batch_end(self, model)
            if self.global_step % 64 == 0:
                for callback in self.callbacks:
                    callback.on_train_epoch_end(self, model)
