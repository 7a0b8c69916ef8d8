"""Processes that a job left running when its first process ended."""
import json

from harness import read, wait_until
from schemas import check

TEXT = """name = "bg"
[steps.train]
shell = 'sleep 1000 & sh -c "sleep 1001; true" & echo started'
"""
WORDS = "3 processes that it left running were ended: "


def test_what_was_ended_is_told_wherever_one_looks(home):
    home.file("s.toml", TEXT)
    told = home.run("run", "s.toml", "--lanes", 1)
    assert WORDS in told.stdout + told.stderr
    job = check("ps", home.json("ps", "-a"))["jobs"][0]
    assert job["state"] == "done" and job["reason"].startswith(WORDS)
    assert set(job["reason"].removeprefix(WORDS).split(", ")) == {"sh", "sleep"}
    why = home.run("why", "bg").stdout
    assert job["reason"] in why and "make that process wait for the processes it starts" in why
    assert job["reason"] in home.run("show", "bg").stdout
    record = job["out"] + "/attempt.json"
    wait_until(lambda: '"class"' in read(record, ""), "the record of the end")
    assert json.loads(read(record))["reason"] == job["reason"]
    home.kill_coordinator()
    assert home.only()["reason"] == job["reason"]


def test_the_last_table_and_the_lines_of_several_jobs_tell_it(home):
    home.file("s.toml", TEXT + "[steps.next]\nneeds = ['train']\ncommand = ['true']\n")
    told = home.run("run", "s.toml", "--lanes", 1)
    assert f"bg/00/train: {WORDS}" in told.stdout and "make that process wait for the others" in told.stdout
    assert f"; {WORDS}" in told.stderr


def test_a_command_without_a_file_tells_it_too(home):
    told = home.run("run", "--lanes", 1, "--", "sh", "-c", "sleep 1000 & exit 0")
    assert "1 process that it left running was ended: sleep" in told.stderr


def ended(record):
    wait_until(lambda: '"class"' in read(record, ""), "the record of the end")
    return json.loads(read(record))


def test_an_output_that_is_missing_because_its_writer_was_ended(home):
    text = """name = "bg"
[steps.train]
shell = '(sleep 1000; echo x >$PERGPU_OUT/m.pt) & echo started'
outputs = "{out}/m.pt"
"""
    told = home.run("run", home.file("s.toml", text), "--lanes", 1, code=1)
    job = check("ps", home.json("ps", "-a"))["jobs"][0]
    assert job["class"] == "output-missing" and "m.pt does not exist; 2 processes that" in job["reason"]
    record = ended(job["out"] + "/attempt.json")
    words = record["left_running"]
    assert words.startswith("2 processes that it left running were ended: ")
    assert record["reason"].endswith("does not exist; " + words)
    for shown in (told.stdout, home.run("why", "bg").stdout, home.run("show", "bg").stdout):
        assert words in shown and "make that process wait for the processes it starts" in shown
    (shown,) = check("show", home.json("show", "bg"))["jobs"]
    assert shown["attempts"][0]["left_running"] == words


def test_every_attempt_that_failed_tells_it(home):
    text = """[steps.train]
shell = 'sleep 1000 & echo started; exit 3'
retries = { max = 1, delay = "50ms" }
"""
    home.submit(text, "--lanes", 1)
    assert home.wait() == 1
    job = home.only()
    words = "1 process that it left running was ended: sleep"
    assert job["reason"] == f"exit code 3; 1 of 1 retries used; {words}"
    assert words in home.run("why", "@").stdout and words in home.run("show", "@").stdout
    for name in ("attempt.json", "attempt.1.json"):
        record = ended(job["out"] + "/" + name)
        assert record["reason"] == f"exit code 3; {words}" and record["left_running"] == words
    home.kill_coordinator()
    assert home.only()["reason"] == job["reason"]


def test_an_end_that_no_coordinator_saw_is_told_too(home):
    home.close_gate()
    home.submit("[steps.train]\nshell = 'stamp; sleep 1000 & exit 0'\n", "--lanes", 1)
    home.until_running()
    home.kill_coordinator()
    home.open_gate()
    assert home.wait() == 0
    assert home.only()["reason"] == "1 process that it left running was ended: sleep"


def test_nothing_is_told_of_jobs_that_waited_or_were_cancelled(home):
    home.submit("[steps.a]\nshell = 'sleep 0.01 & wait'\n", "--lanes", 1)
    assert home.wait() == 0 and home.only()["reason"] == ""
    home.submit("[steps.b]\nshell = 'sleep 1000 & wait'\n", "--lanes", 1, name="other.toml")
    wait_until(lambda: home.only("other")["state"] == "running", "its start")
    home.run("cancel", "other")
    home.wait("other")
    assert "left running" not in home.only("other")["reason"]
