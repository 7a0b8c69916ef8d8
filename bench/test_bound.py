"""Tests of bench/bound: pytest bench/test_bound.py"""
import importlib.machinery
import importlib.util
import itertools
import json
import pathlib
import random
import subprocess
import sys

PATH = pathlib.Path(__file__).with_name("bound")
loader = importlib.machinery.SourceFileLoader("bound", str(PATH))
bound = importlib.util.module_from_spec(importlib.util.spec_from_loader("bound", loader))
sys.modules["bound"] = bound  # dataclasses look their module up
loader.exec_module(bound)


def jobs_of(durations, step="main"):
    return [bound.Job(step=step, run=str(i), duration=float(d), order=i) for i, d in enumerate(durations)]


def limits(lanes, **most):
    return bound.Limits(lanes={bound.SHARED: lanes}, max_parallel=most)


def test_optimum_beats_both_lists():
    # Longest first gives 3+2+2 | 3+2 = 7; the best is 3+3 | 2+2+2 = 6.
    jobs = jobs_of([3, 3, 2, 2, 2])
    how, best, lists = bound.reference(jobs, limits(2))
    assert how == "optimum" and best == 6
    assert lists["longest first"] == 7


def test_many_jobs_take_the_better_list():
    jobs = jobs_of([1] * 10 + [10])
    how, best, lists = bound.reference(jobs, limits(2))
    assert lists == {"in order": 15, "longest first": 10}
    assert (how, best) == ("longest first", 10)


def test_thirteen_hours_on_eight_lanes():
    how, best, _ = bound.reference(jobs_of([3600] * 13), limits(8))
    assert best == 7200


def test_story_with_evaluations_one_at_a_time():
    # 13 trainings of 1 h, each followed by an evaluation of 14 min, at most one evaluation at once.
    jobs = jobs_of([60] * 13, "train") + jobs_of([14] * 13, "evaluate")
    for order, job in enumerate(jobs):
        job.order = order
    bound.link(jobs, {"evaluate": ["train"]})
    _, best, _ = bound.reference(jobs, limits(8, evaluate=1))
    assert best == 60 + 13 * 14


def test_needs_of_the_same_run_only():
    jobs = jobs_of([1, 5], "train") + jobs_of([3, 1], "evaluate")
    bound.link(jobs, {"evaluate": ["train"]})
    assert jobs[2].needs == [0] and jobs[3].needs == [1]
    assert bound.reference(jobs, limits(2))[1] == 6


def test_all_and_once_wait_for_everybody():
    jobs = jobs_of([1, 5], "train") + jobs_of([1, 1], "compare") + jobs_of([2], "table")
    bound.link(jobs, {"compare": ["train:all"], "table": ["compare"]}, once={"table"})
    assert jobs[2].needs == [0, 1] and jobs[4].needs == [2, 3]
    assert bound.reference(jobs, limits(4))[1] == 8


def test_steps_with_lanes_of_their_own():
    jobs = jobs_of([4, 4], "train") + jobs_of([3, 3], "evaluate")
    separate = bound.Limits(lanes={bound.SHARED: 2, "evaluate": 1}, pool_of={"evaluate": "evaluate"})
    assert bound.reference(jobs, separate)[1] == 6
    assert bound.reference(jobs, limits(2))[1] == 7


def test_wide_jobs_take_several_lanes():
    jobs = jobs_of([2, 2, 2])
    jobs[0].width = 2
    assert bound.reference(jobs, limits(2))[1] == 4


def test_idle_lane_can_be_the_best_choice():
    # Lists never wait, the optimum may: two lanes; the long job (10) needs `a` (1); others last 6.
    jobs = jobs_of([1, 10, 6, 6, 1])
    jobs[1].needs = [0]
    brute = brute_force(jobs, limits(2))
    assert bound.reference(jobs, limits(2))[1] == brute


def brute_force(jobs, lim):
    """All orders, each job at its earliest start with no regard to the order of starts."""
    best = float("inf")
    for order in itertools.permutations(range(len(jobs))):
        spans, ok = {}, True
        for index in order:
            job = jobs[index]
            if any(need not in spans for need in job.needs):
                ok = False
                break
            ready = max((spans[need][1] for need in job.needs), default=0.0)
            for start in sorted({ready} | {end for _, end in spans.values() if end > ready}):
                if fits(jobs, lim, spans, index, start):
                    break
            spans[index] = (start, start + job.duration)
        if ok:
            best = min(best, max(end for _, end in spans.values()))
    return best


def fits(jobs, lim, spans, index, start):
    end = start + jobs[index].duration
    instants = {start} | {begin for begin, _ in spans.values() if start < begin < end}
    for instant in instants:
        live = [other for other, (begin, stop) in spans.items() if begin <= instant < stop]
        if sum(jobs[other].width for other in live) + jobs[index].width > lim.lanes[bound.SHARED]:
            return False
        same = sum(1 for other in live if jobs[other].step == jobs[index].step)
        if same >= lim.max_parallel.get(jobs[index].step, 99):
            return False
    return True


def test_optimum_equals_trying_everything():
    generator = random.Random(1)
    for _ in range(60):
        count = generator.randint(1, 6)
        jobs = jobs_of([generator.randint(1, 9) for _ in range(count)])
        for index, job in enumerate(jobs):
            job.step = generator.choice(["train", "evaluate"])
            job.width = generator.choice([1, 1, 1, 2])
            job.needs = [other for other in range(index) if generator.random() < 0.25]
        lim = limits(generator.randint(2, 3), evaluate=generator.randint(1, 2))
        assert bound.reference(jobs, lim)[1] == brute_force(jobs, lim)


def test_ten_unequal_jobs_are_solved():
    jobs = jobs_of([37, 41, 43, 47, 53, 59, 61, 67, 71, 73])
    _, best, lists = bound.reference(jobs, limits(3))
    assert sum(job.duration for job in jobs) / 3 <= best <= min(lists.values())


def test_command_reads_the_output_of_ps(tmp_path):
    rows = [{"id": 17 + i, "run": str(i % 2), "step": step, "state": "done",
             "queued_at": "2026-01-01T00:00:00Z", "started_at": f"2026-01-01T00:00:{start:02d}.500Z",
             "ended_at": f"2026-01-01T00:00:{end:02d}.500Z"}
            for i, (step, start, end) in enumerate(
                [("train", 0, 10), ("train", 0, 10), ("evaluate", 10, 15), ("evaluate", 15, 20)])]
    rows.append({"id": 99, "run": "9", "step": "train", "state": "skipped", "started_at": None})
    sweep = tmp_path / "sweep.toml"
    sweep.write_text('[steps.train]\ncommand="x"\n[steps.evaluate]\ncommand="x"\nneeds=["train"]\nmax_parallel=1\n')
    out = subprocess.run([PATH, "--lanes", "2", "--sweep", sweep, "--json"], check=True, text=True,
                         input=json.dumps({"schema": 1, "jobs": rows}), stdout=subprocess.PIPE).stdout
    result = json.loads(out)
    assert result["jobs"] == 4 and result["reference_s"] == 20
    assert result["makespan_s"] == 20.5 and result["ratio"] == 20.5 / 20


def test_command_reads_csv():
    out = subprocess.run([PATH, "--lanes", "1", "-"], check=True, text=True,
                         input="step,duration\nmain,1.5\nmain,2.5\n", stdout=subprocess.PIPE).stdout
    assert "reference      4.000 s  (optimum)" in out


def test_impossible_needs_are_an_error():
    done = subprocess.run([PATH, "--lanes", "1", "--width", "main=2", "-"], text=True, input="step,duration\nmain,1\n",
                          capture_output=True)
    assert done.returncode != 0 and "can never start" in done.stderr
