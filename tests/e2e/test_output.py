"""Output that can't be written: no command ends with 0 whose output is lost."""
import fcntl
import os
import re
import signal
import subprocess
import sys

import pytest
from harness import PERGPU, grid

TEXT = """
[grid]
i = [1, 2]
[notify]
command = ["true"]
[steps.train]
command = ["seq", "1", "2000"]
"""

# Every command that prints something on stdout, in each form that it has.
PRINTING = """
    --help; --version; run --help; plan --help
    ps -a; ps -a --json; ps -a -q; show one; show one --json; why one; why one --json
    logs one/0; logs -n 5 one/0; logs --json one/0; logs -f one/0; logs -f --json one/0
    export one; export --csv one; export --jsonl one; export --trace one; report -o - one
    run one.toml --dry-run; run one.toml --dry-run --json; run one.toml --emit; run -- true --emit
    run one.toml; run one.toml --json; submit one.toml; submit one.toml --json; run one.toml --detach
    run -- echo --rerun
    attach one; attach one --json; wait one; wait one --json
    gpus; gpus --json; plan one; plan one --json; top --once
    cancel one --json; hold one --json; release one --json; retry one --json; set one priority=1 --json
    schema; completions bash; completions zsh; completions fish; complete -- sh
    doctor; doctor --json; coordinator status; coordinator status --json; coordinator start --json
    store check; store check --json; store backup {new} --json; share list --json; clean one; clean one --json
    notify test one.toml; notify test one.toml --json
"""
COMMANDS = [line.strip() for line in PRINTING.replace("\n", ";").split(";") if line.strip()]
# Those that print nothing there: they draw, run until they are ended, or are spoken to by programs.
OTHERS = {"serve"}


@pytest.fixture
def one(home):
    home.submit(TEXT, "--lanes", 1, name="one.toml")
    home.wait("one", code=0)
    home.copies = 0
    return home


def words_of(home, command):
    if "{new}" in command:
        home.copies += 1
    words = command.replace("{new}", f"copy{getattr(home, 'copies', 0)}").split()
    if words[:2] == ["run", "--"]:  # options come before the dashes
        return ["run", *words[3:], "--", words[2], "yes"]
    return words + (["--lanes", "1"] if words[0] == "run" and "one.toml" in words else [])


def ended(home, command, stdout, **options):
    """(exit code, stderr) with this stdout."""
    process = home.start(*words_of(home, command), stdout=stdout, **options)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def closed(home, command):
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", PERGPU, *words_of(home, command)]
    done = subprocess.run(shell, env=home.env, cwd=home.work, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr


def pipe_without_reader():
    out, into = os.pipe()
    os.close(out)
    return into


def test_each_command_that_prints_is_tried(home):
    shown = home.run("--help").stdout
    names = set(re.findall(r"(?m)^  ([a-z]+)(?: {2,}|$)", shown[shown.index("Subcommands:") :]))
    assert len(names) > 20
    assert names - {command.split()[0] for command in COMMANDS} == OTHERS


def test_a_full_disk_and_a_closed_stdout_are_errors_and_a_pipe_without_reader_ends_quietly(one):
    wrong = []
    for command in COMMANDS:
        expected = ended(one, command, subprocess.DEVNULL)[0]
        with open("/dev/full", "w") as full:
            code, err = ended(one, command, full)
        # Where the command had failed anyway its own code stays.
        good = code == (expected or 1) and err.count("can't write to stdout: No space left on device") == 1
        wrong += [] if good else [f"{command} >/dev/full: {code} {err}"]
        code, err = closed(one, command)
        good = code == (expected or 1) and err.count("can't write to stdout: it is closed") == 1
        wrong += [] if good else [f"{command} >&-: {code} {err}"]
        into = pipe_without_reader()
        code, err = ended(one, command, into)
        os.close(into)
        followed = command.startswith(("run", "attach")) and expected != 0
        good = code == (expected if followed else -signal.SIGPIPE) and "stdout" not in err and "Broken" not in err
        wrong += [] if good else [f"{command} | true: {code} {err}"]
    assert not wrong, "\n".join(wrong)


def test_an_ignored_sigpipe_changes_nothing(one):
    """As under `nohup`, in some containers, and for what Python executes."""
    for words in ([PERGPU], [sys.executable, "-m", "pergpu"]):
        into = pipe_without_reader()
        done = subprocess.run(
            [*words, "export", "one"], stdout=into, stderr=subprocess.PIPE, cwd=one.work, text=True, restore_signals=False,
            env={**one.env, "PYTHONPATH": os.path.dirname(__file__) + "/../../python", "PERGPU_BIN": PERGPU},
        )  # fmt: skip
        os.close(into)
        assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_a_pipe_that_is_full_and_does_not_block_is_waited_for(one):
    out, into = os.pipe()
    os.set_blocking(into, False)
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)  # less than the log
    process = one.start("logs", "one/0", stdout=into)
    os.close(into)
    with os.fdopen(out) as reader:
        assert reader.read() == "".join(f"{i}\n" for i in range(1, 2001))
    assert process.wait(60) == 0 and process.stderr.read() == ""


def test_a_job_of_ours_runs_to_its_end_and_its_code_is_kept(home):
    for stdout, code in ((open("/dev/full", "w"), 1), (pipe_without_reader(), -signal.SIGPIPE)):
        for wanted in (0, 7):
            before = home.stamps.count("end")
            process = home.start("run", "--", "sh", "-c", f"seq 1 9; stamp 0 {wanted}", stdout=stdout)
            process.communicate(timeout=60)
            assert process.returncode == (wanted or code)
            assert home.stamps.count("end") == before + 1
            assert home.only()["state"] == ("failed" if wanted else "done")
        os.close(stdout if isinstance(stdout, int) else os.dup(stdout.fileno()))


def test_a_followed_log_ends_with_its_reader(home):
    home.close_gate()
    home.submit(grid("train", 1, 'command = ["sh", "-c", "seq 1 9; stamp; seq 10 20"]'))
    home.until_running()
    process = home.start("logs", "-f", "1")
    assert process.stdout.readline() == "1\n"
    process.stdout.close()
    home.open_gate()
    assert process.wait(60) == -signal.SIGPIPE
    assert home.wait(code=0) == 0


def test_the_page_is_served_on_when_the_reader_of_its_link_has_left(home):
    into = pipe_without_reader()
    assert home.start("serve", "--port", "0", stdout=into).wait(60) == -signal.SIGPIPE
    with open("/dev/full", "w") as full:
        process = home.start("serve", "--port", "0", stdout=full)
        assert process.wait(60) == 1 and "can't write to stdout" in process.stderr.read()
    os.close(into)


def test_closed_descriptors_are_not_given_to_files_and_sockets(home):
    """What is printed must not land in the first file that happens to be opened."""
    home.run("run", "--", "true")
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", PERGPU, "ps", "-a", "--json"]
    assert subprocess.run(shell, env=home.env, cwd=home.work).returncode == 1
    assert home.only("1")["state"] == "done"  # coordinator and store are as they were
    home.run("store", "check")


def test_a_file_that_cannot_be_written_is_named(one):
    for command in ("export one", "report one", "store backup"):
        words = command.split()
        target = ["-o"] if words[0] != "store" else []
        for path in ("nowhere/x", one.file("a-file", "") + "/x"):
            done = one.run(*words, *target, path, code=None)
            assert done.returncode not in (0, 4) and path in done.stderr and not done.stdout, done.stderr
