"""Why an attempt failed, by what its log says, and what pergpu does about it (docs/failures.md)."""
import sys

from test_gpus import gpus, world  # noqa: F401 (fixtures)

from harness import grid, read, wait_until

MISTAKE = "Traceback (most recent call last):\\nKeyError: lr\\n"


def step(program, *keys):
    """A step that executes a script of the test."""
    return "\n".join([f'command = ["{program}"]', *keys]) + "\n"


def says(home, text, code=1):
    """A program that prints this and ends so."""
    return home.script("train", f'#!/bin/sh\nprintf "{text}"\nexit {code}\n')


def test_the_end_of_the_log_names_the_class_and_why_quotes_it(home):
    says(home, "CUDA out of memory. Tried to allocate 2 GiB\\n")
    home.submit("[steps.a]\n" + step("train", "retries = 2"))
    assert home.wait() == 1
    job = home.only()
    assert (job["class"], job["attempt"]) == ("oom-gpu", 1)
    assert "Tried to allocate 2 GiB" in home.run("why", "@").stdout


def test_a_rule_of_the_sweep_file_comes_first(home):
    says(home, "loss is nan\\nCUDA out of memory\\n")
    rule = 'failures = [{ match = "loss is nan", class = "user-error" }]'
    home.submit("[steps.a]\n" + step("train", rule, "retries = 2"))
    assert home.wait() == 1
    assert (home.only()["class"], home.only()["attempt"]) == ("user-error", 1)


def test_words_in_the_log_of_a_job_that_succeeds_mean_nothing(home):
    says(home, "CUDA out of memory, trying a smaller batch\\n", code=0)
    home.submit("[steps.a]\n" + step("train"))
    assert home.wait() == 0


# Takes the GPU of this number, as CUDA does: numbers count what CUDA_VISIBLE_DEVICES names.
TAKES_ITS_GPU = f"""#!{sys.executable}
import os, sys
if int(sys.argv[1]) >= len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")):
    raise RuntimeError("CUDA error: invalid device ordinal")
"""


def test_code_for_threads_that_says_cuda_3_is_told_that_a_jobs_gpu_is_cuda_0(gpus):  # noqa: F811
    gpus.script("take", TAKES_ITS_GPU)
    gpus.submit('[grid]\ngpu_id = [0, 3]\n[steps.a]\ngpus = 1\nretries = 2\ncommand = ["take", "{gpu_id}"]\n')
    assert gpus.wait() == 1
    assert gpus.only("sweep/0")["state"] == "done"
    job = gpus.only("sweep/1")
    assert (job["class"], job["attempt"]) == ("user-error", 1)
    words = "a job sees only its own GPUs, the first is always cuda:0"
    gpus.run("report", "sweep", "-o", "report.html")
    for shown in (gpus.run("why", "sweep/1").stdout, gpus.run("show", "sweep/1").stdout, read(gpus.work + "/report.html")):
        assert words in shown and "CUDA error: invalid device ordinal" in shown
    assert "not retried" in gpus.run("why", "sweep/1").stdout


def count(home, state):
    return list(home.states().values()).count(state)


def test_three_equal_mistakes_before_any_success_hold_the_rest(home):
    home.script("train", f'#!/bin/sh\n[ "$1" -lt 3 ] || flock -s "$GATE" true\nprintf "{MISTAKE}"\nexit 1\n')
    home.close_gate()
    home.submit(grid("train", 6, 'command = ["train", "{i}"]\n'), "--lanes", 1)
    wait_until(lambda: count(home, "running") and count(home, "held") == 2, "the breaker")
    assert count(home, "failed") == 3
    why = home.run("why", "sweep/5").stdout
    assert "3 jobs of step train failed the same way" in why and "KeyError" in why
    waits = home.start("wait", "sweep")
    home.open_gate()
    assert waits.wait() == 1
    assert count(home, "failed") == 6, "each was tried in the end"


def test_after_a_mend_the_same_sweep_again_goes_on(home):
    says(home, MISTAKE)
    text = grid("train", 10, step("train"))
    home.submit(text, "--lanes", 1)
    # Some seconds pass until the next one is tried.
    wait_until(lambda: count(home, "failed") >= 6 and count(home, "failed") + count(home, "held") == 10, "the breaker")
    says(home, "", code=0)
    home.submit(text, "--lanes", 1)
    assert home.wait() == 0


def test_a_success_of_a_job_that_still_runs_lets_the_others_go_on(home):
    home.script("train", f'#!/bin/sh\n[ "$1" = 0 ] && exec stamp\nprintf "{MISTAKE}"\nexit 1\n')
    home.close_gate()
    text = grid("train", 15, 'command = ["train", "{i}"]\n')
    home.submit(text, "--lanes", 2)
    wait_until(lambda: count(home, "held"), "the breaker")
    home.open_gate()
    assert home.wait() == 1
    assert (count(home, "done"), count(home, "failed")) == (1, 14)


def test_with_breaker_0_all_of_them_fail(home):
    says(home, MISTAKE)
    home.submit(grid("train", 6, step("train", "breaker = 0")), "--lanes", 2)
    assert home.wait() == 1
    assert list(home.states().values()) == ["failed"] * 6


def ended(home, *keys, **step):
    """The only job of a sweep whose step has these keys and a script of Python."""
    home.script("train", f"#!{sys.executable}\n" + step["code"])
    home.submit("[steps.a]\n" + '\n'.join(['command = ["train"]', *keys]) + "\n")
    home.wait()
    return home.only()


def test_an_outage_behind_a_handled_key_error_is_retried(home):
    code = """
try:
    {}["cached"]
except KeyError:
    raise ConnectionError("the hub does not answer")
"""
    job = ended(home, 'retries = { max = 1, delay = "50ms" }', code=code)
    assert (job["class"], job["attempt"]) == ("exit", 2)
    assert "ConnectionError: the hub does not answer" in home.run("why", "@").stdout


def test_what_was_handled_before_the_end_does_not_decide(home):
    code = """
print("CUDA out of memory, trying 32")
for epoch in range(20):
    print("epoch", epoch)
raise ValueError("loss is nan")
"""
    job = ended(home, code=code)
    assert (job["class"], job["reason"]) == ("exit", "exit code 1: ValueError: loss is nan")


def test_the_last_exception_decides_behind_ranks_colors_and_boxes(home):
    code = """
print("[rank0]: Traceback (most recent call last):")
print("[rank0]:   File 'train.py', line 3, in <module>")
print("[rank0]: \\x1b[1;35mKeyError\\x1b[0m: 'los'")
raise SystemExit(1)
"""
    job = ended(home, "retries = 2", code=code)
    assert (job["class"], job["attempt"]) == ("user-error", 1)
    assert job["reason"].startswith("exit code 1: KeyError: 'los'")


def test_what_a_shell_cannot_execute_is_a_user_error_with_the_shells_line(home):
    home.submit('[grid]\ni = [0, 1, 2, 3, 4]\n[steps.a]\nretries = 2\nshell = "pyhton train.py"\n', "--lanes", 1)
    wait_until(lambda: "held by the breaker" in home.run("why", "sweep/4").stdout, "the breaker")
    why = home.run("why", "sweep/0").stdout
    assert "pyhton: not found" in why or "pyhton: command not found" in why
    assert home.only("sweep/0")["attempt"] == 1


def test_a_module_that_is_not_there_is_a_user_error_with_pythons_line(home):
    home.submit(f'[steps.a]\nretries = 2\ncommand = ["{sys.executable}", "-m", "nosuch_module"]\n', "--lanes", 1)
    assert home.wait() == 1
    job = home.only()
    assert (job["class"], job["attempt"]) == ("user-error", 1)
    assert job["reason"].startswith(f"exit code 1: {sys.executable}: No module named nosuch_module")


def test_windows_line_endings_are_named_however_the_script_is_started(home):
    path = home.file("c.py", "#!/usr/bin/env python3\r\nprint(1)\r\n", 0o755)
    home.submit('[steps.a]\nretries = 2\nshell = "./c.py"\n', "--lanes", 1)
    assert home.wait() == 1
    job = home.only()
    assert (job["class"], job["attempt"]) == ("user-error", 1)
    words = "the script has Windows line endings; convert it with dos2unix"
    assert words in job["reason"] and words in home.run("why", "@").stdout
    told = home.run("run", "--name", "one", "--lanes", 1, "--", path, code=127)
    assert words in told.stderr and words in home.run("why", "one").stdout
