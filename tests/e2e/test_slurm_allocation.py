"""pergpu started inside an allocation of a real Slurm: the GPUs that Slurm gave it, and no others."""
import json
import os
import re
import shutil
import subprocess

import pytest
from harness import FAKE_NVML, LONG, PERGPU, read, wait_until

SWEEP = """
name = "inside"
[grid]
x = [1, 2, 3, 4, 5, 6]
[steps.train]
command = "stamp 0"
gpus = 1
"""


@pytest.fixture
def place(home):
    """A home as a user has it who names none; what runs in an allocation lies in a folder of that."""
    del home.env["PERGPU_HOME"]
    home.env["XDG_STATE_HOME"] = home.root + "/state"
    home.env["PATH"] = f"{os.path.dirname(PERGPU)}:{home.env['PATH']}"
    home.file("sweep.toml", SWEEP)
    return home


class Allocation:
    """A shell command in an allocation of its own."""

    def __init__(self, place, command, *options):
        self.place = place
        salloc = shutil.which("salloc", path="/usr/bin:/bin")
        self.process = subprocess.Popen(
            [salloc, "--quiet", *options, "sh", "-c", f"echo $SLURM_JOB_ID; {command}"], env=place.env, cwd=place.work,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        place.started.append(self.process)
        self.job = self.process.stdout.readline().strip()

    def end(self):
        out, err = self.process.communicate(timeout=120)
        return out, err

    def home(self):
        (machine,) = os.listdir(self.place.root + "/state/pergpu")
        return f"{self.place.root}/state/pergpu/{machine}/slurm-{self.job}"


def gpus_of(slurm, job):
    """What Slurm says of the GPUs of a job."""
    told = slurm.run("scontrol", "show", "job", "-d", job)
    (ranges,) = re.findall(r"GRES=gpu:\d+\(IDX:([\d,-]+)\)", told)
    gpus = set()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        gpus.update(range(int(first), int(last or first) + 1))
    return gpus


RUN = "pergpu run sweep.toml > /dev/null; pergpu ps -a --json; pergpu coordinator stop > /dev/null"


def test_salloc_of_4_of_8_gpus_uses_exactly_those(slurm, place):
    place.close_gate()
    first = Allocation(place, RUN, "--gres=gpu:4")
    place.until_running(4)
    place.file("other.toml", SWEEP.replace("inside", "other"))
    second = Allocation(place, RUN.replace("sweep.toml", "other.toml"), "--gres=gpu:2")
    place.until_running(6)
    given = gpus_of(slurm, first.job), gpus_of(slurm, second.job)
    assert len(given[0]) == 4 and len(given[1]) == 2 and not given[0] & given[1]
    assert place.stamps.count("start") == 6, "no more at once than there are GPUs"
    place.open_gate()
    for allocation, gpus, name in ((first, given[0], "inside"), (second, given[1], "other")):
        out, err = allocation.end()
        assert f"in Slurm job {allocation.job}: using GPUs" in err, err
        jobs = json.loads(out)["jobs"]
        assert {job["state"] for job in jobs} == {"done"} and {job["sweep"] for job in jobs} == {name}
        assert {int(job["gpus"][0]) for job in jobs} == gpus
    lines = place.stamps.lines()
    assert {int(line[4]) for line in lines} == given[0] | given[1]


def test_the_driver_shows_only_what_was_given(slurm, place):
    if not FAKE_NVML:
        pytest.skip("the fake NVML is not built")
    place.file("world.json", json.dumps({"gpus": 8}))
    place.env.update(PERGPU_NVML=FAKE_NVML, FAKE_NVML_SCENARIO=place.work + "/world.json", PERGPU_LOCKS=place.work)
    place.close_gate()
    other = Allocation(place, "sleep 1000", "--gres=gpu:3", "--kill-command=TERM")  # so that ours are not the first
    allocation = Allocation(place, RUN, "--gres=gpu:2")
    place.until_running(2)
    given = gpus_of(slurm, allocation.job)
    place.open_gate()
    out, err = allocation.end()
    slurm.run("scancel", other.job)
    other.end()
    assert {job["state"] for job in json.loads(out)["jobs"]} == {"done"}, out + err
    assert {job["lane"] for job in json.loads(out)["jobs"]} == {f"gpu{gpu}" for gpu in given} == {"gpu3", "gpu4"}


def test_a_batch_script_and_a_step_are_told_their_gpus(slurm, place):
    place.file("script.sh", f"#!/bin/sh\n( {RUN} ) > out.json\n")
    subprocess.run(["sbatch", "--wait", "--output=log.txt", "--gres=gpu:2", "script.sh"], check=True, timeout=120,
                   env=place.env, cwd=place.work, stdout=subprocess.DEVNULL)  # fmt: skip
    jobs = json.loads(read(place.work + "/out.json"))["jobs"]
    assert {job["state"] for job in jobs} == {"done"}
    assert {job["gpus"][0] for job in jobs} == {"0", "1"}
    subprocess.run(["srun", "--quiet", "--gres=gpu:3", "sh", "-c", RUN.replace("run sweep.toml", "run sweep.toml --rerun")],
                   check=True, timeout=120, env=place.env, cwd=place.work, stdout=open(place.work + "/out.json", "w"))  # fmt: skip
    jobs = json.loads(read(place.work + "/out.json"))["jobs"]
    assert {job["gpus"][0] for job in jobs} == {"0", "1", "2"} and {job["state"] for job in jobs} == {"done"}


def test_an_allocation_without_gpus_has_none(slurm, place):
    out, err = Allocation(place, "pergpu run sweep.toml; echo exit $?; pergpu coordinator stop").end()
    assert "exit 2" in out and "GPU" in err, out + err
    assert place.stamps.count("start") == 0


def test_where_slurm_does_not_answer_nothing_is_started(slurm, place):
    place.env["SLURM_JOB_ID"] = "4711"
    err = place.run("run", "sweep.toml", code=None).stderr
    assert "can't find the GPUs of Slurm job 4711" in err and "--devices" in err, err
    assert place.stamps.count("start") == 0 and not place.processes("coordinator run")


def test_a_home_that_is_named_is_no_allocations_own(slurm, place):
    place.env["PERGPU_HOME"] = place.path
    out, err = Allocation(place, "pergpu ps > /dev/null; pergpu coordinator status --json; pergpu coordinator stop > /dev/null", "--gres=gpu:1").end()
    assert json.loads(out)["home"] == place.path, err


@pytest.mark.skipif(not LONG, reason="Slurm is asked every half a minute: PERGPU_LONG=1")
def test_jobs_end_with_their_allocation(slurm, place):
    place.close_gate()
    allocation = Allocation(place, "pergpu run sweep.toml", "--gres=gpu:2")
    place.until_running(2)
    slurm.run("scancel", allocation.job)
    out, err = allocation.end()
    assert f"Slurm job {allocation.job}, is over" in err, err
    wait_until(lambda: not place.processes("coordinator run"), "the end of the coordinator", 90)
    states = [job["state"] for job in place.json("ps", "-a", env={"PERGPU_HOME": allocation.home()})["jobs"]]
    assert sorted(states) == ["cancelled"] * 2 + ["queued"] * 4
    place.run("coordinator", "stop", "--kill", env={"PERGPU_HOME": allocation.home()})
