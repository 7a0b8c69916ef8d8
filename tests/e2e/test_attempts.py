"""What is said of jobs that had several attempts, warnings, or that a request leaves alone."""
import json

import pytest

from harness import grid, read


def three_attempts(home):
    """Job 1: two that failed with code 4, and one that lives until the gate opens."""
    home.submit("[steps.train]\nretries = 2\n"
                'shell = "[ $PERGPU_ATTEMPT = 3 ] || exit 4; echo last; stamp"\n')  # fmt: skip
    home.until_running()


def test_an_attempt_that_is_over_is_not_taken_for_the_live_one(home):
    home.close_gate()
    three_attempts(home)
    for verb in ("cancel", "hold", "release", "retry", "wait"):
        assert "1.3" in home.run(verb, "1.1", code=2).stderr
    assert home.only()["state"] == "running"
    assert home.json("cancel", "1.3")["changed"] == [1]
    assert home.wait() == 1
    assert "name the job: 1" in home.run("retry", "1.3", code=2).stderr


def test_show_tells_the_attempts_and_what_was_executed(home):
    home.close_gate()
    three_attempts(home)
    home.open_gate()
    assert home.wait() == 0
    (job,) = home.json("show", "@")["jobs"]
    told = [(a["attempt"], a["class"], a["exit"]) for a in job["attempts"]]
    assert told == [(1, "exit", 4), (2, "exit", 4), (3, "ok", 0)]
    assert all(a["started_at"] and a["duration_s"] >= 0 for a in job["attempts"])
    assert job["argv"] == json.loads(read(job["out"] + "/attempt.json"))["argv"]
    shown = home.run("show", "@").stdout
    assert "ATTEMPT" in shown and "exit code 4" in shown and "argv" in shown
    (one,) = home.json("show", "1.1")["jobs"]
    assert [a["attempt"] for a in one["attempts"]] == [1]
    assert "asked_attempt" not in home.run("show", "1.1").stdout


def test_why_names_changed_files_and_errors_that_are_not_retried(home):
    home.script("train.sh", "#!/bin/sh\nexit 2\n")
    home.submit(grid("train", 2, 'command = ["sh", "train.sh"]\nretries = 3'))
    home.wait()
    said = home.run("why", "sweep/0").stdout
    assert "not retried: an error in the program or its arguments" in said
    home.script("train.sh", "#!/bin/sh\nexit 0\n")
    home.run("retry", "sweep/0")
    home.wait()
    assert "warning: " in home.run("why", "sweep/0").stdout
    home.run("retry", "sweep/1")  # then all have run the same code, and there is nothing to warn of
    home.wait()
    assert "warning: " not in home.run("why", "sweep").stdout


def test_requests_say_why_they_leave_jobs_as_they_are(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    said = home.run("hold", "@").stderr
    assert "held job 2 (sweep/1); job 1 (sweep/0) is running; only queued jobs can be held" in said
    (left,) = home.json("hold", "1")["left"]
    assert left == {"id": 1, "state": "running", "replaced": False, "name": "sweep/0"}
    said = home.run("release", "1", "2").stderr
    assert "released job 2 (sweep/1); job 1 (sweep/0) is running; only held jobs can be released" in said
    home.open_gate()
    home.wait()
    said = home.run("cancel", "@", "--color", "never").stderr
    assert "jobs 1 (sweep/0), 2 (sweep/1) are already done; ended jobs can't be cancelled" in said


def test_rows_that_were_removed_do_not_count_any_more(home):
    text = "[grid]\ni = %s\n[steps.train]\ncommand = ['sh', '-c', 'exit {i}']\n"
    home.run("run", home.file("s.toml", text % "[0, 1]"), code=1)
    done = home.run("run", home.file("s.toml", text % "[0]"), code=0)
    assert "1 done" in done.stdout and "failed" not in done.stdout
    home.run("wait", "@", code=0)
    home.run("wait", "s/1", code=1)
    home.run("attach", "@", code=0)
    assert len(home.ps()) == 2


def test_logs_as_json_lines(home):
    home.close_gate()
    home.submit('[steps.a]\nshell = "echo one; stamp; printf two"\n')
    home.until_running()
    follower = home.start("logs", "-f", "--json", "@")
    first = json.loads(home.run("logs", "--json", "@").stdout)
    assert first == {"schema": 1, "job": 1, "line": "one"}
    home.open_gate()
    out, _ = follower.communicate(timeout=60)
    assert [json.loads(line)["line"] for line in out.splitlines()] == ["one", "two"]
    home.wait()
    assert [json.loads(line) for line in home.run("logs", "--json", "@").stdout.splitlines()] == [
        {"schema": 1, "job": 1, "line": "one"}, {"schema": 1, "job": 1, "line": "two"}]  # fmt: skip


def test_options_without_effect_are_refused(home):
    said = home.run("run", "--gpus", "1", "--devices", "0", "--lanes", "2", "--", "true", code=2)
    assert "--devices" in said.stderr and "--lanes" in said.stderr
    said = home.run("run", "--devices", "0", "--", "true", code=2).stderr
    assert "no step requests a GPU" in said
    assert "--json" in home.run("run", "--emit", "--json", "--", "true", code=2).stderr
    assert "write it after `ps`" in home.run("--json", "ps", code=2).stderr
    assert home.coordinator() is None


def test_a_single_runs_json_has_a_schema(home):
    assert json.loads(home.run("run", "--json", "--", "true").stdout)["schema"] == 1


@pytest.mark.parametrize("waits", ["run", "wait"])
def test_the_records_are_written_when_run_and_wait_return(home, waits):
    for number in range(12):
        path = home.file(f"s{number}.toml", '[steps.a]\ncommand = ["true"]\n')
        home.run("run" if waits == "run" else "submit", path, "--lanes", "1")
        if waits == "wait":
            home.run("wait", f"s{number}")
        record = json.loads(read(f"{home.work}/runs/s{number}/00/a/attempt.json"))
        assert record["state"] == "done", record
