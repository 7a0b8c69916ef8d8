"""pergpu started inside an allocation of several nodes of a real Slurm: each job is a step on one of them."""
import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import start_slurm
from harness import PERGPU, alive, descendants, read, wait_until
from test_slurm import long

SWEEP = """
name = "wide"
[grid]
x = [1, 2, 3, 4, 5, 6]
[steps.train]
shell = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES > node; stamp 0"
cwd = "{out}"
gpus = 1
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
"""
ONE_STEP = SWEEP[: SWEEP.index("[steps.evaluate]")]
GPUS = ("--nodes=2", "--gres=gpu:2", "--ntasks-per-node=1", "--cpus-per-task=4")


@pytest.fixture(scope="module")
def two_nodes():
    cluster = start_slurm(nodes=2)
    yield cluster
    cluster.stop()


@pytest.fixture
def place(two_nodes, home):
    two_nodes.clear()
    home.env.update(two_nodes.env)
    del home.env["PERGPU_HOME"]
    home.env["XDG_STATE_HOME"] = home.root + "/state"
    home.env["PATH"] = f"{os.path.dirname(PERGPU)}:{home.env['PATH']}"
    home.file("sweep.toml", SWEEP)
    yield home
    home.open_gate()
    two_nodes.clear()


def salloc(place, command, *options):
    """A shell command in an allocation; its first line of output is the number of that."""
    process = subprocess.Popen(
        [shutil.which("salloc", path="/usr/bin:/bin"), "--quiet", *options, "sh", "-c", f"echo $SLURM_JOB_ID; {command}"],
        env=place.env, cwd=place.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    place.started.append(process)
    process.job = process.stdout.readline().strip()
    return process


def end(process):
    out, err = process.communicate(timeout=120)
    return out, err


def jobs_of(out):
    return {f"{job['run']}/{job['step']}": job for job in json.loads(out)["jobs"]}


RUN = "pergpu run sweep.toml > /dev/null; pergpu ps -a --json; pergpu coordinator stop > /dev/null"


def test_its_nodes_are_used_and_no_gpu_twice(two_nodes, place):
    place.close_gate()
    allocation = salloc(place, RUN, *GPUS)
    place.until_running(4)
    steps = two_nodes.run("squeue", "--steps", "-h", "-o", "%j %N").splitlines()
    nodes = [line.split()[1] for line in steps if line.startswith("wide-")]
    assert sorted(nodes) == ["n0", "n0", "n1", "n1"], steps
    assert place.stamps.count("start") == 4, "no more at once than there are GPUs"
    place.open_gate()
    out, err = end(allocation)
    assert f"in Slurm job {allocation.job}: using its 2 nodes" in err, err
    jobs = jobs_of(out)
    assert {job["state"] for job in jobs.values()} == {"done"} and len(jobs) == 12, out + err
    assert {job["node"] for job in jobs.values()} == {"n0", "n1"}
    seen = {read(f"{place.work}/runs/wide/{name}/node") for name in jobs if name.endswith("train")}
    assert seen == {"n0 0\n", "n0 1\n", "n1 0\n", "n1 1\n"}


def test_a_coordinator_that_is_killed_loses_nothing(two_nodes, place):
    place.close_gate()
    allocation = salloc(place, RUN, *GPUS)
    place.until_running(4)
    (coordinator,) = (pid for pid, line in descendants().items() if "coordinator run" in line)
    os.kill(coordinator, signal.SIGKILL)
    wait_until(lambda: not alive(coordinator), "its end")
    place.open_gate()
    out, err = end(allocation)
    jobs = jobs_of(out)
    assert {job["state"] for job in jobs.values()} == {"done"}, out + err
    assert place.stamps.count("start") == 12, "each of them ran once"


def test_what_is_cancelled_ends_and_leaves_its_place(two_nodes, place):
    place.close_gate()
    allocation = salloc(place, RUN, *GPUS)
    place.until_running(4)
    (machine,) = os.listdir(place.root + "/state/pergpu")
    home = {"PERGPU_HOME": f"{place.root}/state/pergpu/{machine}/slurm-{allocation.job}"}
    place.run("cancel", "wide/0", env=home)
    place.until_running(5)
    place.open_gate()
    out, err = end(allocation)
    jobs = jobs_of(out)
    assert jobs["00-x=1/train"]["state"] == "cancelled" and jobs["00-x=1/evaluate"]["state"] in ("cancelled", "skipped")
    assert [job["state"] for job in jobs.values()].count("done") == 10, out + err


@long
def test_what_is_cancelled_is_sent_term_once(two_nodes, place):
    place.file("sweep.toml", """
name = "wide"
[steps.train]
shell = "trap 'echo TERM >> terms' TERM; stamp 0; while :; do sleep 0.05; done"
grace = "3s"
""")  # fmt: skip
    place.close_gate()
    allocation = salloc(place, RUN, *GPUS)
    place.until_running()
    (machine,) = os.listdir(place.root + "/state/pergpu")
    home = {"PERGPU_HOME": f"{place.root}/state/pergpu/{machine}/slurm-{allocation.job}"}
    wait_until(lambda: "running" in place.run("ps", env=home).stdout, "a running job")
    place.run("cancel", "wide", env=home)
    out, err = end(allocation)
    (job,) = jobs_of(out).values()
    assert job["state"] == "cancelled", out + err
    assert read(f"{place.work}/terms") == "TERM\n"


def test_what_no_node_has_is_held_with_words(two_nodes, place):
    place.file("sweep.toml", ONE_STEP.replace("gpus = 1", "gpus = 1\ncpus = 5"))
    out, err = end(salloc(place, RUN, *GPUS))
    job = jobs_of(out)["00-x=1/train"]
    assert job["state"] == "held" and "asks for 1 GPU and 5 cores on one node" in job["reason"], job
    assert place.stamps.count("start") == 0


def test_other_places_are_named_where_they_do_not_go_together(two_nodes, place):
    command = "pergpu run sweep.toml --on slurm; PERGPU_HOME=$HOME/other pergpu run sweep.toml; echo $?"
    out, err = end(salloc(place, command, *GPUS))
    assert out.strip() == "2" and "--on slurm is not needed inside an allocation of 2 nodes" in err, out + err
    assert "PERGPU_HOME is set" in err and place.stamps.count("start") == 0


@long
def test_a_step_that_does_not_begin_is_told_with_its_words(two_nodes, place):
    place.file("sweep.toml", ONE_STEP)
    place.script("bin/srun", "#!/bin/sh\necho 'srun: error: no step today' >&2\nexit 1\n")
    place.env["PATH"] = f"{place.work}/bin:{place.env['PATH']}"
    out, err = end(salloc(place, RUN, *GPUS))
    job = jobs_of(out)["00-x=1/train"]
    assert job["state"] == "held" and "without reporting a result" in job["reason"], job
    said = job["reason"].rpartition(" ")[2]
    assert "no step today" in read(said)
