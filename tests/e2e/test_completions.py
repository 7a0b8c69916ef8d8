"""What a shell offers when somebody presses Tab: by the printed scripts, in real shells."""
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess

import pytest

from harness import grid, read, wait_until
from test_gpus import gpus, uuid, world  # noqa: F401 (fixtures)

ASK = """source "$1"; shift
COMP_LINE=$1 COMP_POINT=${#1}; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _pergpu
printf '%s\\n' "${COMPREPLY[@]}"
"""


def readline_words(line):
    """As readline splits a line for COMP_WORDS: at white space and at = : @, but not inside of quotes."""
    words = re.findall(r"""(?:'[^']*'?|"[^"]*"?|\\.|[^\s=:@'"])+|[=:@]+""", line)
    return words + [""] if line.endswith(" ") else words


def tab(home, line):
    """The words that bash offers, sorted: those that readline would put behind what it keeps."""
    script = home.file("completion.bash", home.run("completions", "bash").stdout)
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "ask", script, line, *readline_words(line)],
        env=home.env | {"PATH": os.path.dirname(home.program) + ":" + home.env["PATH"]},
        cwd=home.work, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return sorted(filter(None, done.stdout.split("\n")))


def asked(home, *words):
    return [line.split("\t") for line in home.run("complete", "--", *words).stdout.splitlines()]


def sweeps(home):
    text = grid("train", 3, 'command = ["stamp"]')
    text += '[steps.evaluate]\nneeds = ["train"]\ncommand = ["true"]\n[steps.table]\nonce = true\ncommand = ["true"]\n'
    home.close_gate()
    home.submit(text, "--lanes", 2, name="thirteen.toml")
    home.submit('name = "my sweep"\n[steps.a]\ncommand = ["true"]\n', name="other.toml")
    home.until_running(2)


def test_commands_options_and_their_choices(home):
    offered = tab(home, "pergpu ")
    assert {"run", "ps", "coordinator", "completions"} <= set(offered)
    assert not {"probe", "stacks", "complete"} & set(offered)
    assert {"release", "retry"} <= set(tab(home, "pergpu re")) and tab(home, "pergpu rel") == ["release"]
    assert tab(home, "pergpu coordinator st") == ["start", "status", "stop"]
    assert tab(home, "pergpu store ") == ["backup", "check"]
    assert {"--all", "--json", "--color", "--help"} <= set(tab(home, "pergpu ps --"))
    assert tab(home, "pergpu ps --a") == ["--all"] and tab(home, "pergpu -") == ["--help", "--version"]
    assert tab(home, "pergpu ps --color ") == ["always", "auto", "never"] == tab(home, "pergpu ps --color=")
    assert tab(home, "pergpu ps -a --color=al") == ["always"]
    assert tab(home, "pergpu completions ") == ["bash", "fish", "zsh"]
    assert tab(home, "pergpu wait --timeout ") == [] == tab(home, "pergpu nonsense ")
    assert home.coordinator() is None and os.listdir(home.path) in ([], ["run"])


def test_every_command_and_option_of_the_help_is_offered(home):
    words = lambda text: re.findall(r"^  (?:-\w,)?(--[a-z-]+|[a-z]+)\b", text, re.M)  # noqa: E731
    commands = {word for word in words(home.run("--help").stdout) if not word.startswith("-")} - {"pergpu"}
    assert sorted(commands) == tab(home, "pergpu ")
    for command in commands:
        options = {word for word in words(home.run(command, "--help").stdout) if word.startswith("--")}
        assert options <= {line[0] for line in asked(home, command, "--")}, command


def test_names_of_sweeps_runs_and_steps_and_numbers_of_jobs(home):
    sweeps(home)
    assert tab(home, "pergpu ps t") == ["thirteen", "thirteen/"]
    assert tab(home, "pergpu ps m") == ["my\\ sweep", "my\\ sweep/"]
    assert tab(home, "pergpu ps 'm") == ["my sweep", "my sweep/"]
    assert tab(home, "pergpu show thirteen/0") == [f"thirteen/0{i}-i={i}" for i in range(3)]
    # Behind the = that readline keeps.
    assert tab(home, "pergpu show thirteen/01-i=") == ["1", "1/"]
    assert tab(home, "pergpu show thirteen/01-i=1/") == ["1/evaluate", "1/train"]
    assert tab(home, "pergpu show thirteen/1/t") == ["thirteen/1/train"]
    assert tab(home, "pergpu why thirteen/_") == ["thirteen/_once", "thirteen/_once/"]
    assert tab(home, "pergpu why thirteen/_once/") == ["thirteen/_once/table"]
    assert tab(home, "pergpu cancel --kill 'thirteen/*/") == ["thirteen/*/evaluate", "thirteen/*/train"]
    offered = dict(asked(home, "logs", ""))
    assert offered["@"] == "the last sweep" and offered["1"] == "thirteen/00-i=0/train, running"
    assert "thirteen" in offered and "3" not in offered
    assert dict(asked(home, "logs", "3"))["3"].startswith("thirteen/")
    assert tab(home, "pergpu attach nothing") == []
    home.open_gate()
    home.wait("*")


def test_names_are_only_text_whatever_quote_is_open(home):
    marker = home.root + "/marker"
    names = [f"a`touch {marker.replace('/', '?')}`", "b`touch marker`", "c it's; touch marker;'", 'd "; touch marker; "$ 5',
             "e back\\slash\\", "f wow!now&then", "g$ (touch marker)"]  # fmt: skip
    for i, name in enumerate(names):
        home.submit(f'name = {json.dumps(name)}\n[steps.a]\ncommand = ["true"]\n', name=f"{i}.toml")
    for name in names:
        for quote in ("'", '"', ""):
            answers = tab(home, f"pergpu ps {quote}{name[0]}")
            assert len(answers) == 2, (name, quote, answers)
            typed = f"printf %s {quote}{answers[0]}{quote}"
            told = subprocess.run(["bash", "--norc", "-c", typed], cwd=home.work, capture_output=True, text=True)
            assert (told.stdout, told.stderr) == (name, ""), (quote, answers)
            # What was completed is completed further.
            (again, *_) = tab(home, f"pergpu ps {quote}{answers[0]}/") if quote != '"' else ["/00"]
            assert again.endswith("/00"), (quote, again)
    assert not os.path.exists(home.work + "/marker")
    home.wait("*")


def test_sweeps_that_ended_before_a_restart_are_offered_too(home):
    home.submit(grid("train", 2, 'command = ["true"]'), name="old.toml")
    home.wait()
    home.run("coordinator", "stop")
    wait_until(lambda: home.coordinator() is None, "its end")
    assert tab(home, "pergpu ps o") == [] and home.coordinator() is None
    home.run("ps")
    assert tab(home, "pergpu ps o") == ["old", "old/"]
    assert tab(home, "pergpu ps old/01-i=1/") == ["1/train"]


def test_files_where_files_are_meant(home):
    for name in ("a.toml", "b.yaml", "c.json", "d.txt"):
        home.file(name, "")
    os.mkdir(home.work + "/results")
    assert tab(home, "pergpu run ") == ["a.toml", "b.yaml", "c.json", "results"]
    assert tab(home, "pergpu submit b") == ["b.yaml"]
    assert tab(home, "pergpu run --out ") == ["results"] == tab(home, "pergpu run a.toml --out=r")
    assert "d.txt" in tab(home, "pergpu store backup ")
    assert tab(home, "pergpu run -- stam") == ["stamp"]
    assert tab(home, "pergpu run --gpus 1 -- python3 d") == ["d.txt"]
    assert tab(home, "pergpu run a.toml b") == []


def test_what_can_be_set_behind_what_is_named(home):
    sweeps(home)
    assert tab(home, "pergpu set thir") == ["thirteen", "thirteen/"]
    assert tab(home, "pergpu set thirteen p") == ["priority="]
    home.open_gate()
    home.wait("*")


def test_gpus_by_number_and_uuid(gpus):  # noqa: F811
    gpus.world.show(3)
    gpus.run("gpus")
    assert tab(gpus, "pergpu run --devices ") == ["0", "1", "2"]
    assert tab(gpus, "pergpu run --devices=0,") == ["0,0", "0,1", "0,2"]
    assert tab(gpus, "pergpu gpus --release GPU-1") == [uuid(1)]


def test_a_coordinator_that_does_not_answer_offers_nothing_soon(home):
    del home.env["PERGPU_TURN_LIMIT_MS"]  # it may be stopped in the middle of a turn
    sweeps(home)
    pid = home.coordinator()
    os.kill(pid, signal.SIGSTOP)
    try:
        assert tab(home, "pergpu ps t") == []
    finally:
        os.kill(pid, signal.SIGCONT)
    assert tab(home, "pergpu ps t") == ["thirteen", "thirteen/"]
    home.open_gate()
    home.wait("*")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_have_no_mistake(home, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = home.file("completion", home.run("completions", shell).stdout)
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


ZSHRC = """autoload -U compinit && compinit -u -D && source ./completion.zsh
written() { print -r -- "$BUFFER" >./completed && exit; }
ready() { : >./ready; }
zle -N written && bindkey '^T' written && zle -N zle-line-init ready
"""


def completed_by_zsh(home, line):
    """What is in the line after a Tab, without its quotes."""
    home.file("completion.zsh", home.run("completions", "zsh").stdout)
    home.file(".zshrc", ZSHRC)
    for name in ("ready", "completed"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{home.work}/{name}")
    ours, its = pty.openpty()
    path = os.path.dirname(home.program) + ":" + home.env["PATH"]
    shell = subprocess.Popen(["zsh", "-d", "-i"], env=home.env | {"PATH": path, "ZDOTDIR": home.work, "TERM": "dumb"},
                             cwd=home.work, stdin=its, stdout=its, stderr=its, start_new_session=True)  # fmt: skip
    try:
        wait_until(lambda: os.path.exists(home.work + "/ready"), "the prompt of zsh")
        os.write(ours, (line + "\t\x14").encode())
        shell.wait(timeout=60)
        typed = read(home.work + "/completed").rstrip("\n")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours), os.close(its)
    return subprocess.run(["zsh", "-f", "-c", f"print -r -- {typed}"], capture_output=True, text=True).stdout[:-1]


def test_zsh_offers_names_as_they_are(home):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    names = ["a back\\slash", "b twice\\\\", "c colon: and\\:", "d it's `touch marker`"]
    for i, name in enumerate(names):
        home.submit(f'name = {json.dumps(name)}\n[steps.a]\ncommand = ["true"]\n', name=f"{i}.toml")
    home.wait("*")
    assert [completed_by_zsh(home, f"pergpu ps {name[0]}") for name in names] == [f"pergpu ps {name}" for name in names]
    assert not os.path.exists(home.work + "/marker")


def test_fish_offers_them_with_what_they_mean(home):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    sweeps(home)
    script = home.file("completion.fish", home.run("completions", "fish").stdout)
    home.file("a.toml", "")

    def offered(line):
        done = subprocess.run(
            ["fish", "--no-config", "-c", f'source {script}; complete -C "$argv[1]"', line],
            env=home.env | {"PATH": os.path.dirname(home.program) + ":" + home.env["PATH"]},
            cwd=home.work, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return dict((line + "\t").split("\t")[:2] for line in done.stdout.splitlines())

    assert {"release", "retry"} <= set(offered("pergpu re"))
    assert "queue held jobs again" in offered("pergpu rel")["release"]
    assert offered("pergpu ps thi")["thirteen"] == "7 jobs"
    assert set(offered("pergpu ps thirteen/01-i=1/")) == {"thirteen/01-i=1/evaluate", "thirteen/01-i=1/train"}
    assert {"always", "auto"} <= {word.rpartition("=")[2] for word in offered("pergpu ps --color=a")}
    assert "a.toml" in offered("pergpu run ")
    home.open_gate()
    home.wait("*")
