"""How many run at once, and in which order."""
import os

import pytest

from harness import grid, groups_of, wait_until

WORK = 'command = ["stamp", "0.02"]'


def test_never_more_attempts_than_lanes(home):
    home.submit(grid("train", 16, WORK), "--lanes", 3)
    assert home.wait() == 0
    assert home.stamps.most_at_once() == 3


def test_lanes_of_one_sweep_leave_those_of_another_alone(home):
    home.close_gate()
    home.submit(grid("train", 3, 'command = ["stamp"]'), "--lanes", 2, name="a.toml")
    home.submit(grid("train", 3, 'command = ["stamp"]'), "--lanes", 3, name="b.toml")
    home.until_running(5)
    home.open_gate()
    assert home.wait("a", "b") == 0


def test_all_lanes_are_used_at_once(home):
    home.close_gate()
    home.submit(grid("train", 12, WORK), "--lanes", 8)
    home.until_running(8)
    home.open_gate()
    assert home.wait() == 0 and home.stamps.most_at_once() == 8


def test_max_parallel_bounds_a_step_and_leaves_lanes_to_the_others(home):
    text = grid("train", 6, WORK + "\nmax_parallel = 1")
    home.submit(text + "[steps.other]\n" + WORK, "--lanes", 4)
    assert home.wait() == 0
    assert home.stamps.most_at_once("train") == 1 and home.stamps.most_at_once() > 1


def test_a_limit_holds_across_sweeps(home):
    for name in ("a", "b"):
        text = grid("train", 5, WORK + '\nuses = ["disk"]', "[limits]\ndisk = 2")
        home.submit(text, "--lanes", 5, name=name + ".toml")
    assert home.wait("a", "b") == 0
    assert home.stamps.most_at_once() == 2


def test_the_last_value_of_a_limit_holds_with_a_warning(home):
    for name, value in (("a", 2), ("b", 1)):
        text = grid("train", 2, 'uses = ["disk"]\n' + WORK, f"[limits]\ndisk = {value}")
        done = home.run("submit", home.file(name + ".toml", text), "--lanes", 2)
        assert ("limit disk" in done.stderr) == (name == "b")
    assert home.wait("a", "b") == 0


def test_higher_priority_goes_first_then_the_older_sweep_then_file_order(home):
    home.close_gate()
    one = 'command = ["stamp"]\nuses = ["one"]'
    header = "[limits]\none = 1"
    home.submit(grid("first", 1, one, header), "--lanes", 2, name="first.toml")
    home.until_running()
    home.submit(grid("low", 2, one + "\npriority = -1", header), "--lanes", 2, name="low.toml")
    home.submit(grid("old", 2, one, header), "--lanes", 2, name="old.toml")
    home.submit(grid("new", 2, one, header), "--lanes", 2, name="new.toml")
    home.submit(grid("high", 2, one + "\npriority = 5", header), "--lanes", 2, name="high.toml")
    home.open_gate()
    assert home.wait("low", "old", "new", "high") == 0
    order = ["first", *(name for name in ("high", "old", "new", "low") for _ in range(2))]
    assert home.stamps.of("start", 5) == order
    assert home.stamps.of("start") == [1, 8, 9, 4, 5, 6, 7, 2, 3]


def test_the_longest_expected_goes_first(home):
    home.submit(grid("train", 3, 'expect = "{i}h"\n' + WORK), "--lanes", 1)
    assert home.wait() == 0
    assert home.stamps.of("start") == [3, 2, 1]


def test_why_names_the_limit_that_a_job_waits_for(home):
    home.close_gate()
    text = grid("train", 2, 'uses = ["disk"]\ncommand = ["stamp"]', "[limits]\ndisk = 1")
    home.submit(text, "--lanes", 4)
    home.until_running()
    assert "disk" in home.run("why", "sweep/1").stdout


def test_declared_cpus_and_memory_are_reservations(home):
    cores = home.json("gpus")["cpu_lanes"]
    home.submit(grid("train", 4, f"cpus = {cores}\n" + WORK), "--lanes", 4)
    assert home.wait() == 0
    assert home.stamps.most_at_once() == 1


def test_what_can_never_fit_is_refused_at_submit(home):
    text = home.file("s.toml", grid("train", 1, 'memory = "900TiB"\n' + WORK))
    assert "900" in home.run("submit", text, code=2).stderr
    assert home.json("ps", "-a")["jobs"] == []


READY = """import os, socket, subprocess
subprocess.run(["stamp"])
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b"STATUS=warm\\nREADY=1\\nPROGRESS=1/2", os.environ["PERGPU_NOTIFY"])
subprocess.run(["flock", "-s", os.environ["GATE"] + ".2", "true"])
"""


def test_max_starting_waits_for_ready(home):
    home.file("ready.py", READY)
    second = open(home.gate + ".2", "w")
    import fcntl

    fcntl.flock(second, fcntl.LOCK_EX)
    home.close_gate()
    text = grid("train", 3, 'command = ["python3", "-S", "ready.py"]\nmax_starting = 1')
    home.submit(text, "--lanes", 3)
    home.until_running(1)
    assert "still starting up" in home.run("why", "sweep/1").stdout
    home.open_gate()  # each tells READY=1 and lives on: all three run at once
    home.until_running(3)
    wait_until(lambda: [j["progress"] for j in home.ps().values()] == ["1/2"] * 3, "progress")
    assert {job["status"] for job in home.ps().values()} == {"warm"}
    assert home.stamps.most_at_once() == 1
    second.close()
    assert home.wait() == 0


def test_the_first_metrics_line_ends_the_start_up(home):
    home.close_gate()
    text = 'max_starting = 1\nshell = \'echo "{{}}" >>"$PERGPU_METRICS"; stamp\''
    home.submit(grid("train", 3, text), "--lanes", 3)
    home.until_running(3)
    home.open_gate()
    assert home.wait() == 0


EAT = """import os, time
open("eating", "w").close()
if os.fork() == 0: x = bytearray(400 << 20)
time.sleep(1000)
"""


def held(home, selector="@"):
    return home.json("show", selector)["jobs"][0]["limits_held"]


@pytest.mark.parametrize("by", ["groups", "watching"])
def test_memory_that_is_passed_ends_the_job_with_its_figures_and_no_neighbour(home, by):
    if by == "watching":
        home.env["PERGPU_CGROUP"] = "none"
    home.file("eat.py", EAT)
    home.close_gate()
    text = '[steps.neighbour]\nmemory = "100MiB"\ncommand = ["stamp"]\n'
    home.submit(text, "--lanes", 1, name="neighbour.toml")
    home.until_running()
    offered = home.json("coordinator", "status")["groups"]
    words = held(home)["memory"]
    if by == "groups" and "enforced by cgroup" not in words:
        pytest.skip("no memory groups here: " + offered)
    assert words.startswith("enforced by cgroup" if by == "groups" else "checked every 0.5 s"), words
    assert words in home.run("show", "neighbour").stdout
    text = '[steps.eat]\nmemory = "100MiB"\ncommand = ["python3", "-S", "eat.py"]\n'
    home.submit(text, "--lanes", 1, name="eat.toml")
    assert home.wait("eat") == 1
    job = home.only("eat")
    assert (job["state"], job["class"]) == ("failed", "oom-host")
    assert "100 MiB" in job["reason"] and "limit" in job["reason"], job["reason"]
    assert ("peak" in job["reason"]) == (by == "groups"), job["reason"]
    assert home.only("neighbour")["state"] == "running"
    home.open_gate()
    assert home.wait("neighbour") == 0
    home.run("coordinator", "stop")
    wait_until(lambda: not groups_of(home), "the end of its groups")


@pytest.mark.parametrize("by", ["groups", "watching"])
def test_grow_gives_the_next_attempt_more_memory(home, by):
    if by == "watching":
        home.env["PERGPU_CGROUP"] = "none"
    home.file("eat.py", "import time\nx = bytearray(120 << 20)\ntime.sleep(1.5)\n")
    step = 'memory = "50MiB"\nretries = { max = 3, delay = "1ms" }\ngrow = { memory = 2 }\n'
    home.submit("[steps.eat]\n" + step + 'command = ["python3", "-S", "eat.py"]', "--lanes", 1)
    assert home.wait() == 0
    assert home.only()["attempt"] == 3  # 50, 100, 200 MiB
    assert home.json("show", "@")["jobs"][0]["limits"]["memory"] == "200MiB"


def test_show_says_what_holds_each_limit(home):
    home.env["PERGPU_CGROUP"] = "none"
    home.close_gate()
    step = 'cpus = 1\nmemory = "1GiB"\ntimeout = "1h"\ncommand = ["stamp"]'
    home.submit("[steps.a]\n" + step, "--lanes", 1)
    home.until_running()
    by = held(home)
    assert by["timeout"] == "enforced by pergpu"
    assert by["memory"] == "checked every 0.5 s; the job is killed above it"
    assert by["cpus"].startswith("enforced by CPU affinity to cores ")
    shown = home.run("show", "@").stdout
    for name, words in by.items():
        assert f"{name}: {words}" in shown
    assert "PERGPU_CGROUP=none" in home.json("coordinator", "status")["groups"]
    home.open_gate()
    assert home.wait() == 0


@pytest.mark.parametrize("kills, cls", [(4, "oom-host"), (3, "signal")])
def test_a_kill_while_the_machine_has_no_memory_is_oom_host(home, kills, cls):
    home.env["PERGPU_CGROUP"] = "none"
    home.env["PERGPU_VMSTAT"] = home.file("vmstat", "nr_free_pages 1\noom_kill 3\nswap_ra 0\n")
    home.submit('[steps.a]\ncommand = ["sleep", "1000"]', "--lanes", 1)
    wait_until(lambda: home.only()["state"] == "running", "its start")
    record = home.only()["out"] + "/attempt.json"
    wait_until(lambda: os.path.exists(record), "its record")
    home.file("vmstat", f"nr_free_pages 1\noom_kill {kills}\nswap_ra 0\n")
    os.kill(home.json("show", "@")["jobs"][0]["last_attempt"]["pid"], 9)
    assert home.wait() == 1
    job = home.only()
    assert job["class"] == cls
    assert ("the machine ran out of memory" in job["reason"]) == (cls == "oom-host")


def test_groups_of_a_killed_keeper_are_removed(home):
    home.submit('[steps.a]\nmemory = "1GiB"\ncommand = ["sleep", "1000"]', "--lanes", 1)
    wait_until(lambda: home.only()["state"] == "running", "its start")
    if not groups_of(home):
        pytest.skip("no groups here: " + home.json("coordinator", "status")["groups"])
    killed = groups_of(home)
    keepers = home.keepers()
    home.kill_coordinator()
    for pid in keepers:
        os.kill(pid, 9)
    home.ps()  # starts the next coordinator
    wait_until(lambda: not set(killed) & set(groups_of(home)), "the end of its groups")
    wait_until(lambda: home.only()["attempt"] == 2 and home.only()["state"] == "running", "its next")
    home.run("cancel", "--kill", "@")
    home.wait()
