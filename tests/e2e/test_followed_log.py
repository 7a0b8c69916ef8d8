"""`logs -f` goes on with what is written after the file was emptied, renamed or replaced."""
import json
import os
import shutil

import pytest
from harness import grid, wait_until

# Says a number for each line that it is sent.
TALKER = """#!/bin/sh
while read -r word; do echo "said $word"; done <in
"""


class Talker:
    """A job that writes what it is told to, and somebody who follows its log."""

    def __init__(self, home, *options):
        os.mkfifo(home.work + "/in")
        home.script("talker", TALKER)
        home.submit('[steps.train]\ncommand = ["./talker"]\ncwd = "%s"\n' % home.work)
        self.words = open(home.work + "/in", "w", buffering=1)
        self.log = wait_until(lambda: home.only()["log"], "a log")
        self.say("one")
        self.process = home.start("logs", "-f", *options, "1")

    def say(self, word):
        print(word, file=self.words)
        return word

    def heard(self):
        return self.process.stdout.readline()

    def rest(self):
        self.words.close()
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out, err


def test_after_it_was_emptied(home):
    talker = Talker(home)
    assert talker.heard() == "said one\n"
    for word in ("two", "three"):
        os.truncate(talker.log, 0)
        talker.say(word)
        assert talker.heard() == f"said {word}\n"
    out, err = talker.rest()
    assert out == "" and err.count("log.txt was emptied") == 2


def test_after_it_was_emptied_and_has_grown_past_the_old_place(home):
    talker = Talker(home)
    assert talker.heard() == "said one\n"
    os.kill(talker.process.pid, 19)  # SIGSTOP: it sees only what comes of it
    os.truncate(talker.log, 0)
    for _ in range(5):
        talker.say("more")
    wait_until(lambda: os.path.getsize(talker.log) == 5 * len("said more\n"), "what is said")
    os.kill(talker.process.pid, 18)
    assert [talker.heard() for _ in range(5)] == ["said more\n"] * 5
    talker.rest()


def test_after_copytruncate(home):
    talker = Talker(home)
    assert talker.heard() == "said one\n"
    shutil.copy(talker.log, talker.log + ".1")
    os.truncate(talker.log, 0)
    talker.say("two")
    assert talker.heard() == "said two\n"
    assert talker.rest()[0] == ""


@pytest.mark.parametrize("where", ["log.txt.1", "../elsewhere"])
def test_after_it_was_renamed_the_job_still_writes_to_it(home, where):
    talker = Talker(home)
    assert talker.heard() == "said one\n"
    os.rename(talker.log, os.path.join(os.path.dirname(talker.log), where))
    talker.say("two")
    assert talker.heard() == "said two\n"
    with open(talker.log, "w") as new:  # as logrotate's `create`
        new.write("a new file\n")
    assert talker.heard() == "a new file\n"
    talker.say("three")
    assert talker.heard() == "said three\n"
    assert talker.rest()[0] == ""


def test_after_another_took_its_name(home):
    talker = Talker(home)
    assert talker.heard() == "said one\n"
    with open(talker.log + ".new", "w") as new:
        new.write("other\n")
    os.rename(talker.log + ".new", talker.log)
    assert talker.heard() == "other\n"
    os.remove(talker.log)
    with open(talker.log, "w") as new:
        new.write("and another\n")
    assert talker.heard() == "and another\n"
    assert talker.rest()[0] == ""


def test_lines_as_json_are_whole(home):
    talker = Talker(home, "--json")
    assert json.loads(talker.heard())["line"] == "said one"
    with open(talker.log, "a") as log:
        log.write("half a li")
    os.truncate(talker.log, 0)
    talker.say("two")
    rest = [json.loads(line)["line"] for line in (talker.heard(), *talker.rest()[0].splitlines())]
    assert rest[-1] == "said two" and set(rest[:-1]) <= {"half a li"}


def test_a_retry_is_followed_once(home):
    script = 'echo attempt $PERGPU_ATTEMPT; echo end; [ $PERGPU_ATTEMPT = 2 ]'
    home.script("tries", f"#!/bin/sh\n{script}\n")
    done = home.run("run", "--retries", 1, "--", "tries")
    lines = done.stdout.splitlines()
    assert lines == [line for n in (1, 2) for line in (f"attempt {n}", "end")]


def test_lines_from_the_end_are_of_the_attempt_that_was_meant(home):
    talker = Talker(home, "-n", 1)
    assert talker.heard() == "said one\n"
    talker.rest()
    home.submit(grid("train", 1, 'command = ["seq", "1", "9"]'), name="other.toml")
    home.wait("other", code=0)
    assert home.run("logs", "-f", "-n", 2, "other").stdout == "8\n9\n"
