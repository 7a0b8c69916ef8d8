"""Jobs that `import pergpu`: what they are told, and what becomes of what they say."""
import json
import os
import sys

import pytest

from harness import grid, read, wait_until

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")


def python(home, text, extra="", params="", **options):
    """Submits a sweep of two runs, each with this program."""
    home.script("train.py", f"#!{sys.executable}\nimport os, sys, time\nimport pergpu\n{text}")
    options.setdefault("name", "sweep.toml")
    return home.submit(grid("train", 2, f'command = ["{home.work}/train.py"]\n{extra}', params), "--lanes", 2,
                       env={"PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"}, **options)  # fmt: skip


def test_a_job_reads_its_run_and_reports(home):
    python(home, """
cfg = pergpu.config(lr=0.5)
for step in range(3):
    pergpu.report(step=step, loss=cfg.lr / (1 + step) + cfg.i)
(pergpu.out / "model.txt").write_text(str(cfg))
""")  # fmt: skip
    assert home.wait() == 0
    for i in range(2):
        job = home.json("show", f"sweep/{i}")["jobs"][0]
        lines = [json.loads(line) for line in read(job["out"] + "/metrics.jsonl").splitlines()]
        assert [line["step"] for line in lines] == [0, 1, 2] and lines[0]["loss"] == 0.5 + i
        assert read(job["out"] + "/model.txt") == str({"lr": 0.5, "i": i})
    rows = [json.loads(line) for line in home.run("export", "--jsonl", "sweep").stdout.splitlines()]
    assert sorted(row["last_metrics"]["step"] for row in rows) == [2, 2]


def test_what_it_says_is_shown_while_it_runs(home):
    home.close_gate()
    python(home, """
pergpu.status("warm")
pergpu.progress(3, 10)
os.execlp("stamp", "stamp")
""")  # fmt: skip
    home.until_running(2)
    shown = wait_until(lambda: all(job["status"] and job["progress"] for job in home.ps().values()) and home.ps(), "its words")
    assert {(job["status"], job["progress"]) for job in shown.values()} == {("warm", "3/10")}
    home.open_gate()
    assert home.wait() == 0


def test_ready_lets_the_next_one_begin(home):
    home.close_gate()
    python(home, """
pergpu.ready()
os.execlp("stamp", "stamp")
""", "max_starting = 1\nready = '1h'")  # fmt: skip
    home.until_running(2)
    home.open_gate()
    assert home.wait() == 0


def test_the_signal_before_a_timeout_saves_and_goes_on_in_the_next_attempt(home):
    python(home, """
pergpu.checkpoint_requested()
saved = pergpu.out / "saved"
if saved.exists():
    sys.exit(0)
while not pergpu.checkpoint_requested():
    time.sleep(0.01)
saved.touch()
pergpu.requeue()
""", "timeout = '1000s'\nsignal = 'USR1@990s'")  # fmt: skip
    assert home.wait() == 0
    assert {job["attempt"] for job in home.ps().values()} == {2}
    first = json.loads(read(home.only("sweep/0")["out"] + "/attempt.1.json"))
    assert first["class"] == "requeue" and first["exit"] == 75


def test_a_cancel_saves_by_the_decorated_function(home):
    home.close_gate()
    python(home, """
@pergpu.on_checkpoint
def save():
    (pergpu.out / "saved").touch()
import subprocess
subprocess.run(["stamp"], start_new_session=True)
time.sleep(1000)
""", "timeout = '2000s'\nsignal = 'USR1@100s'\ngrace = '100s'")  # fmt: skip
    home.until_running(2)
    home.run("cancel", "sweep")
    assert home.wait() == 1
    for job in home.ps().values():
        assert job["state"] == "cancelled" and os.path.exists(job["out"] + "/saved")


def test_a_mistake_in_the_name_of_a_parameter_is_an_error_of_the_user(home):
    python(home, "print(pergpu.config().j)", "retries = 3")
    assert home.wait() == 1
    job = home.only("sweep/0")
    assert job["class"] == "user-error" and job["attempt"] == 1
    assert "the run has no parameter 'j'; did you mean" in read(job["log"]) or "it has i" in read(job["log"])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_signal_leaves_children_of_the_job_alive(home, method):
    home.file("train.py", """
import multiprocessing, subprocess, sys, time
import pergpu

def work():
    time.sleep(1000)

def main():
    pergpu.checkpoint_requested()
    if (pergpu.out / "saved").exists():
        return
    children = [multiprocessing.get_context(sys.argv[1]).Process(target=work, daemon=True)]
    children[0].start()
    program = subprocess.Popen(["sleep", "1000"])
    while not pergpu.checkpoint_requested():
        time.sleep(0.01)
    time.sleep(0.3)  # a signal would have come by now
    alive = children[0].is_alive() and program.poll() is None
    program.kill()
    (pergpu.out / "saved").write_text(str(alive))
    pergpu.requeue()

if __name__ == "__main__":
    main()
""")
    home.submit(f"[steps.a]\nshell = 'cd . && {sys.executable} train.py {method}; exit $?'\n"
                "timeout = '1000s'\nsignal = 'USR1@995s'\n", env={"PYTHONPATH": PACKAGE})  # fmt: skip
    assert home.wait() == 0
    assert read(home.only()["out"] + "/saved") == "True"
