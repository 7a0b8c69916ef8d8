"""Ctrl-C, detaching, and what is written where: with a terminal and without."""
import os
import pty
import re
import signal
import subprocess
import time

from harness import DEADLINE, grid, strip_colours, wait_until

STAMPS = 'command = ["stamp"]'
STUBBORN = 'grace = "1h"\nshell = "trap : TERM; stamp; while :; do sleep 0.01; done"'


class Terminal:
    """`pergpu` with this as its controlling terminal."""

    def __init__(self, home, *args, **env):
        self.ours, theirs = pty.openpty()

        def take_terminal():
            os.setsid()
            os.close(os.open(os.ttyname(0), os.O_RDWR))

        self.process = home.start(
            *args, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_terminal,
            env={"TERM": "xterm", "COLUMNS": "100", **env},
        )  # fmt: skip
        os.close(theirs)
        self.text = ""

    def type(self, keys):
        os.write(self.ours, keys.encode())

    def until(self, words):
        """Reads until these words have been shown."""
        end = time.monotonic() + DEADLINE
        while words not in self.text:
            assert time.monotonic() < end, f"{words!r} was not shown, but:\n{self.text}"
            self.text += strip_colours(os.read(self.ours, 65536).decode(errors="replace"))

    def ended(self):
        """Reads to the end; the exit code."""
        try:
            while block := os.read(self.ours, 65536):
                self.text += strip_colours(block.decode(errors="replace"))
        except OSError:
            pass
        os.close(self.ours)
        return self.process.wait(DEADLINE)


def started(home, count=4, step=STAMPS, lanes=2):
    text = home.file("s.toml", grid("train", count, step))
    follower = home.start("run", text, "--lanes", lanes, stderr=subprocess.STDOUT)
    home.until_running(lanes)
    return follower


def test_the_first_ctrl_c_holds_what_is_queued_and_waits_for_what_runs(home):
    home.close_gate()
    follower = started(home)
    follower.send_signal(signal.SIGINT)
    wait_until(lambda: list(home.states().values()).count("held") == 2, "two held jobs")
    assert list(home.states().values()).count("running") == 2
    home.open_gate()
    out, _ = follower.communicate(timeout=DEADLINE)
    assert follower.returncode == 130 and "2 done, 2 held" in out and "release" in out
    home.run("run", home.work + "/s.toml", "--lanes", 2)  # lifts it
    assert list(home.states().values()) == ["done"] * 4


def test_the_second_ctrl_c_stops_what_runs(home):
    home.close_gate()
    follower = started(home, step='command = ["sh", "-c", "trap \'exit 3\' TERM; stamp & wait"]')
    follower.send_signal(signal.SIGINT)
    wait_until(lambda: "held" in home.states().values(), "held jobs")
    follower.send_signal(signal.SIGINT)
    assert follower.wait(DEADLINE) == 130
    jobs = list(home.ps().values())
    assert [job["state"] for job in jobs] == ["cancelled", "cancelled", "held", "held"]
    assert [job["exit"] for job in jobs[:2]] == [3, 3] and "Ctrl-C" in jobs[0]["reason"]


def test_the_third_ctrl_c_kills_what_resists(home):
    follower = started(home, step=STUBBORN)
    for state in ("held", "stopping"):
        follower.send_signal(signal.SIGINT)
        wait_until(lambda: state in home.states().values(), state)
    follower.send_signal(signal.SIGINT)
    assert follower.wait(DEADLINE) == 130
    assert [job["signal"] for job in home.ps("s/0", "s/1").values()] == [9, 9]


def test_ctrl_c_in_a_single_command_stops_it(home):
    home.close_gate()
    follower = home.start("run", "--", "stamp")
    home.until_running()
    follower.send_signal(signal.SIGINT)
    assert follower.wait(DEADLINE) == 130
    assert home.only()["state"] == "cancelled"


def test_sigterm_detaches_and_leaves_all_as_it_is(home):
    home.close_gate()
    follower = started(home)
    follower.terminate()
    out, _ = follower.communicate(timeout=DEADLINE)
    assert follower.returncode == 143 and "attach" in out
    assert set(home.states().values()) == {"running", "queued"}


def test_ctrl_c_on_a_terminal_reaches_pergpu_and_not_the_jobs(home):
    home.close_gate()
    terminal = Terminal(home, "run", home.file("s.toml", grid("t", 3, STAMPS)), "--lanes", "1")
    home.until_running()
    terminal.until("q: detach")
    terminal.type("\x03")
    terminal.until("2 jobs held")
    assert list(home.states().values()) == ["running", "held", "held"]
    home.open_gate()
    assert terminal.ended() == 130 and home.stamps.count("end") == 1


def test_q_detaches_and_attach_watches_again(home):
    home.close_gate()
    terminal = Terminal(home, "run", home.file("s.toml", grid("t", 2, STAMPS)), "--lanes", "1")
    home.until_running()
    terminal.until("q: detach")
    terminal.type("q")
    assert terminal.ended() == 0 and "pergpu attach s" in terminal.text
    again = home.start("attach", "s")
    home.open_gate()
    out, err = again.communicate(timeout=DEADLINE)
    assert again.returncode == 0 and "s: 2 done" in out, err


def test_a_closed_terminal_detaches(home):
    home.close_gate()
    terminal = Terminal(home, "run", home.file("s.toml", grid("t", 2, STAMPS)), "--lanes", "1")
    home.until_running()
    os.close(terminal.ours)
    assert terminal.process.wait(DEADLINE) == 129
    assert list(home.states().values()) == ["running", "queued"]
    home.open_gate()
    assert home.wait() == 0


def test_a_terminal_shows_a_row_a_lane_and_a_final_table(home):
    home.close_gate()
    text = home.file("s.toml", grid("train", 3, 'shell = "echo loss 0.7; stamp"'))
    terminal = Terminal(home, "run", text, "--lanes", "2")
    home.until_running(2)
    terminal.until("loss 0.7")
    terminal.until("lane1")
    home.open_gate()
    assert terminal.ended() == 0
    assert "s: 3 done" in terminal.text, terminal.text


def test_without_a_terminal_there_is_one_line_a_state_change_and_no_escape(home):
    home.close_gate()
    text = home.file("s.toml", grid("train", 2, 'command = ["stamp", "0", "{i}"]'))
    follower = home.start("run", text, "--lanes", 1)
    lines = [follower.stderr.readline() for _ in range(2)]  # the submit, and the first job's start
    assert "running on lane0" in lines[1]
    home.open_gate()
    out, err = follower.communicate(timeout=DEADLINE)
    changes = [line for line in lines + err.splitlines() if "/train" in line]
    assert len(changes) in (3, 4) and all(re.match(r"\d\d:\d\d:\d\d \d ", c) for c in changes)
    assert sum(" done" in c for c in changes) == sum(" failed" in c for c in changes) == 1
    assert follower.returncode == 1 and "\x1b" not in out + err and "log.txt" in out


def test_the_last_lines_of_a_failed_job_and_its_log_are_shown_at_the_end(home):
    text = home.file("s.toml", '[steps.a]\nshell = "seq 20; exit 3"\n[steps.b]\ncommand = ["true"]\n')
    out = home.run("run", text, code=1).stdout
    assert "exit code 3" in out and home.only("s/0/a")["log"] in out
    assert "| 16\n" in out and "| 20\n" in out and "| 15\n" not in out
