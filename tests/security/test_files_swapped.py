"""A job's files are swapped while it runs: nothing hangs, nothing private is shown or written to."""
import contextlib
import os
import shutil

import pytest
from harness import LONG, read, wait_until
from two_users import SECRET, show

READERS = [["show", "s"], ["show", "s", "--json"], ["why", "s"], ["logs", "s/0"], ["logs", "-n", "3", "s/0"],
           ["report", "s", "-o", "page.html"], ["export", "--csv", "s"], ["export", "--jsonl", "s"],
           ["top", "--once"], ["ps", "-a", "--json"]]  # fmt: skip
KINDS = {
    "fifo": lambda path, secret: os.mkfifo(path),
    "folder": lambda path, secret: os.mkdir(path),
    "link": lambda path, secret: os.symlink(secret, path),
    "endless": lambda path, secret: os.symlink("/dev/zero", path),
    "second name": lambda path, secret: os.link(secret, path),
    "gone": lambda path, secret: None,
}
QUICK = [("log.txt", "link"), ("log.txt", "fifo"), ("attempt.json", "second name"), ("metrics.jsonl", "endless")]
FILES = ("log.txt", "attempt.json", "config.json", "metrics.jsonl")
CASES = [(name, kind) for name in FILES for kind in KINDS] if LONG else QUICK
TEXT = """
[steps.a]
shell = "echo said; flock -s $GATE true; echo end"
idle_timeout = "1h"
stall = "1h"
"""


def remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@pytest.mark.parametrize("name, kind", CASES)
def test_whatever_lies_in_its_place(home, name, kind):
    secret = home.file("secret", f'{{"step": 1, "reason": "ValueError: {SECRET}"}}\n', 0o600)
    home.close_gate()
    home.submit(TEXT, name="s.toml")
    wait_until(lambda: home.states("s") == {"0/a": "running"} or "running" in home.states("s").values(), "the job")
    out = home.only("s")["out"]
    wait_until(lambda: "said" in read(out + "/log.txt"), "its word")
    wait_until(lambda: os.path.exists(out + "/attempt.json"), "its record")
    remove(f"{out}/{name}")
    KINDS[kind](f"{out}/{name}", secret)
    for args in READERS:
        _, shown = show(home, *args)
        assert SECRET not in shown, args
        assert SECRET not in read(home.work + "/page.html", ""), args
    follower = home.start("logs", "-f", "s/0")
    home.open_gate()
    assert home.wait("s") in (0, 1)
    said, _ = follower.communicate(timeout=60)
    assert SECRET not in said
    for args in READERS:
        assert SECRET not in show(home, *args)[1], args
    assert SECRET in read(secret) and os.stat(secret).st_mode & 0o777 == 0o600
    assert os.stat(secret).st_size == len(read(secret))


def is_over(home):
    return home.states("s") and not {"running", "stopping", "starting"} & {*home.states("s").values()}


@pytest.mark.skipif(not LONG, reason="every case: set PERGPU_LONG=1")
@pytest.mark.parametrize("kind", ["gone", "link", "file"])
def test_whatever_lies_in_the_place_of_its_folder(home, kind):
    home.close_gate()
    home.submit(TEXT, name="s.toml")
    wait_until(lambda: "running" in home.states("s").values(), "the job")
    out = home.only("s")["out"]
    wait_until(lambda: os.path.exists(out + "/attempt.json"), "its record")
    shutil.rmtree(out)
    os.mkdir(home.root + "/elsewhere")
    if kind == "link":
        os.symlink(home.root + "/elsewhere", out)
    if kind == "file":
        open(out, "w").close()
    for args in READERS:
        show(home, *args)
    home.open_gate()
    assert home.wait("s") in (0, 1)
    wait_until(lambda: is_over(home), "its end")
