"""`pergpu top` on a terminal: a pseudo terminal whose screen is kept by an emulator."""
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import termios
import time

import pyte
import pytest
from harness import DEADLINE, grid, wait_until

STAMPS = 'command = ["stamp"]'


class Screen:
    """`pergpu top` with this as its controlling terminal."""

    def __init__(self, home, *args, columns=100, rows=30, **env):
        self.ours, theirs = pty.openpty()
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self.ours)
        self.raw = b""

        def take_terminal():
            os.setsid()
            os.close(os.open(os.ttyname(0), os.O_RDWR))

        self.process = home.start(
            "top", *args, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_terminal,
            env={"TERM": "linux", **env},
        )  # fmt: skip
        os.close(theirs)

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.ours, keys.encode())

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self, seconds):
        """What comes within this time; False at the end."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            block = os.read(self.ours, 65536)
        except OSError:
            return False
        self.raw += block
        self.stream.feed(block)
        return bool(block)

    def until(self, *words, gone=()):
        """Reads until all these words are on the screen, and those are not."""
        end = time.monotonic() + DEADLINE
        while not all(w in self.text() for w in words) or any(w in self.text() for w in gone):
            assert time.monotonic() < end, f"{words} without {gone} was not shown, but:\n{self.text()}"
            assert self.read(0.1), f"it has ended: {self.process.wait()}\n{self.text()}"

    def ended(self):
        """Reads to the end; the exit code.  The terminal must be as it was."""
        while self.read(DEADLINE):
            pass
        code = self.process.wait(DEADLINE)
        assert termios.tcgetattr(self.ours) == self.modes
        os.close(self.ours)
        return code

    def leave(self):
        self.type("q")
        assert self.ended() == 0


def submit(home, count, step=STAMPS, lanes=1):
    return home.submit(grid("train", count, step, 'name = "s"'), "--lanes", lanes)


def test_a_job_is_seen_to_start_and_to_end(home):
    home.close_gate()
    screen = Screen(home)
    screen.until("no jobs")
    submit(home, 2, 'shell = "echo epoch 1 of 9; stamp"')
    screen.until("1 running, 1 queued", "lane0  1 s/", "epoch 1 of 9", "log of 1 s/")
    home.open_gate()
    screen.until("s 2/2", "2 done", gone=["running"])
    screen.leave()


def test_q_leaves_and_the_jobs_go_on(home):
    home.close_gate()
    submit(home, 2)
    screen = Screen(home)
    screen.until("1 running, 1 queued")
    screen.leave()
    assert list(home.states().values()) == ["running", "queued"]
    home.open_gate()
    assert home.wait("@") == 0


@pytest.mark.parametrize("end, code", [("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_however_it_ends_the_terminal_is_restored_and_the_jobs_go_on(home, end, code):
    home.close_gate()
    submit(home, 1)
    screen = Screen(home)
    screen.until("1 running")
    screen.type(end) if isinstance(end, str) else screen.process.send_signal(end)
    assert screen.ended() == code
    assert list(home.states().values()) == ["running"]


def test_filter_why_and_all_that_is_known(home):
    home.close_gate()
    submit(home, 12)
    screen = Screen(home)
    screen.until("12 jobs", "1 running, 11 queued")
    screen.type("/state=queued i=11\r")
    screen.until('-- 1 job with "state=queued i=11"')
    screen.type("w")
    screen.until("-- why 12 s/11-i=11/train", "queued: ")
    screen.type("x")
    screen.until("log of 12")
    screen.type("\r")
    screen.until("-- job 12", "command", "stamp")
    screen.type("x")
    screen.until("log of 12")
    screen.type("\x1b")
    screen.until("12 jobs", gone=['with "state'])
    screen.type("?")
    screen.until("keys of pergpu top")
    screen.type("q")
    screen.until("12 jobs")
    screen.leave()


def test_cancel_asks_and_a_no_changes_nothing(home):
    home.close_gate()
    submit(home, 2)
    screen = Screen(home)
    screen.until("1 running, 1 queued", "log of 1")
    screen.type("c")
    screen.until("cancel 1 s/00-i=0/train? y: yes")
    screen.type("n")
    screen.until("q leave")
    assert list(home.states().values()) == ["running", "queued"]
    screen.type("cy")
    screen.until("cancelled 1 job", "1 cancelled")
    assert list(home.states().values())[0] == "cancelled"
    home.open_gate()
    screen.until("1 done, 1 cancelled")
    screen.leave()


def test_hold_release_and_retry_of_tagged_jobs(home):
    home.close_gate()
    submit(home, 3)
    screen = Screen(home)
    screen.until("1 running, 2 queued", "log of 1")
    screen.type("j  ")
    screen.until("2 tagged")
    screen.type("p")
    screen.until("held 2 jobs", "2 held")
    screen.type("p")
    screen.until("released 2 jobs", "2 queued")
    home.run("cancel", "s/1")
    screen.until("1 cancelled")
    screen.type("r")
    screen.until("queued again 1 job; 3 is unchanged: queued", "2 queued")
    screen.leave()


def test_readonly_changes_nothing(home):
    home.close_gate()
    submit(home, 2)
    screen = Screen(home, "--readonly")
    screen.until("1 running, 1 queued", "log of 1")
    for key in "cKpr":
        screen.type(key)
        screen.until("--readonly: you can't change jobs here")
        screen.type("y")
        screen.until("q leave", gone=["--readonly"])
    assert list(home.states().values()) == ["running", "queued"]
    screen.leave()


def test_a_smaller_and_a_larger_window_are_filled_at_once(home):
    home.close_gate()
    submit(home, 30)
    screen = Screen(home)
    screen.until("log of 1", "1 running, 29 queued")
    screen.resize(40, 10)
    screen.until("30 jobs", "? help", gone=["log of"])
    assert len(screen.text().splitlines()) == 10
    screen.resize(160, 60)
    screen.until("log of 1", "s/29-i=29/train")
    screen.leave()


def test_the_log_of_the_chosen_job_grows_and_is_never_raw(home):
    text = 'printf "one\\n"; stamp; printf "two \\033]0;title\\007\\033[31mred\\n"; sleep 1000'
    home.close_gate()
    submit(home, 1, f"shell = '''{text}'''")
    screen = Screen(home)
    screen.until("log of 1", "\none")
    home.open_gate()
    screen.until("two \\x1b]0;title\\x07red")
    assert b"\x1b]0;" not in screen.raw
    screen.type("l")
    screen.until("two", gone=["1 job"])
    screen.leave()
    home.run("cancel", "@")


def test_another_coordinator_is_followed_when_one_is_killed(home):
    home.close_gate()
    submit(home, 2)
    screen = Screen(home)
    screen.until("1 running, 1 queued")
    home.kill_coordinator()
    home.open_gate()
    screen.until("2 done", gone=["takes over"])
    screen.leave()


def test_without_utf_8_and_colours_all_is_ascii(home):
    home.close_gate()
    submit(home, 1)
    screen = Screen(home, LANG="C", NO_COLOR="1")
    screen.until("1 running", "log of 1")
    screen.leave()
    assert all(byte < 0x80 for byte in screen.raw)
    assert not any(f"[3{n}m".encode() in screen.raw for n in range(1, 8))


def test_colours_for_the_colour_blind_are_neither_red_nor_green(home):
    home.submit(grid("a", 2, 'command = ["stamp", "0", "{i}"]'), "--lanes", 1)
    home.wait("@")
    screen = Screen(home, "--palette", "color-blind")
    screen.until("1 done, 1 failed", "a  failed", "a  done")  # the frame comes in parts
    colours = {cell.fg for line in screen.screen.buffer.values() for cell in line.values()}
    screen.leave()
    assert "blue" in colours and not colours & {"red", "green"}, colours


def test_once_prints_a_frame_without_a_terminal(home):
    home.close_gate()
    submit(home, 300)
    home.until_running()
    out = home.run("top", "--once", env={"COLUMNS": "120", "LINES": "40"}).stdout
    assert "1 running, 299 queued" in out and "lane0  1 s/" in out and "99 more not loaded" in out
    assert "\x1b" not in out and "help" not in out
    assert max(map(len, out.splitlines())) <= 120 and len(out.splitlines()) <= 40


@pytest.mark.parametrize("term", ["linux", "dumb", ""])
def test_without_a_terminal_it_names_once(home, term):
    refused = home.run("top", code=2, env={"TERM": term})
    assert "--once" in refused.stderr and refused.stdout == ""
    assert home.coordinator() is None


def test_an_unknown_terminal_is_named(home):
    # Of a terminal that it does not know ncurses keeps a piece of memory: its leak, not ours.
    screen = Screen(home, TERM="no-such-terminal", LSAN_OPTIONS="detect_leaks=0")
    assert screen.ended() == 2
    assert b"no-such-terminal" in screen.raw and b"--once" in screen.raw


def test_the_stream_of_everything_is_bounded(home):
    home.close_gate()
    submit(home, 1500, lanes=2)
    home.until_running(2)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(home.json("coordinator", "status")["run_dir"] + "/coordinator.sock")
    connection.settimeout(DEADLINE)
    lines = connection.makefile("rw")

    def ask(request):
        lines.write(json.dumps(request) + "\n")
        lines.flush()

    ask({"hello": 1, "version": "0.1.0"})
    lines.readline()
    ask({"op": "watch", "all": True})
    snapshot = json.loads(lines.readline())
    known = {job["id"]: job["state"] for job in snapshot["jobs"]}
    assert len(known) == 202 and snapshot["counts"]["queued"] == 1498
    home.run("cancel", "s", code=0)
    counts = {}
    while counts != {"cancelled": 1500}:
        line = lines.readline()
        event = json.loads(line)
        counts = event.get("counts", counts)
        for job in event.get("jobs", []):
            known[job["id"]] = job["state"]
        for gone in event.get("gone", []):
            del known[gone]
        assert len(known) <= 602 and len(line) < 1_000_000
    assert set(known.values()) == {"cancelled"} and len(known) == 200
    connection.close()


def test_a_stopped_one_gives_the_terminal_back_and_goes_on(home):
    home.close_gate()
    submit(home, 1)
    screen = Screen(home)
    screen.until("1 running")
    screen.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: stopped(screen.process.pid), "the stop")
    assert termios.tcgetattr(screen.ours)[3] & termios.ICANON
    screen.process.send_signal(signal.SIGCONT)
    screen.type("?")
    screen.until("keys of pergpu top")
    screen.type("x")
    screen.until("log of 1")
    screen.leave()


def stopped(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] == "T"
