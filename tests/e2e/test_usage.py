"""What jobs use of the machine: read while they run, kept when they are over, learnt for the next ones."""
import json
import os
import socket

import pytest

from harness import FAKE_NVML, grid, read, wait_until

MIB = 1 << 20
# Allocates 100 MiB, takes a second of CPU time and writes 4 MiB to the disk; then it waits at the gate.
WORK = """
import fcntl, os, sys, time
held = b"x" * (100 << 20)
while time.process_time() < 1:
    sum(range(1000))
with open("written", "wb") as f:
    f.write(held[: 4 << 20])
    os.fsync(f.fileno())
with open(os.environ["GATE"]) as gate:
    fcntl.flock(gate, fcntl.LOCK_SH)
"""


def work(home):
    home.file("work.py", WORK)
    return f'command = ["/usr/bin/python3", "{home.work}/work.py"]'


def show(home, selector="@"):
    (job,) = home.json("show", selector)["jobs"]
    return job


def ask(home, **request):
    """The reply to one request, past the command line."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(home.path + "/run/coordinator.sock")
        lines = client.makefile("rw")
        for line in ({"hello": 1, "version": "test"}, request):
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            reply = json.loads(lines.readline())
        return reply


def test_a_job_that_takes_a_core_and_100_mib_shows_that(home):
    home.close_gate()
    home.submit(grid("train", 1, work(home)), "--lanes", 1)

    def full():
        usage = show(home)["usage"]
        now = usage and usage["now"] or {}
        return now.get("resident_bytes", 0) >= 100 * MIB and usage["mean"].get("cores", 0) > 0 and usage

    usage = wait_until(full, "a reading")
    assert usage["now"]["processes"] == 1
    assert "gpu_busy_percent" not in usage["now"]  # it has none: unknown, not zero
    job = home.only()
    assert job["resident_bytes"] >= 100 * MIB and job["gpu_busy_percent"] is None
    series = ask(home, op="usage", job=job["id"], step=1)["data"]
    assert series["step_s"] == 1 and series["buckets"][-1]["readings"] == 1
    least, mean, most = series["buckets"][-1]["resident_bytes"]
    assert least == mean == most >= 100 * MIB
    text = home.run("show", "@").stdout
    assert "cores on average" in text and "memory 1" in text, text

    home.open_gate()
    assert home.wait() == 0
    usage = show(home)["usage"]
    assert usage["now"] is None
    assert usage["most"]["resident_bytes"] >= 100 * MIB and 0 < usage["most"]["cores"] < 2
    assert usage["mean"]["cores"] <= usage["most"]["cores"]
    assert home.only()["resident_bytes"] is None


def counts_writes(folder):
    """Whether what is written there counts as written to a disk: not in memory, and by this kernel."""

    def written():
        lines = read("/proc/self/io", "").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("write_bytes")), 0)

    before = written()
    with open(folder + "/probe", "wb") as f:
        f.write(b"x" * MIB)
        os.fsync(f.fileno())
    return written() - before >= MIB


def test_what_was_written_to_the_disk_is_shown(home):
    if not counts_writes(home.work):
        pytest.skip("this kernel, or this file system, does not count the bytes of a process")
    home.close_gate()
    home.submit(grid("train", 1, work(home)), "--lanes", 1)
    wait_until(lambda: show(home)["usage"], "a reading")
    wait_until(lambda: show(home)["usage"]["written_bytes"] >= 4 * MIB, "4 MiB")
    home.open_gate()
    assert home.wait() == 0
    assert show(home)["usage"]["written_bytes"] >= 4 * MIB


def test_a_restarted_coordinator_goes_on_reading(home):
    home.close_gate()
    home.submit(grid("train", 1, work(home)), "--lanes", 1)
    wait_until(lambda: show(home)["usage"], "a reading")
    home.kill_coordinator()

    def read_again():
        usage = show(home)["usage"]
        return usage and usage["now"] and usage["now"]["resident_bytes"] >= 100 * MIB

    wait_until(read_again, "a reading of the next coordinator")
    home.open_gate()
    assert home.wait() == 0
    assert show(home)["usage"]["most"]["resident_bytes"] >= 100 * MIB


def test_reading_can_be_turned_off_and_nothing_known_is_shown_as_such(home):
    home.env["PERGPU_READ_USAGE"] = "off"
    home.submit(grid("train", 1, 'command = "sleep 1.5"'), "--lanes", 1)
    assert home.wait() == 0
    assert show(home)["usage"] is None
    assert ask(home, op="usage", job=home.only()["id"])["data"]["buckets"] == []


def test_a_pause_that_makes_no_sense_is_refused(home):
    home.env["PERGPU_READ_USAGE"] = "often"
    done = home.run("submit", home.file("s.toml", grid("train", 1, 'command = "true"')), code=3)
    assert "PERGPU_READ_USAGE" in done.stderr and "often" in done.stderr, done.stderr


def test_wrong_questions_of_usage_are_refused(home):
    home.submit(grid("train", 1, 'command = "true"'), "--lanes", 1)
    assert home.wait() == 0
    for request, words in (
        ({"job": 99}, "there is no job 99"),
        ({"job": 1, "attempt": 5}, "job 1 has no attempt 5"),
        ({"job": "1"}, "`job`"),
        ({"job": 1, "step": -1}, "`step`"),
        ({"job": 1, "from": "yesterday"}, "`from`"),
    ):
        reply = ask(home, op="usage", **request)
        assert not reply["ok"] and words in reply["error"], reply


def test_a_gpu_that_works_for_a_job_shows_what_it_does(home, tmp_path):
    world = tmp_path / "world.json"
    gpu = {"utilization": 97, "power_mw": 640000, "temperature_c": 71, "throttle": 4}
    world.write_text(json.dumps({"gpus": [gpu, {"power_mw": None}]}))
    home.env.update(PERGPU_NVML=FAKE_NVML, FAKE_NVML_SCENARIO=str(world))
    home.close_gate()
    home.submit(grid("train", 1, 'gpus = 1\ncommand = ["stamp"]'), "--devices", 0)
    wait_until(lambda: home.only()["gpu_busy_percent"] == 97, "a reading of the GPU")
    usage = show(home)["usage"]
    assert usage["now"]["gpu_memory_bytes"] == 4 * MIB and usage["now"]["gpu_power_w"] == 640
    assert usage["throttle"] == ["power-cap"]
    shown = home.json("gpus")
    first, second = shown["gpus"]
    assert first["busy_percent"] == 97 and first["power_w"] == 640 and first["throttle"] == ["power-cap"]
    assert second["busy_percent"] is None  # no job of ours is on it: nobody looks
    busy, free = shown["lanes"]
    assert busy["idle_now_s"] is None and busy["idle_s"] >= 0
    assert free["idle_now_s"] == free["idle_s"] > 0
    assert "97 %, 640 W, 71 °C, power-cap" in home.run("gpus").stdout
    home.open_gate()
    assert home.wait() == 0
    assert "GPU 97 % busy on average" in home.run("show", "@").stdout


def test_what_jobs_took_is_learnt_for_jobs_of_the_same_command(home):
    """Of a grid whose first parameter decides and whose second does not."""
    home.script("train", "#!/bin/sh\nsleep $1\n")
    step = '[steps.train]\ncommand = ["train", "{time}", "{seed}"]\n'
    text = f'name = "%s"\n[grid]\ntime = [1.1, 2.2]\nseed = [%s]\n{step}'
    home.submit(text % ("first", "0, 1"), "--lanes", 4, name="first.toml")
    assert home.wait("first") == 0
    home.submit(text % ("second", "7"), "--lanes", 1, name="second.toml")
    home.run("cancel", "second", "--kill")
    short, long = (show(home, f"second/{run}/train")["learnt"] for run in (0, 1))
    assert short["jobs"] == 2 and 1.0 < short["duration_s"] < long["duration_s"]
    assert long["jobs"] == 2 and long["duration_s"] > 2.0


def test_without_expect_the_longest_known_goes_first(home):
    home.script("train", "#!/bin/sh\nstamp\nsleep $1\n")
    step = '[steps.train]\ncommand = ["train", "{time}", "{seed}"]\n'
    text = f'name = "%s"\n[grid]\ntime = [1.1, 2.2]\nseed = [%s]\n{step}'
    home.submit(text % ("first", "0, 1"), "--lanes", 4, name="first.toml")
    assert home.wait("first") == 0
    seen = home.stamps.count("start")
    home.submit(text % ("second", "7"), "--lanes", 1, name="second.toml")
    assert home.wait("second") == 0
    ids = {f"{run}": show(home, f"second/{run}/train")["id"] for run in (0, 1)}
    started = [int(line[1]) for line in home.stamps.lines() if line[0] == "start"][seen:]
    assert started == [ids["1"], ids["0"]]
