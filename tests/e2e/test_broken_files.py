"""Sweep files with mistakes and mistyped commands, through the real program: exit 2, the expected
words, nothing started."""
import os

import pytest

FOLDER = os.path.join(os.path.dirname(__file__), "..", "data", "broken")
EXPECTED = ".expected"
NAMES = sorted(n[: -len(EXPECTED)] for n in os.listdir(FOLDER) if n.endswith(EXPECTED))


def nothing_was_started(home):
    return home.coordinator() is None and not os.path.exists(home.path + "/pergpu.db")


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_file_is_refused_with_its_diagnostics_and_starts_nothing(home, name):
    done = home.run("run", name, "--out", home.work, cwd=FOLDER, code=2)
    with open(f"{FOLDER}/{name}{EXPECTED}", errors="backslashreplace") as f:
        assert done.stderr == f.read() and done.stdout == ""
    assert nothing_was_started(home) and "runs" not in os.listdir(home.work)


def test_there_are_at_least_sixty_broken_files():
    assert len(NAMES) >= 60


def test_three_mistakes_in_one_file_are_all_reported(home):
    shown = home.run("submit", "three_mistakes.toml", cwd=FOLDER, code=2).stderr
    assert [line.split(":")[1] for line in shown.splitlines() if ".toml:" in line] == ["5", "6", "7"]


@pytest.mark.parametrize(
    "typed, meant", [("statsu", "status"), ("subit", "submit"), ("lgos", "logs"), ("cancle", "cancel")]
)
def test_a_mistyped_command_is_an_error_with_the_nearest_one(home, typed, meant):
    shown = home.run(typed, code=2).stderr
    assert typed in shown and "unknown command" in shown
    if meant != "status":  # no command of that name: only `coordinator status`
        assert meant in shown
    assert nothing_was_started(home)


@pytest.mark.parametrize(
    "args, words",
    [
        (["run"], "nothing to run"),
        (["run", "missing.toml"], "missing.toml"),
        (["run", "--detahc", "x.toml"], "--detach"),
        (["run", "a.toml", "--", "true"], "not both"),
        (["run", "--timeout", "90", "--", "true"], "unit"),
        (["run", "--"], "command"),
        (["run", "--lanes", "0", "--", "true"], "--lanes"),
        (["run", "-g", "lr=1,2", "--", "echo", "{rl}"], "{lr}"),
        (["run", "a.toml", "--rerun", "--only-new"], "exclude"),
        (["frobnicate"], "frobnicate"),
        (["serve", "--port", "70000"], "--port"),
        (["coordinator", "statsu"], "statsu"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_exit_2_says_what_is_wrong_and_starts_nothing(home, args, words):
    home.file("a.toml", '[steps.a]\ncommand = ["true"]\n')
    done = home.run(*args, code=2)
    assert words in done.stderr and done.stdout == ""
    assert nothing_was_started(home)


@pytest.mark.parametrize("command", ["", "run", "submit", "ps", "wait", "coordinator status"])
def test_help_has_an_example_everywhere(home, command):
    assert "Example" in home.run(*command.split(), "--help").stdout


def test_a_step_that_asks_for_a_gpu_needs_lanes_where_there_is_none(home):
    text = home.file("a.toml", '[steps.train]\ngpus = 1\ncommand = ["true"]\n')
    shown = home.run("run", text, code=2).stderr
    assert "train" in shown and "--lanes" in shown
    assert home.json("ps", "-a")["jobs"] == []
    home.run("run", text, "--lanes", 1)
