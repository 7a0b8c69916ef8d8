"""kill -9 of the coordinator, of keepers, of both: jobs go on, the queue drains with nobody typing
a command, nothing runs twice, every exit status is right."""
import contextlib
import fcntl
import json
import os
import random
import signal
import time

import pytest

from harness import LONG, alive, descendants, grid, read, wait_until

# Job i works a little and exits with i % 5 (2 would be a user error: fine, too).
JOBS = 'command = ["sh", "-c", "exec stamp 0.08 $(({i} % 5))"]'


def each_started_once(home, count):
    """By what the jobs themselves say: an attempt may be recorded and never have started."""
    return sorted(home.stamps.of("start")) == list(range(1, count + 1))


def drained(home, count):
    wait_until(lambda: home.stamps.count("end") >= count, f"{count} ended jobs")


def test_sixty_jobs_survive_five_kills_of_the_coordinator_with_nobody_typing_a_command(home):
    home.submit(grid("train", 60, JOBS), "--lanes", 4)
    for killed in range(5):
        home.until_running(6 + 10 * killed)
        home.kill_coordinator()
    drained(home, 60)  # no pergpu command was run since the submit
    assert each_started_once(home, 60)
    assert home.wait() == 1
    for job in home.ps().values():
        code = job["index"] % 5
        assert (job["state"], job["exit"]) == ("failed" if code else "done", code), job


def test_a_job_that_ends_while_no_coordinator_lives_is_recorded_with_its_status(home):
    home.close_gate()
    home.submit(grid("train", 3, 'command = ["sh", "-c", "exec stamp 0 {i}"]'), "--lanes", 3)
    home.until_running(3)
    os.kill(home.coordinator(), signal.SIGSTOP)  # it cannot notice, and is then killed
    home.open_gate()
    drained(home, 3)
    home.kill_coordinator()
    home.wait()
    assert [job["exit"] for job in home.ps().values()] == [0, 1, 2]


def test_what_was_killed_with_its_keeper_was_lost_however_late_that_is_seen(home):
    """A container that is put away and comes back later: the job's time has passed, and it had no part in that."""
    home.close_gate()
    home.submit(grid("train", 1, 'command = ["stamp"]\ntimeout = "2s"'), "--lanes", 1)
    home.until_running(1)
    wait_until(lambda: home.only()["state"] == "running", "its start")
    for stopped in (home.coordinator(), *home.keepers()):
        os.kill(stopped, signal.SIGSTOP)  # so that neither sees the other's end
    for victim in (home.coordinator(), *home.keepers(), home.stamps.of("start", 3)[0]):
        os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() > began + 2.1, "the end of the job's time")
    home.open_gate()
    assert home.wait() == 0
    assert [attempt["class"] for attempt in home.json("show", "sweep/0")["jobs"][0]["attempts"]] == ["lost", "ok"]


def test_a_record_keeps_what_it_said_at_the_start_when_another_coordinator_ends_it(home):
    home.close_gate()
    home.submit(grid("train", 1, 'command = ["stamp"]\ncwd = "/"'), "--lanes", 1)
    home.until_running(1)
    path = home.only("sweep/0")["out"] + "/attempt.json"
    wait_until(lambda: os.path.exists(path), "the record of the start")
    before = json.loads(read(path))
    home.kill_coordinator()
    home.open_gate()
    assert home.wait() == 0
    wait_until(lambda: json.loads(read(path))["state"] == "done", "the record of the end")
    after = json.loads(read(path))
    assert after["environment"]["set"] and after["cwd"] == "/"
    for key in ("argv", "cwd", "files", "environment", "git", "starting_at", "lane"):
        assert after[key] == before[key], key


def killing_at_once(home, *victims):
    """The record of an attempt that kills these, and ends before its start was written down."""
    home.run("coordinator", "start")
    home.file("code.sh", f"[ -e again ] && exit; touch again; kill -9 {' '.join(victims)}\n")
    keys = f'command = ["sh", "code.sh"]\nenv = {{ GIVEN = "{{i}}", COORDINATOR = "{home.coordinator()}" }}'
    home.submit(grid("train", 1, keys), "--lanes", 1)
    assert home.wait() == 0
    path = home.only()["out"] + ("/attempt.1.json" if home.only()["attempt"] > 1 else "/attempt.json")
    wait_until(lambda: '"class"' in read(path, ""), "the record of the end")
    return json.loads(read(path))


def test_a_record_keeps_what_the_start_knew_of_an_attempt_that_ended_at_once(home):
    record = killing_at_once(home, "$COORDINATOR")
    assert record["state"] == "done" and record["environment"]["set"]["GIVEN"] == "0"
    assert list(record["files"]) == ["code.sh"] and "PATH" in record["environment"]["inherited"]


def test_what_the_start_knew_is_found_out_again_when_its_keeper_is_killed_as_soon(home):
    record = killing_at_once(home, "$COORDINATOR", "$PPID")
    assert record["class"] == "lost" and record["environment"]["set"]["GIVEN"] == "0"
    assert list(record["files"]) == ["code.sh"] and record["run"] == "00"


def test_a_coordinator_that_is_stopped_leaves_its_jobs_to_the_next_one(home):
    home.close_gate()
    home.submit(grid("train", 4, 'command = ["stamp"]'), "--lanes", 2)
    home.until_running(2)
    first = home.coordinator()
    home.run("coordinator", "stop")
    wait_until(lambda: not alive(first), "its end")
    home.open_gate()
    assert home.wait() == 0
    assert each_started_once(home, 4)


def test_an_accepted_submit_survives_a_kill_and_submitting_again_adds_nothing(home):
    home.close_gate()
    text = grid("train", 5, 'command = ["stamp"]')
    home.submit(text, "--lanes", 1)
    home.kill_coordinator()
    reply = home.submit(text, "--lanes", 1)
    assert (reply["new"], reply["kept"], reply["jobs"]) == (0, 5, [1, 2, 3, 4, 5])
    home.open_gate()
    assert home.wait() == 0
    assert each_started_once(home, 5)


def test_a_watching_run_goes_on_over_a_kill_and_ends_with_the_right_code(home):
    home.close_gate()
    text = home.file("s.toml", grid("train", 3, 'command = ["sh", "-c", "exec stamp 0 {i}"]'))
    follower = home.start("run", text, "--lanes", 3)
    home.until_running(3)
    home.kill_coordinator()
    wait_until(home.coordinator, "the next coordinator")
    home.open_gate()
    out, err = follower.communicate(timeout=60)
    assert follower.returncode == 1 and "1 done, 2 failed" in out, out + err


def test_a_killed_keepers_tree_is_ended_and_its_job_runs_again_uncharged(home):
    home.script("tree", "#!/bin/sh\n[ $PERGPU_ATTEMPT = 2 ] || setsid sleep 1000 &\nexec stamp\n")
    home.close_gate()
    home.submit('[steps.a]\ncommand = ["tree"]\n', "--lanes", 1)
    home.until_running(1)
    grandchild = wait_until(lambda: home.processes("sleep 1000"), "the grandchild")[0]
    os.kill(home.keepers()[0], signal.SIGKILL)
    home.until_running(2)
    assert not alive(grandchild) and home.stamps.count("end") == 0
    home.open_gate()
    assert home.wait() == 0
    job = home.only()
    assert (job["attempt"], job["state"], job["retries_left"]) == (2, "done", 0)
    assert home.stamps.of("start", 2) == [1, 2] and home.stamps.of("end", 2) == [2]


def test_a_lost_job_is_not_run_again_when_its_step_forbids_it(home):
    home.close_gate()
    home.submit('[steps.a]\nrerun = false\ncommand = ["stamp"]\n')
    home.until_running()
    os.kill(home.keepers()[0], signal.SIGKILL)
    assert home.wait() == 1
    job = home.only()
    assert (job["state"], job["class"]) == ("lost", "lost") and "rerun" in job["reason"]
    assert not alive(home.stamps.of("start", 3)[0])


def test_keepers_and_coordinator_killed_at_once_lose_nothing_and_run_nothing_twice_at_once(home):
    home.close_gate()
    home.submit(grid("train", 4, 'command = ["stamp"]'), "--lanes", 2)
    home.until_running(2)
    first = home.stamps.of("start", 3)
    coordinator, keepers = home.coordinator(), home.keepers()
    for pid in (coordinator, *keepers):
        os.kill(pid, signal.SIGKILL)
    home.run("ps")  # somebody has to start the next one: nothing of pergpu is left
    home.until_running(4)
    assert not any(alive(pid) for pid in first)
    home.open_gate()
    assert home.wait() == 0
    assert {job["attempt"] for job in home.ps("sweep/0", "sweep/1").values()} == {2}
    assert {job["attempt"] for job in home.ps("sweep/2", "sweep/3").values()} == {1}


def test_a_closed_terminal_ends_no_job(home):
    home.close_gate()
    text = home.file("s.toml", grid("train", 3, 'command = ["stamp"]'))
    follower = home.start("run", text, "--lanes", 2, start_new_session=True)
    home.until_running(2)
    os.killpg(follower.pid, signal.SIGHUP)
    assert follower.wait(60) == 129
    home.open_gate()
    assert home.wait() == 0
    assert list(home.states().values()) == ["done"] * 3


def test_one_of_many_coordinators_that_start_at_once_wins(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'))
    others = [home.start("coordinator", "run") for _ in range(4)]
    assert [other.wait(60) for other in others] == [0] * 4
    # A child of it that has not executed its program yet looks the same for a moment.
    wait_until(lambda: len(home.processes("coordinator run")) == 1, "a single coordinator")
    home.open_gate()
    assert home.wait() == 0


def test_a_coordinator_that_was_killed_and_is_not_quite_gone_is_waited_for(home):
    with open(home.path + "/coordinator.lock", "w") as of_the_dying:
        fcntl.flock(of_the_dying, fcntl.LOCK_EX)
        asked = home.start("ps", "-a")
        wait_until(home.coordinator, "the next coordinator")
        assert asked.poll() is None
    assert asked.wait(60) == 0, asked.stderr.read()


def test_two_homes_know_nothing_of_each_other(new_home):
    first, second = new_home(), new_home()
    for home in (first, second):
        home.submit(grid("train", 2, 'command = ["stamp"]'))
        assert home.wait() == 0
    assert first.coordinator() != second.coordinator()
    assert [len(home.ps()) for home in (first, second)] == [2, 2]


@pytest.mark.parametrize("seed", range(20 if LONG else 1))
def test_kills_at_random_instants_lose_and_double_nothing(home, seed):
    chance = random.Random(seed)
    count = 150 if LONG else 50
    home.submit(grid("train", count, JOBS.replace("0.08", "0.02")), "--lanes", 4)
    for _ in range(30 if LONG else 10):
        time.sleep(chance.uniform(0, 0.15))  # an instant, nothing to wait for
        victims = home.keepers() if chance.random() < 0.3 else [home.coordinator()]
        for pid in filter(None, victims):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        home.run("ps")
    home.wait()
    live = {}
    for what, job, attempt, *_ in home.stamps.lines():
        if what == "start":
            assert attempt > live.get(job, 0)
            live[job] = attempt
        else:  # an earlier attempt was gone before this one started
            assert attempt == live[job]
    codes = {job["id"]: (job["state"], job["exit"]) for job in home.ps().values()}
    assert codes == {i + 1: ("failed" if i % 5 else "done", i % 5) for i in range(count)}
    assert set(home.stamps.of("end")) == set(codes)


@pytest.mark.skipif(not LONG, reason="takes 70 s; set PERGPU_LONG=1")
def test_all_of_pergpu_leaves_after_a_minute_without_work(home):
    home.submit(grid("train", 2, 'command = ["stamp"]'))
    assert home.wait() == 0
    wait_until(lambda: not descendants(), "the end of all", deadline=140)


def test_the_coordinator_and_its_keepers_leave_when_told_to(home):
    home.submit(grid("train", 2, 'command = ["stamp"]'))
    assert home.wait() == 0
    home.run("coordinator", "stop")
    wait_until(lambda: not descendants(), "the end of all")
    assert read(home.path + "/coordinator.log", "") == ""
