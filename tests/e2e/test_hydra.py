"""`hydra/launcher=pergpu`: examples/hydra, what becomes of failures, and the suite that Hydra has for launchers."""
import glob
import os
import shutil
import signal
import subprocess

import pytest

from harness import DEADLINE, read, wait_until
from optional import python_with
from test_executor import environment

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/hydra")
ON_CPU = ["hydra.launcher.gpus=0", "hydra.launcher.lanes=2"]
SUITE = """
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.test_utils import launcher_common_tests as common
from pytest import mark

ON_CPU = ["hydra.launcher.gpus=0", "hydra.launcher.lanes=2"]

def test_it_is_found():
    assert "PergpuLauncher" in [one.__name__ for one in Plugins.instance().discover(Launcher)]

@mark.parametrize("launcher_name, overrides", [("pergpu", ON_CPU)])
class TestLauncher(common.LauncherTestSuite):
    pass

@mark.parametrize("launcher_name, overrides", [("pergpu", ["hydra.sweeper.max_batch_size=2", *ON_CPU])])
class TestBatches(common.BatchedSweeperTestSuite):
    pass

@mark.parametrize("task_launcher_cfg, extra_flags", [({}, ["-m", "hydra/launcher=pergpu", *ON_CPU])])
class TestPrograms(common.IntegrationTestSuite):
    pass
"""


@pytest.fixture
def hydra(home):
    """Runs examples/hydra/train.py with overrides; exit status and output."""
    python = python_with("hydra", "cloudpickle")
    for name in os.listdir(EXAMPLE):
        shutil.copy(os.path.join(EXAMPLE, name), home.work)

    def run(*overrides, code=0):
        done = subprocess.run([python, "train.py", *overrides], cwd=home.work, env=environment(home), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    def begun(*overrides):
        return subprocess.Popen([python, "train.py", *overrides], cwd=home.work, env=environment(home),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    run.begun = begun
    return run


def test_the_jobs_of_a_multirun_are_jobs_of_pergpu(home, hydra):
    out = hydra("--multirun", "lr=0.1,0.2", "hydra.sweep.dir=swept", *ON_CPU)
    assert "Launching 2 jobs with pergpu; to watch them: pergpu top train-" in out
    assert "lr 0.1: loss 0.0133" in read(home.work + "/swept/0/train.log") and "lr: 0.2" in read(home.work + "/swept/1/.hydra/config.yaml")
    jobs = home.json("show", "@")["jobs"]
    assert [job["params"]["what"] for job in jobs] == ["train(0, 'lr=0.1')", "train(1, 'lr=0.2')"]
    assert {job["state"] for job in jobs} == {"done"} and jobs[0]["limits"]["timeout"] == "10m"
    assert jobs[0]["out"].startswith(home.work + "/swept/.pergpu/train-") and jobs[0]["last_metrics"]["step"] == 19
    assert f"id: '{jobs[0]['id']}'" in read(home.work + "/swept/0/.hydra/hydra.yaml")


def test_a_run_without_multirun_is_hydras_own(home, hydra):
    assert "lr 0.1: loss 0.0133" in hydra()
    assert home.ps() == {}


def test_a_job_that_fails_leaves_the_others_and_is_told_at_the_end(home, hydra):
    out = hydra("--multirun", "lr=x,0.2", "hydra.sweep.dir=swept", "hydra.launcher.retries=0", *ON_CPU, code=1)
    assert "#0 has failed; its log: " in out and "Error executing job with overrides: ['lr=x']" in out and "TypeError" in out
    assert sorted(job["state"] for job in home.ps().values()) == ["done", "failed"]
    assert "loss" in read(home.work + "/swept/1/train.log")


def test_what_is_set_wrong_is_told_before_anything_starts(home, hydra):
    assert "did you mean 'stall'" in hydra("--multirun", "+hydra.launcher.keys.stal=3m", *ON_CPU, code=1)
    assert "timeout" in hydra("--multirun", "hydra.launcher.timeout=soon", *ON_CPU, code=1)
    assert "not in 'PergpuLauncherConf'" in hydra("--multirun", "hydra.launcher.gpu=1", *ON_CPU, code=1)
    assert home.ps() == {}


def test_hydras_suite_for_launchers_passes(home):
    python = python_with("hydra", "cloudpickle", "pytest")
    home.file("suite_test.py", SUITE)
    done = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "suite_test.py"], cwd=home.work,
                          env=environment(home), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)  # fmt: skip
    assert done.returncode == 0 and " failed" not in done.stdout, done.stdout


def test_a_job_goes_on_in_the_folder_of_its_first_attempt(home, hydra):
    home.file("train.py", """
import hydra, os, time
import pergpu
from hydra.core.hydra_config import HydraConfig

@hydra.main(version_base=None, config_path=".", config_name="config")
def train(cfg):
    folder = HydraConfig.get().runtime.output_dir
    with open(folder + "/attempts", "a") as file:
        file.write(os.environ["PERGPU_ATTEMPT"])
    if os.environ["PERGPU_ATTEMPT"] == "1":
        pergpu.requeue()

if __name__ == "__main__":
    train()
""")  # fmt: skip
    hydra("--multirun", "lr=0.1", *ON_CPU)
    (folder,) = glob.glob(home.work + "/multirun/*/*/0")
    assert read(folder + "/attempts") == "12" and home.states() == {"00/call": "done"}


def test_ctrl_c_ends_the_jobs(home, hydra):
    home.file("train.py", """
import hydra, os

@hydra.main(version_base=None, config_path=".", config_name="config")
def train(cfg):
    os.system("stamp")

if __name__ == "__main__":
    train()
""")  # fmt: skip
    home.close_gate()
    with hydra.begun("--multirun", "lr=0.1,0.2,0.3", "hydra.launcher.max_workers=1", "hydra.launcher.gpus=0") as process:
        home.until_running(1)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=DEADLINE)
    wait_until(lambda: [*home.states().values()] == 3 * ["cancelled"], "the jobs to be cancelled")
