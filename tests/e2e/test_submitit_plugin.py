"""The package submitit with `cluster="pergpu"`, where it is installed, and its own tests of a local executor."""
import json
import os
import re
import subprocess

import pytest

from harness import read
from optional import python_with
from test_executor import PACKAGE, environment

ROOT = os.path.join(PACKAGE, "..")
BEGIN = """
import json, os, pickle, sys, time
import submitit
executor = submitit.AutoExecutor(folder="logs/%j", cluster="pergpu")
executor.update_parameters(timeout_min=2, pergpu_lanes=2, name="s")
"""
OURS_AS_LOCAL = """
from pergpu.submitit import _plugin
from submitit.local import local
local.LocalExecutor, local.LocalJob = _plugin.PergpuExecutor, _plugin.PergpuJob
"""
NOT_OURS = {
    "test_local_job": "three tasks in a job",
    "test_get_first_task_error": "three tasks in a job",
    "test_stdout": "two tasks in a job",
    "test_killed": "looks at the process of a local job, which runs at once",
    "test_cancel": "looks at the process of a local job, which runs at once",
    "test_setup": 'asks for cluster="local" by name',
    "test_make_subprocess": "starts the controller of the local executor, nothing of ours",
    "test_long_running_job": "two minutes",
    "test_requeuing": "a job that has to begin within a second; ours is above",
    "test_custom_checkpoint": "a job that has to begin within a second; ours is above",
}


@pytest.fixture
def python(home):
    """Runs a Python with submitit and with the entry points of the wheel; its output."""
    path = python_with("submitit", "cloudpickle", "pytest")
    points = re.search(r"^\[project\.entry-points\.submitit\].*?\n\n", read(ROOT + "/pyproject.toml"), re.M | re.S)[0]
    os.makedirs(home.root + "/site/pergpu-0.dist-info")
    for name, text in (
        ("METADATA", "Metadata-Version: 2.1\nName: pergpu\nVersion: 0\n"),
        ("entry_points.txt", "[submitit]\n" + "\n".join(points.replace('"', "").splitlines()[1:]) + "\n"),
    ):
        with open(f"{home.root}/site/pergpu-0.dist-info/{name}", "w") as file:
            file.write(text)
    env = {**environment(home), "PYTHONPATH": f"{PACKAGE}:{home.root}/site:{home.work}"}

    def run(*words, code=0):
        done = subprocess.run([path, *words], cwd=home.work, env=env, text=True, timeout=400,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    return run


@pytest.fixture
def script(home, python):
    return lambda text, code=0: python(home.file("script.py", BEGIN + text), code=code)


def test_a_function_is_a_job_that_knows_its_environment(home, script):
    out = script("""
def f(x, y=0):
    print("in", x)
    env = submitit.JobEnvironment()
    return x + y, env.job_id, env.global_rank, env.num_tasks, str(env.paths.folder)
job = executor.submit(f, 3, y=4)
result = job.result()
print(json.dumps([*result, job.job_id, job.state, job.done(), job.paths.stdout.read_text() == job.stdout(), "in 3" in job.stdout()]))
print(pickle.loads(pickle.dumps(job)).result() == result, job.submission().args, job)
""")
    first, second = out.splitlines()
    total, job_id, rank, tasks, folder, *rest = json.loads(first)
    assert (total, rank, tasks, folder) == (7, 0, 1, f"{home.work}/logs/{job_id}")
    assert rest == [job_id, "COMPLETED", True, True, True]
    assert second == f'True (3,) PergpuJob<job_id={job_id}, task_id=0, state="COMPLETED">'
    assert [job["params"]["what"] for job in home.json("show", "@")["jobs"]] == ["f(x=3, y=4)"]


def test_arrays_and_batches_are_one_sweep(home, script):
    out = script("""
jobs = executor.map_array(pow, [1, 2, 3], [2, 2, 2])
with executor.batch():
    more = [executor.submit(pow, i, 3) for i in range(3)]
    try:
        more[0].job_id
    except AttributeError as error:
        print(type(error).__name__)
print([job.result() for job in jobs + more])
""")
    assert out == "AttributeError\n[1, 4, 9, 0, 1, 8]\n"
    assert len(home.ps("@")) == 6


def test_errors_come_as_those_of_submitit(home, script):
    out = script("""
from submitit.core.utils import FailedJobError, UncompletedJobError
def f(how):
    if how == "raise":
        raise ValueError("on purpose")
    os._exit(3)
for how in ("raise", "exit"):
    job = executor.submit(f, how)
    error = job.exception()
    print(type(error).__name__, "ValueError: on purpose" in str(error), "exit code 3" in str(error), job.state)
job = executor.submit(time.sleep, 600)
job.cancel()
job.wait()
print(job.state, type(job.exception()).__name__)
for wrong in (dict(pergpu_retrys=1), dict(pergpu_timeout="soon"), dict(tasks_per_node=2)):
    try:
        executor.update_parameters(**wrong)
    except Exception as error:
        print(type(error).__name__)
""")
    assert out.splitlines() == [
        "FailedJobError True False FAILED",
        "UncompletedJobError False True FAILED",
        "CANCELLED UncompletedJobError",
        "NameError",
        "BadArgument",
        "ValueError",
    ]


def test_a_checkpointable_goes_on_at_no_charge(home, script):
    out = script("""
import signal
class Training(submitit.helpers.Checkpointable):
    epoch = 0
    def __call__(self, epochs):
        while self.epoch < epochs:
            self.epoch += 1
            if self.epoch == 2:
                os.kill(os.getpid(), getattr(signal, "SIG" + os.environ["PERGPU_SIGNAL"]))
                time.sleep(60)
        return self.epoch, os.environ["PERGPU_ATTEMPT"]
    def checkpoint(self, epochs):
        return submitit.helpers.DelayedSubmission(self, epochs + 1)
job = executor.submit(Training(), 3)
print(job.result(), job.stdout().count("Requeued job"), job.state)
""")
    assert out == "(4, '2') 1 COMPLETED\n"


def test_other_clusters_are_as_they_were(home, script):
    out = script("""
import shutil
print(submitit.AutoExecutor(folder="other").cluster == ("slurm" if shutil.which("srun") else "local"))
local = submitit.AutoExecutor(folder="other", cluster="local")
local.update_parameters(timeout_min=1, slurm_signal_delay_s=10, pergpu_retries=3, slurm_partition="x")
print(local.submit(pow, 2, 3).result())
""")
    assert out == "True\n8\n"


def test_submitits_own_tests_of_a_local_executor_pass(home, python):
    home.file("ours_as_local.py", OURS_AS_LOCAL)
    leave_out = " and ".join(f"not {name}" for name in NOT_OURS)
    out = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "ours_as_local", "-k", leave_out,
                 "--pyargs", "submitit.local.test_local")  # fmt: skip
    assert " passed" in out and "failed" not in out, out
