"""`pergpu.submitit`: the habits of submitit's users, with jobs of pergpu."""
import json

from harness import wait_until
from test_executor import begun, environment, python, rest_of  # noqa: F401 (begun is a fixture)

# tell(): what the coordinator does ahead of the timeout.
BEGIN = """
import signal
import pergpu.submitit as submitit
def tell():
    os.kill(os.getpid(), signal.SIGUSR2)
    time.sleep(60)
executor = submitit.AutoExecutor(folder="logs/%j", cluster="pergpu")
executor.update_parameters(name="s", timeout_min=2, pergpu_lanes=2)
"""


def run(home, text, code=0):
    return python(home, BEGIN + text, code)


def test_a_job_tells_what_submitits_jobs_tell(home):
    out = run(home, """
def f(x, y=0):
    print("in", x)
    print("to stderr", file=sys.stderr)
    env = submitit.JobEnvironment()
    return x + y, env.job_id, env.global_rank, env.num_tasks
job = executor.submit(f, 3, y=4)
job.wait()
total, job_id, rank, tasks = job.result()
assert job.results() == [job.result()] and job.task(0) is job and job.num_tasks == 1
assert job.done() and job.exception() is None and job_id == job.job_id
print(json.dumps([total, rank, tasks, job.state, job.stdout(), job.stderr() == job.stdout(), str(job.paths.folder)]))
try:
    job.task(1)
except ValueError as error:
    print(error)
""")  # fmt: skip
    first, second = out.splitlines()
    *told, folder = json.loads(first)
    assert told == [7, 0, 1, "COMPLETED", "in 3\nto stderr\n", True]
    assert folder.startswith(home.work + "/logs/s-") and "one task" in second
    assert [job["params"]["what"] for job in home.json("show", "@")["jobs"]] == ["f(x=3, y=4)"]


def test_what_a_function_raises_is_told_with_its_traceback(home):
    out = run(home, """
def f(how):
    if how == "raise":
        raise ValueError("on purpose")
    os._exit(3)
for how in ("raise", "exit"):
    job = executor.submit(f, how)
    try:
        job.result()
    except submitit.UncompletedJobError as error:
        print(type(error) is submitit.FailedJobError, type(error.__cause__).__name__, job.state)
        print(json.dumps(str(error)))
        assert str(job.exception()) == str(error)
""")  # fmt: skip
    raised, words, exited, _ = out.splitlines()
    assert raised == "True ValueError FAILED" and exited == "False JobFailed FAILED"
    assert "Traceback" in words and "in f" in words and "ValueError: on purpose" in words


def test_arrays_and_batches_are_queued_together(home):
    out = run(home, """
import functools, warnings
print([job.result() for job in executor.map_array(pow, [1, 2, 3], [2, 2, 2])])
print([job.result() for job in executor.submit_array([functools.partial(pow, 2, i) for i in range(3)])])
with executor.batch():
    jobs = [executor.submit(pow, i, 3) for i in range(3)]
    for wrong in (lambda: jobs[0].job_id, lambda: jobs[0].result(), lambda: executor.update_parameters(timeout_min=1)):
        try:
            wrong()
        except (AttributeError, RuntimeError) as error:
            print(type(error).__name__, error)
print([job.result() for job in jobs], jobs[0].done())
try:
    with executor.batch():
        dropped = executor.submit(pow, 1, 1)
        raise KeyError("mine")
except KeyError:
    try:
        dropped.job_id
    except AttributeError as error:
        print(error)
with executor.batch(allow_implicit_submissions=True):
    print(executor.submit(pow, 2, 5).result())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    executor.map_array(pow, [], [])
    with executor.batch():
        pass
    print([str(one.message) for one in caught])
with executor.batch():
    good, bad = executor.submit(pow, 1, 1), executor.submit(lambda x: x, (i for i in ()))
""", 1)  # fmt: skip
    lines = out.splitlines()
    assert lines[:2] == ["[1, 4, 9]", "[1, 2, 4]"]
    assert lines[2].startswith("AttributeError the jobs of a batch have no id") and lines[3] == lines[2]
    assert lines[4].startswith("RuntimeError parameters cannot be changed") and lines[5] == "[0, 1, 8] True"
    assert "was dropped" in lines[6] and lines[7] == "32" and "empty job array" in lines[8] and "No submission" in lines[8]
    assert "PicklingError: argument 0 of <lambda> can't be sent to another process" in lines[-1]


def test_a_checkpointable_call_goes_on_where_it_was(home):
    out = run(home, """
class Training(submitit.helpers.Checkpointable):
    def __init__(self):
        self.epoch = 0
        self.attempts = []
    def __call__(self, epochs):
        self.attempts.append(os.environ["PERGPU_ATTEMPT"] + os.environ["PERGPU_SIGNAL"])
        while self.epoch < epochs:
            self.epoch += 1
            if self.epoch == 2:
                print("waits in", self.epoch, flush=True)
                tell()
        return self.epoch, self.attempts
    def checkpoint(self, epochs):
        print("checkpoint of", self.epoch, flush=True)
        return submitit.helpers.DelayedSubmission(self, epochs + 1)
job = executor.submit(Training(), 3)
print(job.result(), job.future.outcome["attempt"])
print(json.dumps(job.stdout()))
""")  # fmt: skip
    first, log = out.splitlines()
    assert first == "(4, ['1USR2', '2USR2']) 2"
    log = json.loads(log)
    assert log.index("waits in 2\n") < log.index("checkpoint of 2\n")
    (job,) = home.json("show", "@")["jobs"]
    assert job["state"] == "done"


def test_a_call_goes_on_no_more_often_than_it_may(home):
    out = run(home, """
class Endless:
    def __call__(self):
        tell()
    def checkpoint(self):
        return submitit.helpers.DelayedSubmission(self)
class Unwilling(Endless):
    def checkpoint(self):
        return None
executor = submitit.AutoExecutor("logs", slurm_max_num_timeout=1)
executor.update_parameters(timeout_min=2, pergpu_lanes=2)
for job in executor.submit_array([Endless(), Unwilling()]):
    print(job.exception(), "|", job.future.outcome["attempt"], job.state)
""")  # fmt: skip
    endless, unwilling = out.splitlines()
    assert endless == "its time is over again, after it has continued 1 times (max_num_timeout) | 2 FAILED"
    assert unwilling == "its time is over, and checkpoint() has returned None | 1 FAILED"


def test_a_program_may_end_and_its_jobs_are_found_again(home):
    home.close_gate()
    out = run(home, """
import pickle
def f(i):
    os.system('flock -s "$GATE" true')
    return i * i
jobs = executor.map_array(f, range(3))
with open("jobs", "wb") as file:
    pickle.dump(jobs, file)
print(*[job.job_id for job in jobs])
""")
    home.open_gate()
    out = run(home, f"""
import pickle
print([job.result() for job in pickle.load(open("jobs", "rb"))])
print([submitit.Job("logs", job_id).result() for job_id in "{out}".split()])
""".replace("\n\"", "\""))
    assert out == "[0, 1, 4]\n[0, 1, 4]\n"


def test_a_job_is_cancelled_wherever_it_is(home):
    out = run(home, """
executor.update_parameters(slurm_array_parallelism=1, pergpu_grace="2s")
running, queued = executor.map_array(time.sleep, [600, 600])
while running.state != "RUNNING":
    time.sleep(0.01)
queued.cancel()
running.cancel()
running.wait()
print(running.state, queued.state, "cancelled" in str(queued.exception()), type(running.exception()).__name__)
job = executor.submit(time.sleep, 600).cancel_at_deletion()
print(job.job_id)
del job
""")  # fmt: skip
    first, last = out.splitlines()
    assert first == "CANCELLED CANCELLED True UncompletedJobError"
    wait_until(lambda: home.only(last)["state"] == "cancelled", "the job to be cancelled")


def test_parameters_are_those_of_a_step_or_an_error(home):
    out = run(home, """
import warnings
for wrong in (dict(timeout_mins=3), dict(slurm_partitoin="x"), dict(pergpu_retrys=1), dict(nodes=2), dict(tasks_per_node=8),
              dict(gpus_per_node="1"), dict(slurm_setup=["true"]), dict(slurm_mem="much"), dict(pergpu_retries=-1), dict(setup=[])):
    try:
        executor.update_parameters(**wrong)
        print("taken", wrong)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    executor.update_parameters(slurm_partition="gpu", slurm_mem="2G", cpus_per_task=1, slurm_time=3, name="other", stderr_to_stdout=True)
    print([str(one.message) for one in caught], caught[0].filename.endswith("script.py"))
for wrong in (dict(cluster="slurm"), dict(engine="remote"), dict(max_num_timeout=6)):
    try:
        submitit.AutoExecutor("logs", **wrong)
    except ValueError as error:
        print(error)
print(executor.submit(int, "7").result())
""")  # fmt: skip
    lines = out.splitlines()
    assert "did you mean timeout_min" in lines[0] and "did you mean slurm_partition" in lines[1], out
    assert "did you mean pergpu_retries" in lines[2] and lines[3].startswith("ValueError nodes=2: a job of pergpu is one process")
    assert lines[4].startswith("ValueError tasks_per_node=8") and lines[5].startswith("TypeError parameter gpus_per_node must be")
    assert "put it" in lines[6] or "put the rest into the function" in lines[6]
    assert 'a size like "32G"' in lines[7] and lines[8].startswith("BadArgument") and "there is no parameter setup" in lines[9]
    assert lines[10] == "[\"slurm_partition='gpu' is ignored: there is only one machine\"] True"
    assert 'no cluster "slurm"' in lines[11] and 'no engine "remote"' in lines[12] and "at most 5 times" in lines[13] and lines[14] == "7"
    (job,) = home.json("show", "@")["jobs"]
    limits = job["limits"]
    assert job["sweep"].startswith("other-") and (limits["timeout"], limits["memory"], limits["cpus"]) == ("3m", "2GiB", 1)
