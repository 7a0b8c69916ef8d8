"""What pergpu does to a job that goes on for too long: signals ahead, silence, stalls."""
import os

import pytest

from harness import read, wait_until

# Says when it can be signalled, then works until it is; $1: what it exits with at each attempt.
SAVES = """#!/bin/sh
codes=$1
trap 'echo "saved $PERGPU_JOB $PERGPU_ATTEMPT $$" >>"$STAMPS"; sleep 0.2; exit $(echo $codes | cut -d, -f$PERGPU_ATTEMPT)' USR1
echo "start $PERGPU_JOB $PERGPU_ATTEMPT $$" >>"$STAMPS"
while :; do sleep 0.05; done
"""


def saves(home, codes, extra):
    home.script("saves", SAVES)
    home.submit(f'[steps.a]\nsignal = "USR1@1m"\n{extra}\ncommand = ["saves", "{codes}"]')
    home.until_running()


def test_a_job_that_saves_at_its_signal_goes_on_in_its_next_attempt(home):
    saves(home, "75,0", 'timeout = "61s"')
    shown = home.run("show", "@").stdout
    assert "SIGUSR1 1m before the timeout" in shown
    assert home.wait() == 0
    job = home.only()
    assert (job["state"], job["attempt"]) == ("done", 2)
    assert home.stamps.of("saved", 2) == [1, 2]
    (whole,) = home.json("show", "@")["jobs"]
    assert [a["class"] for a in whole["attempts"]] == ["requeue", "ok"]


def test_who_knows_nothing_of_the_signal_has_timed_out(home):
    home.submit('[steps.a]\nsignal = "USR1@1m"\ntimeout = "61s"\ncommand = ["sleep", "1000"]')
    assert home.wait() == 1
    job = home.only()
    assert (job["state"], job["class"], job["signal"]) == ("timeout", "timeout", 10)
    assert "SIGUSR1" in job["reason"]


def test_a_cancel_lets_the_job_save_and_it_stays_cancelled(home):
    saves(home, "75", "")
    home.run("cancel", "@")
    assert home.wait() == 1
    job = home.only()
    assert (job["state"], job["exit"], home.stamps.count("saved")) == ("cancelled", 75, 1)


def test_a_cancel_is_waited_for_by_the_next_coordinator_and_signals_once(home):
    # Not saved by a signal alone: it waits at the gate, with the signal received.
    home.script("slow", "#!/bin/sh\ntrap 'echo saved 1 1 1 >>$STAMPS; flock -s $GATE true; exit 0' USR1\n"
                        "echo start 1 1 1 >>$STAMPS\nwhile :; do sleep 0.05; done\n")  # fmt: skip
    home.close_gate()
    home.submit('[steps.a]\nsignal = "USR1@1h"\ncommand = ["slow"]')
    home.until_running()
    home.run("cancel", "@")
    wait_until(lambda: home.stamps.count("saved"), "the signal")
    home.kill_coordinator()
    assert home.only()["state"] == "stopping"  # and the keeper was told again
    home.open_gate()
    assert home.wait() == 1
    job = home.only()
    assert (job["state"], job["exit"], home.stamps.count("saved")) == ("cancelled", 0, 1)


def test_a_kill_sends_no_signal_ahead(home):
    saves(home, "0", "")
    home.run("cancel", "--kill", "@")
    assert home.wait() == 1
    assert (home.only()["signal"], home.stamps.count("saved")) == (9, 0)


def test_a_silent_job_is_ended_by_its_idle_timeout_and_a_talking_one_is_not(home):
    talks = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $i; sleep 0.1; done"
    home.submit(f'[defaults]\nidle_timeout = "1s"\n[steps.silent]\ncommand = ["sleep", "1000"]\n'
                f'[steps.talks]\nshell = "{talks}"\n', "--lanes", 2)  # fmt: skip
    assert home.wait() == 1
    jobs = {job["step"]: job for job in home.ps().values()}
    assert jobs["talks"]["state"] == "done"
    assert (jobs["silent"]["state"], jobs["silent"]["class"]) == ("failed", "stall")
    assert "no output for 1s (idle_timeout)" in jobs["silent"]["reason"]


def test_a_sleeping_job_stalls_with_its_stacks_on_disk_and_a_spinning_one_does_not(home):
    home.script("hang", "#!/bin/sh\nsleep 1000 --token=hunter2 2>/dev/null || sleep 1000\n")
    spin = "timeout 3 sh -c 'while :; do :; done'; true"
    home.submit('[defaults]\nstall = "1s"\n[steps.hangs]\nretries = { max = 1, delay = "1ms" }\n'
                'command = ["hang", "--token", "hunter2"]\n'
                f'[steps.spins]\nshell = "{spin}"\n', "--lanes", 2)  # fmt: skip
    assert home.wait() == 1
    jobs = {job["step"]: job for job in home.ps().values()}
    assert jobs["spins"]["state"] == "done"
    job = jobs["hangs"]
    assert (job["state"], job["class"], job["attempt"]) == ("failed", "stall", 2)
    assert job["out"] + "/stacks.txt" in home.run("why", str(job["id"])).stdout
    for name in ("stacks.1.txt", "stacks.txt"):
        stacks = read(f"{job['out']}/{name}")
        assert "(sleep), state S" in stacks and "thread" in stacks
        assert "hunter2" not in stacks and "--token ***" in stacks
    assert os.listdir(job["out"]).count("log.1.txt") == 1


@pytest.mark.parametrize("umask, mode", [(0o077, 0o600), (0o022, 0o644)])
def test_stacks_may_be_read_by_those_who_may_read_the_log(home, umask, mode):
    home.start("coordinator", "run", "--foreground", umask=0)
    wait_until(lambda: home.run("ps", code=None).returncode == 0, "a coordinator")
    home.submit('[steps.a]\nstall = "1s"\ncommand = ["sleep", "1000"]', umask=umask)
    assert home.wait() == 1
    assert os.stat(home.only()["out"] + "/stacks.txt").st_mode & 0o777 == mode


def test_show_says_how_quiet_jobs_are_watched(home):
    home.close_gate()
    home.submit('[steps.a]\nstall = true\nidle_timeout = "2h"\ncommand = ["stamp"]')
    (job,) = home.json("show", "@")["jobs"]
    assert job["limits"]["stall"] == "45m"
    assert job["limits_held"]["stall"] == "checks log output, CPU time"
    assert job["limits_held"]["idle_timeout"] == "checks log output"
    home.open_gate()
    assert home.wait() == 0
