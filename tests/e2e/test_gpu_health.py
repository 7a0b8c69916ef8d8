"""GPUs that break, by the fake NVML: what becomes of the job, of the GPU, and of the jobs after it."""
import json
import os
import shutil

import pytest

from harness import FAKE_NVML, grid, read, wait_until
from test_gpus import World, gpu_state, shown, uuid

# On the GPU $BAD it does what breaks it there, and fails; on any other it succeeds.
BREAKS = """#!/bin/sh
: >"$CLAIMS/$CUDA_VISIBLE_DEVICES.$$"
stamp 0
[ "$CUDA_VISIBLE_DEVICES" = "$BAD" ] || exit 0
[ -z "$XID" ] || echo "$XID" >>"$XIDS/$BAD"
[ -z "$TROUBLE" ] || echo "$TROUBLE" >"$TROUBLES/$BAD"
[ -z "$NEXT_WORLD" ] || mv "$NEXT_WORLD" "$WORLD"
[ -z "$WORDS" ] || echo "$WORDS"
[ -z "$HANGS" ] || exec sleep 1000
exit 1
"""
STEP = 'gpus = 1\ncommand = ["breaks"]'


class Breakable(World):
    def show(self, gpus=2, **scenario):
        for folder in ("xids", "troubles"):
            os.makedirs(f"{self.root}/{folder}", exist_ok=True)
        folders = {"xids": self.root + "/xids", "troubles": self.root + "/troubles"}
        super().show(gpus, **folders, **scenario)

    def mend(self, index=0):
        os.remove(f"{self.root}/troubles/{uuid(index)}")

    def ail(self, words, index=0):
        path = f"{self.root}/troubles/{uuid(index)}"
        with open(path + ".new", "w") as f:
            f.write(words)
        os.rename(path + ".new", path)


@pytest.fixture
def world():
    yield from shown(Breakable)


@pytest.fixture
def gpus(home, world):
    world.join(home)
    home.env.update(
        BAD=uuid(0),
        XIDS=world.root + "/xids",
        TROUBLES=world.root + "/troubles",
        WORLD=world.root + "/world.json",
        XID="",
        TROUBLE="",
        NEXT_WORLD="",
        WORDS="",
        HANGS="",
    )
    home.script("breaks", BREAKS)
    return home


def first_attempt(home):
    return json.loads(read(home.only()["out"] + "/attempt.1.json"))


def moved_to_the_other_gpu(home, cls, *words):
    """The only job failed on GPU 0 by the machine's fault and succeeded on GPU 1, at no charge."""
    home.submit(grid("train", 1, STEP + "\nretries = 1"))
    assert home.wait() == 0
    job, first = home.only(), first_attempt(home)
    assert (job["state"], job["attempt"], job["retries_left"]) == ("done", 2, 1)
    assert first["class"] == cls and first["exit"] == 1, first
    for word in words:
        assert word in first["reason"], first["reason"]
    assert home.stamps.of("start", 4) == [uuid(0), uuid(1)]


@pytest.mark.parametrize("xid", ["79", "48", "94", "119"])
def test_an_xid_of_the_hardware_moves_the_job_and_puts_its_gpu_in_quarantine(gpus, xid):
    gpus.env["XID"] = xid
    moved_to_the_other_gpu(gpus, "hardware", f"gpu0 reported Xid {xid}: ")
    gpu = gpu_state(gpus, 0)
    assert gpu["state"] == "quarantined" and f"Xid {xid}" in gpu["why"]
    assert ("reset" in gpu["why"]) == (xid != "79") and "reboot" in gpu["why"]
    assert "--release 0" in gpu["why"] and gpu_state(gpus, 1)["state"] == "free"


def test_an_xid_of_the_program_is_named_and_changes_nothing_else(gpus):
    gpus.env["XID"] = "31"
    gpus.submit(grid("train", 1, STEP))
    assert gpus.wait() == 1
    job = gpus.only()
    assert (job["state"], job["class"], job["attempt"]) == ("failed", "exit", 1)
    assert job["reason"].startswith("exit code 1; gpu0 reported Xid 31: ")
    assert gpu_state(gpus, 0)["state"] == "free"


@pytest.mark.parametrize("trouble", ["repair_pending", "lost", "recovery_action=1"])
def test_a_gpu_that_reads_broken_moves_the_job_and_comes_back_when_a_reset_shows(gpus, trouble):
    gpus.env["TROUBLE"] = trouble
    moved_to_the_other_gpu(gpus, "hardware", "gpu0: ")
    assert gpu_state(gpus, 0)["state"] == "quarantined"
    gpus.world.mend()
    wait_until(lambda: gpu_state(gpus, 0)["state"] == "free", "its way back")


@pytest.mark.parametrize("trouble", ["repair_pending", "repair_failed", "recovery_action=2", "lost"])
def test_a_gpu_that_reads_broken_gets_no_job(gpus, trouble):
    gpu_state(gpus, 0)  # a lost one that was never seen has no name
    gpus.world.ail(trouble)
    gpus.submit(grid("train", 3, STEP))
    assert gpus.wait() == 0 and set(gpus.stamps.of("start", 4)) == {uuid(1)}
    assert gpu_state(gpus, 0)["state"] == "quarantined"
    gpus.submit(grid("only", 1, STEP), "--devices", "0", name="only.toml")
    assert "quarantined" in gpus.run("why", "only").stdout


def test_why_says_what_happened_and_what_follows(gpus):
    gpus.env["XID"] = "79"
    gpus.submit(grid("train", 1, STEP), "--devices", "0")
    wait_until(lambda: gpus.only()["attempt"] == 1 and gpus.only()["class"], "its end")
    why = gpus.run("why", "@").stdout
    assert "Attempt 1 failed because of a hardware fault (exit code 1; gpu0 reported Xid 79: " in why
    assert "starts again without using up a retry, on another GPU if there is one" in why


def test_a_quarantine_outlives_the_coordinator_and_ends_by_a_persons_word(gpus):
    gpus.env["XID"] = "79"
    moved_to_the_other_gpu(gpus, "hardware")
    gpus.kill_coordinator()
    assert gpu_state(gpus, 0)["state"] == "quarantined"
    gpus.submit(grid("train", 2, STEP), name="second.toml")
    assert gpus.wait("second") == 0
    assert gpus.stamps.of("start", 4)[2:] == [uuid(1), uuid(1)]
    assert gpus.json("gpus", "--release", uuid(0)[:6])["released"] == [uuid(0)]
    gpus.run("gpus", "--release", "0", code=4)
    gpus.run("gpus", "--release", "7", code=2)
    gpus.env["XID"] = ""
    gpus.submit(grid("train", 1, STEP), "--devices", "0", name="third.toml")
    gpus.wait("third")
    assert gpus.stamps.of("start", 4)[-1] == uuid(0)


def test_whoever_cannot_reset_a_gpu_may_use_it_on(gpus):
    gpus.world.ail("repair_pending")
    wait_until(lambda: gpu_state(gpus, 0)["state"] == "quarantined", "the quarantine")
    gpus.run("gpus", "--release", "0")
    gpus.submit(grid("train", 1, 'gpus = 1\ncommand = ["train"]'), "--devices", "0")
    assert gpus.wait() == 0


def test_a_job_goes_on_when_its_gpu_is_put_in_quarantine(gpus):
    gpus.close_gate()
    gpus.submit(grid("train", 1, 'gpus = 1\ncommand = ["train"]'))
    gpus.until_running(1)
    gpus.world.ail("recovery_action=2")
    gpus.submit(grid("b", 1, 'gpus = 1\ncommand = ["train"]'), name="b.toml")
    gpus.until_running(2)
    gpu = gpu_state(gpus, 0)
    assert gpu["state"] == "busy" and "will be quarantined after this job" in gpu["why"]
    gpus.open_gate()
    assert gpus.wait() == 0 and gpus.wait("sweep") == 0
    wait_until(lambda: gpu_state(gpus, 0)["state"] == "quarantined", "the quarantine")


def test_a_driver_that_was_updated_holds_gpu_jobs_and_nothing_else(gpus):
    gpus.world.show(errors={"nvmlInit_v2": 18})
    shutil.copy(gpus.world.root + "/world.json", gpus.world.root + "/next")
    gpus.world.show()
    library = gpus.world.root + "/libnvidia-ml.so.1"
    shutil.copy(FAKE_NVML, library)
    shutil.copy(FAKE_NVML, library + ".new")
    update = 'mv "$LIBRARY.new" "$LIBRARY"; mv "$NEXT_WORLD" "$WORLD"; exit 1'
    gpus.script("updates", f"#!/bin/sh\n[ -e \"$NEXT_WORLD\" ] || exit 0\n{update}\n")
    gpus.env.update(PERGPU_NVML=library, LIBRARY=library, NEXT_WORLD=gpus.world.root + "/next")
    gpus.submit(grid("train", 1, 'gpus = 1\ncommand = ["updates"]'))
    wait_until(lambda: gpus.only()["class"], "its end")
    assert gpus.only()["class"] == "driver" and gpus.only()["state"] == "queued"
    wait_until(lambda: "no jobs start on GPUs: the NVIDIA driver was updated" in gpus.run("why", "@").stdout, "why")
    gpus.submit('[steps.cpu]\ncommand = ["stamp"]\n', name="cpu.toml")
    assert gpus.wait("cpu") == 0
    gpus.world.show()
    assert gpus.wait("sweep") == 0
    assert gpus.only("sweep")["attempt"] == 2


def test_a_probe_that_never_returns_leaves_the_other_evidence_as_it_is(gpus):
    gpus.env["TROUBLE"] = "hang=nvmlDeviceGetMemoryInfo_v2"
    gpus.submit(grid("train", 1, STEP))
    assert gpus.wait() == 1
    job = gpus.only()
    assert (job["class"], job["reason"]) == ("exit", "exit code 1")


def test_a_job_that_hangs_with_its_gpu_pays_no_retry(gpus):
    gpus.env.update(XID="119", HANGS="1")
    gpus.submit(grid("train", 1, STEP + '\nidle_timeout = "1s"\nretries = 1'))
    assert gpus.wait() == 0
    job, first = gpus.only(), first_attempt(gpus)
    assert (job["state"], job["attempt"], job["retries_left"]) == ("done", 2, 1)
    assert first["class"] == "hardware", first
    assert "(idle_timeout); gpu0 reported Xid 119" in first["reason"]


def test_a_gpu_that_hangs_has_said_why(gpus):
    gpus.env.update(XID="119", TROUBLE="hang=nvmlDeviceGetMemoryInfo_v2")
    gpus.submit(grid("train", 1, STEP))
    wait_until(lambda: gpus.only()["class"], "its end")
    assert gpus.only()["class"] == "hardware" and gpus.only()["state"] == "queued"
    gpu = gpu_state(gpus, 0)
    assert gpu["state"] == "quarantined" and "Xid 119" in gpu["why"]
    gpus.run("cancel", "@")


def test_a_kill_while_the_gpu_is_looked_at_loses_nothing(gpus):
    gpus.world.show(delay_ms={"nvmlDeviceGetCount_v2": 700})
    gpus.env["TROUBLE"] = "repair_pending"
    gpus.submit(grid("train", 1, STEP))
    wait_until(lambda: gpus.stamps.count("end") == 1, "the first end")
    wait_until(lambda: os.path.exists(f"{gpus.world.root}/troubles/{uuid(0)}"), "its last act")
    gpus.kill_coordinator()
    assert gpus.wait() == 0
    job, first = gpus.only(), first_attempt(gpus)
    assert (job["state"], job["attempt"]) == ("done", 2) and first["class"] == "hardware"
    assert gpus.stamps.count("start") == 2


def test_a_gpu_on_which_program_after_program_fails_and_elsewhere_succeeds_is_a_lemon(gpus):
    retried = STEP + '\nretries = { max = 1, delay = "1ms" }'
    for number in range(3):
        assert gpu_state(gpus, 0)["state"] != "quarantined"
        gpus.submit(grid("train", 1, retried), name=f"sweep{number}.toml")
        assert gpus.wait(f"sweep{number}") == 0
    assert gpus.stamps.of("start", 4) == [uuid(0), uuid(1)] * 3
    gpu = gpu_state(gpus, 0)
    assert gpu["state"] == "quarantined" and "jobs of 3 different steps failed on it" in gpu["why"]
    assert "--release 0" in gpu["why"]


def test_a_gpu_is_no_lemon_for_a_script_that_is_being_mended(gpus):
    for number in range(4):
        gpus.submit(grid("train", 1, STEP), name=f"bad{number}.toml")
        assert gpus.wait(f"bad{number}") == 1
        gpus.submit(grid("good", 1, STEP), "--devices", "1", name=f"good{number}.toml")
        assert gpus.wait(f"good{number}") == 0
    assert gpu_state(gpus, 0)["state"] == "free"


def test_a_gpu_whose_fault_shows_in_logs_only_is_believed_to_be_broken_at_the_second_job(gpus):
    gpus.env["WORDS"] = "RuntimeError: CUDA error: GPU is lost"
    moved_to_the_other_gpu(gpus, "hardware", "GPU is lost")
    assert gpu_state(gpus, 0)["state"] == "free"
    gpus.submit(grid("train", 1, STEP), name="second.toml")
    assert gpus.wait("second") == 0
    gpu = gpu_state(gpus, 0)
    assert gpu["state"] == "quarantined" and "2 jobs in a row ended on it" in gpu["why"]
    gpus.submit(grid("train", 3, STEP), name="third.toml")
    assert gpus.wait("third") == 0
    assert gpus.stamps.of("start", 4)[2:] == [uuid(0)] + [uuid(1)] * 4
