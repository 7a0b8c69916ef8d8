"""What others can do to us, and what is said to others: links in the folders of runs, modes of files,
sockets of other users, connections and requests without end, secrets in command lines."""
import contextlib
import json
import os
import resource
import socket
import stat
import subprocess
import sys

import pytest

from harness import DEADLINE, grid, read, wait_until
from test_terminal import Terminal

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")


def connect(home, hello=False):
    client = socket.socket(socket.AF_UNIX)
    client.connect(home.path + "/run/coordinator.sock")
    if hello:
        client.sendall(b'{"hello":1,"version":"0"}\n')
        assert b'"ok":true' in client.recv(4096)
    return client


def ask(client, line):
    client.sendall(line + b"\n")
    answer = b""
    while b"\n" not in answer:
        piece = client.recv(65536)
        assert piece, f"closed after {answer!r}"
        answer += piece
    return json.loads(answer.splitlines()[0])


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("mask", [0o002, 0o027, 0o077])
def test_files_of_a_job_have_the_modes_of_its_sweep_whoever_writes_them(home, mask):
    text = grid("a", 2, 'shell = "sleep $S"').replace("sleep $S", "[ $i = 0 ] || sleep 0.3")
    home.submit(text, preexec_fn=lambda: os.umask(mask))
    assert home.wait() == 0
    for job in home.ps().values():
        assert mode(job["out"]) == 0o777 & ~mask
        for name in ("log.txt", "config.json", "attempt.json"):
            assert mode(f"{job['out']}/{name}") == 0o666 & ~mask, (job["run"], name)


def test_links_planted_in_a_runs_folder_lead_nowhere(home):
    victim = home.file("victim", "mine\n")
    out = home.work + "/runs/sweep/00/a"
    os.makedirs(out)
    for name in ("log.txt", "attempt.json"):
        os.symlink(victim, f"{out}/{name}")
    os.symlink(victim, f"{home.work}/runs/sweep/00/config.json")
    os.symlink(victim, f"{out}/config.json")
    home.submit(grid("a", 1, 'command = ["echo", "said"]'))
    assert home.wait() == 0
    job = home.only()
    assert job["out"] == out, "the test planted its links elsewhere"
    assert read(job["log"]) == "said\n"
    wait_until(lambda: json.loads(read(out + "/attempt.json")).get("class") == "ok", "the final record")
    assert read(victim) == "mine\n"


def test_forgotten_connections_keep_nobody_out(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as open_ones:
        for i in range(1500):
            client = open_ones.enter_context(connect(home))
            client.settimeout(60)
            if i % 2:
                with contextlib.suppress(OSError):
                    client.sendall(b'{"hello":1,"version":"0"}\n')
        assert home.only()["state"] == "done"
        home.submit('[steps.b]\ncommand = ["true"]\n', name="b.toml")
        assert home.wait("b") == 0
        assert home.json("coordinator", "status")["clients"] <= 1024


FILES_OF_THE_HOME = ["coordinator.log", "coordinator.lock", "pergpu.db-journal"]


def test_fifos_in_the_place_of_files_of_the_home_hold_nobody_up(home):
    home.submit(grid("a", 1, 'command = ["true"]'))
    assert home.wait() == 0
    home.stop()
    for name in FILES_OF_THE_HOME:
        path = f"{home.path}/{name}"
        if os.path.exists(path):
            os.rename(path, path + ".kept")
        os.mkfifo(path)
        refused = home.run("ps", code=None)  # which ends
        assert refused.returncode != 0 and path in refused.stderr, name
        os.remove(path)
        if os.path.exists(path + ".kept"):
            os.rename(path + ".kept", path)
    assert home.only()["state"] == "done"


def watcher(home):
    """A connection that watches everything; None: it was closed without a greeting."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(home.path + "/run/coordinator.sock")
    client.settimeout(DEADLINE)
    heard = b""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.sendall(b'{"hello":1,"version":"0"}\n{"op":"watch","all":true}\n')
        while b'"snapshot"' not in heard:
            piece = client.recv(65536)
            if not piece:
                break
            heard += piece
        else:
            return client
    client.close()
    return None


def test_wait_outlasts_a_coordinator_without_descriptors(home):
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))}
    home.close_gate()
    home.submit(grid("a", 1, 'command = ["stamp"]'), **few)
    home.until_running()
    watchers = []
    while client := watcher(home):
        watchers.append(client)
        assert len(watchers) < 80
    waiting = home.start("wait", "@", **few)
    assert "accepts no connections" in waiting.stderr.readline()
    assert waiting.poll() is None
    for client in watchers:
        client.close()
    home.open_gate()
    assert waiting.wait(DEADLINE) == 0


def test_a_request_without_end_ends_its_connection_only(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    coordinator = home.coordinator()
    client = connect(home, hello=True)
    client.settimeout(60)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(80):
            client.sendall(b"x" * (1 << 20))
        assert client.recv(1) == b""
    deep = b'{"op":"submit","runs":0,"context":{},"sweep":{"x":' + b"[" * 1_000_000
    assert "levels deep" in ask(connect(home, hello=True), deep)["error"]
    for line in (b'{"op":"watch","sel":[]}', b'{"op":"interrupt","sweep_id":1e300}', b"\xff\x00"):
        ask(connect(home, hello=True), line)
    assert home.coordinator() == coordinator


def test_a_client_that_never_reads_is_cut_off(home):
    home.submit(grid("a", 50, 'command = ["true"]'))
    home.wait()
    client = connect(home, hello=True)
    client.settimeout(60)
    with pytest.raises(OSError):
        while True:
            client.sendall(b'{"op":"ps","all":true}\n' * 1000)
    assert len(home.ps()) == 50


STRANGER = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.settimeout(60)
try:
    s.sendall(b'{"hello":1,"version":"0"}\\n{"op":"stop","kill":true}\\n')
    print(len(s.recv(1)))
except ConnectionError:
    print(0)
"""


@ROOT
def test_open_sockets_do_not_help_another_user(home):
    home.close_gate()
    home.submit('[steps.a]\ncommand = ["stamp"]\n')
    home.until_running()
    os.chmod(home.path, 0o711)
    os.chmod(home.path + "/run", 0o711)
    os.chmod(home.path + "/run/coordinator.sock", 0o666)
    heard = subprocess.run(
        [sys.executable, "-c", STRANGER, home.path + "/run/coordinator.sock"],
        user=61001, group=61001, extra_groups=[], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert heard.stdout == "0\n", "closed without an answer"
    os.chmod(home.path + "/run", 0o700)
    os.chmod(home.path, 0o700)
    home.open_gate()
    assert home.wait() == 0


@ROOT
def test_a_coordinator_of_another_user_is_not_spoken_to(home):
    os.mkdir(home.path + "/run", 0o700)
    path = home.path + "/run/coordinator.sock"
    ours, theirs = socket.socketpair()
    os.chown(home.path + "/run", 61001, 61001)
    os.chmod(home.path, 0o711)
    listener = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "print('there', flush=True); sys.stdin.read()\n"
    )
    stranger = subprocess.Popen(
        [sys.executable, "-c", listener, path],
        user=61001, group=61001, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert stranger.stdout.readline() == b"there\n"
    os.chown(home.path + "/run", 0, 0)
    os.chmod(home.path + "/run", 0o700)
    os.chmod(home.path, 0o700)
    shown = home.run("ps", code=3)
    assert "uid 61001" in shown.stderr
    stranger.communicate(b"")
    ours.close(), theirs.close()


def test_secrets_in_a_command_line_are_not_shown(home):
    secret = "s3cret-in-a-command"
    home.run("run", "--name", "s", "--", "sh", "-c", "exit 3", "x", "--api-key", secret,
             f"HF_TOKEN={secret}", f"https://me:{secret}@host/", code=3)  # fmt: skip
    for args in (["show", "@"], ["show", "@", "--json"], ["why", "@"], ["ps", "-a", "--json"],
                 ["attach", "@"]):  # fmt: skip
        shown = home.run(*args, code=None)
        assert secret not in shown.stdout + shown.stderr, args
    assert "--api-key ***" in home.run("show", "@").stdout.replace("'", "")
    assert secret in read(home.only()["out"] + "/attempt.json"), "the record is to be repeated from"


def test_json_on_a_terminal_is_plain_ascii(home):
    home.run("run", "--name", "s", "--", "true", ":::", "\u009b31m", "é")
    terminal = Terminal(home, "show", "s/0", "--json")
    text = b""
    with contextlib.suppress(OSError):
        while True:
            text += os.read(terminal.ours, 65536)
    terminal.process.wait()
    os.close(terminal.ours)
    assert text.isascii() and b"\\u009b31m" in text
    assert "\u009b31m" in home.run("show", "s/0", "--json").stdout
