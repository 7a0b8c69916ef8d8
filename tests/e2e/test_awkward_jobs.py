"""Jobs that misbehave: each ends in the right state with a plain reason, its lane comes back, and
nothing of it is left running (which the fixture `home` checks at the end of every test)."""
import os
import signal

import pytest

from harness import LONG, alive, read, wait_until


def run(home, step, lanes=1):
    """The one job of a sweep of one step, after its end; the lane must serve a second sweep."""
    home.submit("[steps.a]\n" + step, "--lanes", lanes, name="awkward.toml")
    home.wait("awkward")
    assert_lane_is_back(home)
    return home.only("awkward")


def assert_lane_is_back(home):
    home.submit('[steps.after]\ncommand = ["true"]\n', "--lanes", 1, name="after.toml")
    assert home.wait("after") == 0


def ended(job):
    return job["state"], job["class"], job["reason"]


def test_one_that_ignores_sigterm_is_killed_after_its_grace(home):
    home.script("stubborn", '#!/bin/sh\ntrap "echo asked" TERM\nstamp\nwhile :; do sleep 0.01; done\n')
    home.submit('[steps.a]\ngrace = "100ms"\ncommand = ["stubborn"]\n', name="awkward.toml")
    wait_until(lambda: home.stamps.count("end"), "its trap")
    home.run("cancel", "awkward")
    home.wait("awkward")
    job = home.only("awkward")
    assert ended(job) == ("cancelled", "cancelled", "cancelled by hand")
    assert job["signal"] == signal.SIGKILL and "asked" in read(job["log"])
    assert_lane_is_back(home)


def test_one_that_obeys_sigterm_may_clean_up(home):
    script = "#!/bin/sh\ntrap 'echo saved; exit 0' TERM\nstamp\nwhile :; do sleep 0.01; done\n"
    home.script("polite", script)
    home.submit('[steps.a]\ncommand = ["polite"]\n', name="awkward.toml")
    wait_until(lambda: home.stamps.count("end"), "its trap")
    home.run("cancel", "awkward")
    assert home.wait("awkward") == 1
    job = home.only("awkward")
    assert (job["state"], job["exit"]) == ("cancelled", 0) and read(job["log"]).endswith("saved\n")


def test_one_that_stopped_itself_is_ended_by_cancel(home):
    home.submit('[steps.a]\nshell = "stamp; kill -STOP $$"\n', name="awkward.toml")
    wait_until(lambda: home.stamps.count("end"), "its last words")
    home.run("cancel", "awkward")
    home.wait("awkward")
    assert (home.only("awkward")["state"], home.only("awkward")["signal"]) == ("cancelled", 15)


@pytest.mark.parametrize(
    "leave",
    [
        "setsid sleep 1000 &",
        "(setsid sh -c 'sleep 1000 & exit' &)",
        "setsid env -i /bin/sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &",
    ],
    ids=["setsid", "double_fork", "no_environment_and_deaf"],
)
def test_one_that_leaves_processes_behind_is_done_and_they_are_ended(home, leave):
    home.script("leaver", f"#!/bin/sh\n{leave}\nsleep 0.02\necho $! >pid\nexit 0\n")
    job = run(home, 'grace = "100ms"\ncommand = ["leaver"]')
    assert (job["state"], job["exit"]) == ("done", 0)
    pid = read(home.work + "/pid").strip()
    assert not pid or not alive(int(pid))


def test_one_that_cannot_be_killed_is_named_and_its_lane_stays_closed(home, freeze):
    home.submit('[steps.a]\ncommand = ["sleep", "1000"]\n', "--lanes", 1, name="awkward.toml")
    wait_until(lambda: home.only("awkward")["state"] == "running", "its start")
    pid = int(home.json("show", "awkward")["jobs"][0]["last_attempt"]["pid"])
    freeze(pid)
    home.run("cancel", "--kill", "awkward")
    words = f"process {pid} (sleep) cannot be killed: uninterruptible sleep"
    wait_until(lambda: words in home.run("why", "awkward").stdout, "the words")
    home.submit('[steps.b]\ncommand = ["true"]\n', "--lanes", 1, name="other.toml")
    assert home.wait("other") == 0  # its own lane
    assert home.only("awkward")["state"] == "stopping"
    home.kill_coordinator()
    wait_until(lambda: words in home.run("why", "awkward").stdout, "the words again")
    freeze.thaw()
    home.wait("awkward")
    assert ended(home.only("awkward"))[:2] == ("cancelled", "cancelled")


def test_one_that_writes_a_huge_log_is_done_and_the_coordinator_stays_small(home):
    size = 1_000_000_000 if LONG else 200_000_000
    job = run(home, f'shell = "yes some line of a log | head -c {size}"')
    assert job["state"] == "done" and os.path.getsize(job["log"]) == size
    status = read(f"/proc/{home.coordinator()}/status")
    kib = int(status.split("VmHWM:")[1].split()[0])
    # AddressSanitizer keeps what was freed, up to 256 MB of it.
    assert kib < (600_000 if "ASAN_OPTIONS" in os.environ else 200_000)
    assert home.run("logs", "-n", "1", "awkward").stdout.endswith("\n"[: size % 19 == 0])


def test_one_whose_program_is_missing_names_it(home):
    job = run(home, 'command = ["no-such-program"]\nretries = 3')
    assert ended(job)[:2] == ("failed", "user-error") and job["attempt"] == 1
    assert "command not found: no-such-program (not in the PATH" in job["reason"]


def test_one_that_is_not_executable_names_what_is_wrong(home):
    home.file("plain", "echo hi\n", 0o644)
    job = run(home, 'command = ["./plain"]')
    assert job["state"] == "failed" and "plain" in job["reason"]
    assert "./plain is not executable; `chmod +x ./plain`" in job["reason"]


def test_one_whose_folder_is_missing_names_it(home):
    job = run(home, 'cwd = "nowhere"\ncommand = ["true"]')
    assert ended(job)[:2] == ("failed", "user-error")
    assert home.work + "/nowhere" in job["reason"] and "No such file" in job["reason"]


def test_one_whose_result_folder_cannot_be_made_names_it(home):
    home.file("runs/awkward/00/a", "a file where the folder belongs")
    job = run(home, 'command = ["true"]')
    assert job["state"] == "failed" and "/runs/awkward/00/a" in job["reason"]


def test_one_that_closes_all_descriptors_is_still_waited_for(home):
    code = "import os; os.closerange(0, 1024); os.execlp('stamp', 'stamp', '0.05', '6')"
    job = run(home, f'command = ["python3", "-S", "-c", "{code}"]')
    assert (job["state"], job["exit"]) == ("failed", 6) and home.stamps.count("end") == 1


def test_one_that_asks_to_be_started_again_is(home):
    job = run(home, "shell = 'stamp; [ $PERGPU_ATTEMPT = 2 ] || exit 75'")
    assert (job["state"], job["attempt"]) == ("done", 2)


def test_one_that_is_killed_by_a_signal_says_which(home):
    job = run(home, "shell = 'kill -SEGV $$'")
    assert ended(job) == ("failed", "signal", "killed by signal 11 (SIGSEGV)")
    assert (job["signal"], job["exit"]) == (11, None)


def test_a_traceback_of_a_mistake_is_a_user_error_and_not_tried_again(home):
    home.file("typo.py", "import no_such_module\n")
    job = run(home, 'retries = 3\ncommand = ["python3", "typo.py"]')
    assert ended(job)[:2] == ("failed", "user-error") and job["attempt"] == 1
    assert "No module named" in job["reason"]


@pytest.mark.parametrize("make, words", [("true", "does not exist"), (": >model.pt", "is empty")])
def test_a_missing_or_empty_output_is_no_success(home, make, words):
    job = run(home, f'outputs = ["model.pt"]\nshell = "{make}"')
    assert ended(job)[:2] == ("failed", "output-missing") and job["exit"] == 0
    assert "model.pt" in job["reason"] and words in job["reason"]


def test_an_output_of_yesterday_is_no_success(home):
    os.utime(home.file("model.pt", "of yesterday"), (1, 1))
    job = run(home, 'outputs = ["model.pt"]\ncommand = ["true"]')
    assert ended(job)[:2] == ("failed", "output-missing") and "older" in job["reason"]


def test_an_output_of_an_earlier_attempt_is_no_success(home):
    script = "[ $PERGPU_ATTEMPT = 2 ] && exit 0; echo x >model.pt; sleep 0.02; exit 1"
    job = run(home, f'outputs = ["model.pt"]\nretries = 1\nshell = "{script}"')
    assert (job["class"], job["attempt"]) == ("output-missing", 2) and "older" in job["reason"]


def test_one_that_runs_too_long_is_stopped(home):
    job = run(home, 'timeout = "100ms"\ngrace = "1s"\ncommand = ["sleep", "1000"]')
    assert ended(job) == ("timeout", "timeout", "stopped after its timeout of 100ms")
    assert job["signal"] == signal.SIGTERM


def test_one_that_takes_too_much_memory_is_stopped_and_the_figures_are_told(home):
    home.file("eat.py", "import time\nx = bytearray(300 << 20)\ntime.sleep(1000)\n")
    job = run(home, 'memory = "100MiB"\ncommand = ["python3", "-S", "eat.py"]')
    assert ended(job)[:2] == ("failed", "oom-host")
    assert "100 MiB" in job["reason"] and "limit" in job["reason"]


@pytest.mark.parametrize(
    "step, cls",
    [
        ("shell = 'exit 9'", "exit"),
        ("shell = 'kill -KILL $$'", "signal"),
        ("timeout = '20ms'\ncommand = ['sleep', '1000']", "timeout"),
        ("outputs = ['none']\ncommand = ['true']", "output-missing"),
    ],
)
def test_retries_are_spent_on_failures_of_each_kind(home, step, cls):
    job = run(home, "retries = 2\n" + step)
    assert (job["class"], job["attempt"], job["retries_left"]) == (cls, 3, 0)
    assert job["state"] == ("timeout" if cls == "timeout" else "failed")
    assert "2 of 2 retries" in job["reason"]


def test_retries_can_be_limited_to_classes(home):
    job = run(home, 'retries = { max = 2, on = ["signal"] }\nshell = "exit 9"')
    assert (job["state"], job["attempt"]) == ("failed", 1)


def test_a_user_error_spends_no_retry(home):
    job = run(home, "retries = 2\nshell = 'exit 2'")
    assert ended(job)[:2] == ("failed", "user-error") and job["attempt"] == 1
