"""GPU jobs over restarts: before a look has shown the GPUs, none starts, least of all on a CPU lane."""
import json
import os
import signal
import subprocess

import pytest

from harness import FAKE_NVML, grid, read, wait_until

GIB = 1 << 30
STEP = 'gpus = 1\ncommand = ["stamp"]'
SLOW = {"nvmlInit_v2": 300}  # ms: the first look takes a while


def uuid(index):
    return f"GPU-{str(index) * 8}-0000-0000-0000-{index:012}"


class Gpus:
    """Eight GPUs; a process that is none of ours uses them all, or none does."""

    def __init__(self, home):
        self.path = home.root + "/world.json"
        self.other = subprocess.Popen(["sleep", "1000"])
        home.env.update(PERGPU_NVML=FAKE_NVML, FAKE_NVML_SCENARIO=self.path)

    def show(self, foreign=False, **scenario):
        processes = [{"pid": self.other.pid, "memory_bytes": GIB}] if foreign else []
        gpus = [{"uuid": uuid(i), "processes": processes} for i in range(8)]
        with open(self.path + ".new", "w") as f:
            json.dump({"gpus": gpus, "delay_ms": SLOW, **scenario}, f)
        os.rename(self.path + ".new", self.path)


@pytest.fixture
def gpus(home):
    gpus = Gpus(home)
    gpus.show(foreign=True)
    yield gpus
    gpus.other.kill()
    gpus.other.wait()


def submit_and_kill(home, count=3):
    """The jobs wait for GPUs that others use, a CPU job has a keeper that brings up the next one."""
    home.close_gate()
    home.submit('[steps.cpu]\ncommand = ["stamp"]\n', name="cpu.toml")
    home.until_running(1)
    home.submit(grid("train", count, STEP))
    wait_until(lambda: states_of_gpus(home) == {"foreign"}, "the foreign process")
    assert set(home.states("sweep").values()) == {"queued"}
    home.kill_coordinator()


def states_of_gpus(home):
    return {gpu["state"] for gpu in home.json("gpus")["gpus"]}


def all_ran_on_gpus(home, count=3):
    assert home.wait("sweep") == 0
    starts = [line for line in home.stamps.lines() if line[0] == "start" and line[5] == "train"]
    assert len(starts) == count and {line[4] for line in starts} <= {uuid(i) for i in range(8)}
    assert all(job["lane"].startswith("gpu") for job in home.ps("sweep").values())
    return True


def they_wait_for_gpus(home, gpus):
    wait_until(lambda: "foreign" in states_of_gpus(home), "the look of the next coordinator")
    assert set(home.states("sweep").values()) == {"queued"}
    home.open_gate()
    gpus.show()
    return all_ran_on_gpus(home)


def test_queued_gpu_jobs_wait_for_the_first_look_of_the_coordinator_that_keepers_start(home, gpus):
    submit_and_kill(home)
    wait_until(home.coordinator, "the next coordinator")
    assert they_wait_for_gpus(home, gpus)


def test_queued_gpu_jobs_wait_when_nothing_of_pergpu_was_left(home, gpus):
    submit_and_kill(home)
    for keeper in home.keepers():
        os.kill(keeper, signal.SIGKILL)
    home.run("ps")
    assert they_wait_for_gpus(home, gpus)


def test_a_driver_that_is_missing_after_a_restart_is_asked_again_until_it_is_there(home, gpus):
    gpus.show(foreign=True)
    submit_and_kill(home)
    gpus.show(errors={"nvmlInit_v2": 9})  # "driver not loaded"
    for pid in filter(None, [home.coordinator(), *home.keepers()]):
        os.kill(pid, signal.SIGKILL)
    home.run("ps")
    wait_until(lambda: "GPU" in home.run("why", "sweep/0").stdout, "its reason")
    assert home.json("gpus")["gpus"] == []
    assert set(home.states("sweep").values()) == {"queued"}
    home.open_gate()
    gpus.show()
    assert all_ran_on_gpus(home)  # nobody asked for another look
    assert read(home.only("sweep/0")["log"]) == ""
