"""A job offers metrics that never end: with `max_starting` its keeper reads them, and still hears everybody."""
import signal
import time

import pytest
from harness import LONG, alive, wait_until

PLANTS = {"endless": 'ln -s /dev/zero "$PERGPU_METRICS"', "sparse": 'truncate -s 8T "$PERGPU_METRICS"',
          "fifo": 'mkfifo "$PERGPU_METRICS"'}  # fmt: skip


def begin(home, more):
    """The pids of jobs of each kind, which run."""
    text = "[grid]\nplant = [" + ", ".join(f"'''{plant}'''" for plant in PLANTS.values()) + "]\n[steps.a]\n"
    text += f"""shell = 'eval "$plant"; echo "start $PERGPU_JOB $PERGPU_ATTEMPT $$" >>$STAMPS; exec sleep 1000'
max_starting = {len(PLANTS)}
grace = "1s"
{more}"""
    home.submit(text, "--lanes", len(PLANTS), name="s.toml")
    home.until_running(len(PLANTS))
    return home.stamps.of("start", 3)


def check_that_keepers_told(home, signals):
    """How it ended only a keeper that hears can say; one that doesn't is killed after the grace, with its job."""
    assert {job["signal"] for job in home.ps().values()} <= signals
    assert "does not answer" not in home.coordinator_log()


def test_its_timeout_ends_it(home):
    pids = begin(home, 'timeout = "1s"')
    home.wait()
    assert set(home.states().values()) == {"timeout"} and not any(map(alive, pids))
    check_that_keepers_told(home, {signal.SIGTERM})


@pytest.mark.skipif(not LONG, reason="the other ways to end a job: set PERGPU_LONG=1")
@pytest.mark.parametrize("command", [["cancel", "--kill", "s"], ["coordinator", "stop", "--kill"]])
def test_a_command_ends_it(home, command):
    pids = begin(home, "")
    asked = time.monotonic()
    home.run(*command)
    wait_until(lambda: not any(map(alive, pids)), "their ends")
    assert time.monotonic() - asked < 20  # grace and 5 s where there is a core to be had
    home.wait()
    assert set(home.states().values()) == {"cancelled"}
    check_that_keepers_told(home, {signal.SIGTERM, signal.SIGKILL})
