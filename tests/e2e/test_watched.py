"""What pergpu does to a job that goes on for too long: signals ahead."""
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
    assert "SIGUSR1 1m before timeout" in shown
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
