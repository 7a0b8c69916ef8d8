"""What a job gets from the shell that submitted it, and where the values may lie."""
import json
import os
import resource

import pytest

from harness import grid, read, wait_until


def files_with(root, words):
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and words.encode() in open(path, "rb").read():
                found.append(os.path.relpath(path, root))
    return sorted(found)


def test_a_job_sees_the_shell_that_submitted_it_not_the_one_that_started_the_coordinator(home):
    home.submit('[steps.a]\ncommand = ["true"]\n', name="a.toml", env={"WHO": "first"})
    os.mkdir(home.work + "/bin")
    home.script("bin/tool", '#!/bin/sh\necho "$WHO $(umask) $(ulimit -Sn)"\n')
    env = {"PATH": home.work + "/bin:/usr/bin:/bin", "WHO": "second"}
    text = home.file("b.toml", '[steps.b]\ncommand = ["tool"]\n')

    def shell():
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_NOFILE, (321, resource.getrlimit(7)[1]))

    home.run("submit", text, env=env, preexec_fn=shell)
    assert home.wait("b") == 0
    assert read(home.only("b")["log"]) == "second 0027 321\n"


def test_an_environment_value_lies_in_its_one_file_and_that_is_removed_at_the_end(home):
    secret = "s3cret-value-of-a-token"
    home.close_gate()
    reply = home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1, env={"TOKEN": secret})
    home.until_running()
    path = f"env/{reply['sweep_id']}"
    assert files_with(home.root, secret) == ["h/" + path]
    assert os.stat(f"{home.path}/{path}").st_mode & 0o777 == 0o600
    assert secret not in home.run("show", "@", "--json").stdout
    home.open_gate()
    assert home.wait() == 0
    wait_until(lambda: not os.path.exists(f"{home.path}/{path}"), "the removal")
    assert files_with(home.root, secret) == []
    record = json.loads(read(home.only("sweep/0")["out"] + "/attempt.json"))
    assert "TOKEN" in record["environment"]["inherited"]


def test_a_retry_by_hand_works_after_the_environment_was_removed_or_says_what_to_do(home):
    home.file("code.sh", "exit $(cat code)\n")
    home.file("code", "5")
    text = '[steps.a]\ncommand = ["sh", "code.sh"]\n'
    home.submit(text)
    assert home.wait() == 1
    home.file("code", "0")
    home.run("retry", "@", code=None)
    home.wait()
    assert home.only()["state"] == "done" or "submit" in home.only()["reason"]


def test_env_pass_lets_only_the_named_variables_in(home):
    text = '[steps.a]\nenv_pass = ["PATH", "KEEP"]\ncommand = ["env"]\n'
    home.submit(text, env={"KEEP": "1", "DROP": "1"})
    assert home.wait() == 0
    names = {line.split("=")[0] for line in read(home.only()["log"]).splitlines()}
    assert "KEEP" in names and not {"DROP", "HOME", "STAMPS"} & names


def test_the_home_is_private(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    for name in os.listdir(home.path):
        assert os.stat(f"{home.path}/{name}").st_mode & 0o077 == 0, name


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
def test_another_user_can_neither_read_nor_command_it(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    os.chmod(home.path, 0o701)  # even where the folder can be entered
    root = home.program, home.user
    home.become(61001)
    for args in (["ps"], ["cancel", "1"], ["coordinator", "stop"]):
        shown = home.run(*args, code=3, cwd="/")
        assert shown.stdout == "" and home.path in shown.stderr
    home.program, home.user = root
    os.chmod(home.path, 0o700)
    assert home.wait() == 0


def test_a_home_that_others_can_write_is_refused(home):
    os.chmod(home.path, 0o777)
    shown = home.run("submit", home.file("a.toml", '[steps.a]\ncommand = ["true"]\n'), code=3)
    assert home.path in shown.stderr and "chmod" in shown.stderr
    os.chmod(home.path, 0o700)


def test_text_of_a_job_reaches_no_terminal_raw_and_no_shell(home):
    home.run("run", "--name", "esc", "--", "sh", "-c", "printf '\\033]0;evil\\007'; exit 3", ":::",
             "$(touch pwned)", "`touch pwned`", "; touch pwned", code=1)  # fmt: skip
    assert not os.path.exists(home.work + "/pwned")
    shown = home.run("attach", "esc", code=1)
    assert "\033]0" not in shown.stdout + shown.stderr
