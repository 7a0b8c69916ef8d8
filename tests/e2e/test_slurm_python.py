"""Slurm from Python: calls that are jobs on a real one, and sweeps that are written in Python."""
import os
import signal

import pytest
from harness import wait_until
from test_executor import begun, python, rest_of  # noqa: F401 (begun is a fixture)
from test_executor_held import WARNED, warned

ON_SLURM = """
def on_slurm(workers=None, **options):
    return pergpu.Executor(workers, **{"gpus": 0, "on": "slurm", "timeout": "5m", **options})
"""


def test_results_and_exceptions_come_back_from_nodes(slurm, home):
    out = python(home, ON_SLURM + """
def f(x):
    print("in", x)
    pergpu.report(step=1, loss=x / 2)
    if x == 2:
        raise KeyError("two")
    return x * x, os.environ["SLURM_JOB_ID"], os.getcwd()
with on_slurm(name="calls", initializer=print, initargs=("begins",)) as calls:
    futures = [calls.submit(f, x) for x in range(4)]
    results = [future.result()[0] for future in futures if future is not futures[2]]
    error = futures[2].exception()
print(results, repr(error), futures[0].outcome["node"], futures[3].metrics["loss"])
print(futures[1].logs())
print(len({futures[x].result()[1] for x in (0, 1, 3)}), futures[0].result()[2] == os.getcwd())
""")
    assert "[0, 1, 9] KeyError('two') n0 1.5" in out and "begins\nin 1" in out and out.endswith("3 True\n")


def test_calls_at_once_become_few_arrays(slurm, home):
    python(home, ON_SLURM + """
with on_slurm(name="many") as calls:
    assert list(calls.map(lambda x: x + 1, range(12))) == list(range(1, 13))
""")
    arrays = {task.split("_")[0] for task in slurm.queue()}
    assert len(slurm.queue()) == 12 and len(arrays) <= 4, arrays


def test_what_is_killed_on_a_node_is_told(slurm, home, begun):  # noqa: F811
    home.close_gate()
    process = begun(ON_SLURM + """
with on_slurm(name="ended") as calls:
    futures = [calls.submit(stamp, i) for i in range(2)]
    print(futures[0].job, futures[1].job, flush=True)
    while not os.path.exists("kill"):
        time.sleep(0.01)
    futures[0].kill()
    try:
        futures[0].result()
    except pergpu.JobFailed as error:
        print("failed:", error, flush=True)
    print(futures[1].result())
""")
    assert process.stdout.readline() == "1 2\n"
    home.until_running(2)
    wait_until(lambda: list(home.states().values()).count("running") == 2, "both running")
    home.file("kill", "")
    assert "cancelled" in process.stdout.readline()
    home.open_gate()
    assert rest_of(process).endswith("1\n")


def test_calls_outlive_the_program(slurm, home, begun):  # noqa: F811
    home.close_gate()
    process = begun(ON_SLURM + """
calls = on_slurm(name="outlived")
futures = [calls.submit(stamp, i) for i in range(3)]
futures[2].job
print("submitted", flush=True)
time.sleep(1000)
""")
    assert process.stdout.readline() == "submitted\n"
    home.until_running(3)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    home.open_gate()
    out = python(home, "print([future.result() for future in pergpu.attach('outlived')])")
    assert out == "[0, 1, 4]\n"
    assert home.stamps.count("start") == 3


def test_what_slurm_refuses_is_told_to_who_waits_for_it(slurm, home, begun):  # noqa: F811
    process = begun(ON_SLURM + WARNED + """
with on_slurm(name="refused", slurm={"partition": "nobodys"}) as calls:
    concurrent.futures.wait([calls.submit(pow, 0, 2)])
""")
    (told,) = warned(home)
    assert told.startswith("HeldWarning: call pow(base=0, exp=2) (job 1) is held: Slurm rejected it: sbatch says: "), told
    assert "nobodys" in told and "`pergpu release 1` releases it" in told
    home.run("cancel", "refused")
    assert rest_of(process) == ""


@pytest.mark.parametrize("wrong", ["lanes=2", "reuse=True", "slurm={'partitoin': 'x'}"])
def test_what_does_not_go_with_slurm_is_said_before_anything_starts(home, wrong):
    out = python(home, f"""
try:
    pergpu.Executor(on="slurm", gpus=0, {wrong})
except (ValueError, pergpu.CommandFailed) as error:
    print("refused:", error)
""")
    assert out.startswith("refused:") and not os.path.exists(home.work + "/runs")


def test_a_sweep_written_in_python_runs_on_slurm(slurm, home):
    out = python(home, """
sweep = pergpu.Sweep("written", runs=pergpu.grid(x=[1, 2]), settings={"slurm": {"partition": "p"}},
                     steps={"train": dict(shell="echo $SLURM_JOB_PARTITION $PERGPU_PARAM_X", slurm=dict(time="10m"))})
print(len(sweep.run(on="slurm").failed))
""")
    assert out.splitlines()[-1] == "0"
    assert home.run("logs", "1").stdout == "p 1\n"
