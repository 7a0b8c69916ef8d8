"""`gpus = "auto"` with real processes whose GPU memory follows a script, by the fake NVML of tests/fake_nvml."""
import math
import random
from datetime import datetime

import pytest
from test_gpus import GIB, gpus, most_on_one_gpu, uuid, world  # noqa: F401: fixtures

from harness import LONG, grid

ALL = 80 * GIB  # of each GPU

# Has so much of its GPU's memory: one figure for so many seconds, then the next …
HOLDING = """#!/bin/sh
begin=1
while [ $# -gt 1 ]; do
  echo "$1" >"$CLAIMS/../claim.$$" && mv "$CLAIMS/../claim.$$" "$CLAIMS/$CUDA_VISIBLE_DEVICES.$$"
  [ -z "$begin" ] || echo "start $PERGPU_JOB $PERGPU_ATTEMPT $$ $CUDA_VISIBLE_DEVICES $PERGPU_STEP" >>"$STAMPS"
  begin=
  sleep "$2"
  shift 2
done
echo "end $PERGPU_JOB $PERGPU_ATTEMPT $$ $CUDA_VISIBLE_DEVICES $PERGPU_STEP" >>"$STAMPS"
"""


def step(*curve):
    words = ", ".join(f'"{number}"' for number in curve)
    return f'gpus = "auto"\ncommand = ["holding", {words}]'


@pytest.fixture
def packed(gpus):  # noqa: F811
    gpus.script("holding", HOLDING)
    return gpus


def test_as_many_are_put_on_a_gpu_as_it_takes_once_one_was_alone(packed):
    packed.world.show([{"uuid": uuid(0), "utilization": 20}])
    packed.submit(grid("train", 9, step(19 * GIB, 8)))
    packed.until_running(1)
    assert "asks for a GPU to itself (what similar jobs need is unknown" in packed.run("why", "9").stdout
    assert packed.wait() == 0
    starts = [line[0] for line in packed.stamps.lines()]
    assert starts[:2] == ["start", "end"] and most_on_one_gpu(packed.stamps) == 4
    assert packed.json("show", "9")["jobs"][0]["limits"]["gpus"] == 0.245
    packed.submit(grid("train", 4, step(19 * GIB, 8)), name="next.toml")
    packed.until_running(13)
    assert packed.wait("next") == 0 and packed.stamps.count("start") == 13
    most = packed.json("show", "13")["jobs"][0]["usage"]["most"]
    assert most["gpu_memory_bytes"] == 19 * GIB, "its own, not the GPU's"


def test_one_that_outgrows_what_its_like_needed_is_ended_and_nobody_else(packed):
    packed.world.show([{"uuid": uuid(0), "utilization": 20}])
    grows = f"[ $PERGPU_PARAM_I = 3 ] && more={38 * GIB} || more={19 * GIB}; exec holding {19 * GIB} 4 $more 8"
    packed.submit(grid("train", 6, f'gpus = "auto"\nretries = 1\nshell = "{grows}"'))
    assert packed.wait() == 0
    ended = {int(job["index"]): job for job in packed.json("show", "@")["jobs"]}
    assert {i: len(job["attempts"]) for i, job in ended.items()} == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 1}
    assert ended[3]["attempts"][0]["class"] == "gpu-memory" and ended[3]["retries_left"] == 1


def test_jobs_are_promised_what_their_shape_needs(packed):
    packed.world.show([{"uuid": uuid(0), "utilization": 20}])
    hold = f"[ $PERGPU_PARAM_MODEL = large ] && gib={38 * GIB} || gib={9 * GIB}; exec holding $gib 8"
    steps = f'[steps.train]\ngpus = "auto"\nshell = "{hold}"'
    packed.submit(f'[grid]\nmodel = ["large", "small"]\nseed = [0, 1, 2, 3]\n{steps}')
    assert packed.wait() == 0
    shares = {job["params"]["model"]: job["limits"]["gpus"] for job in packed.json("show", "@")["jobs"]}
    assert shares == {"large": 0.49, "small": 0.2}, "two by memory, five by time"
    packed.submit(f'[grid]\nmodel = ["small"]\nseed = [4, 5, 6, 7, 8]\n{steps}', name="next.toml")
    assert packed.wait("next") == 0
    assert {job["state"] for job in packed.ps("next").values()} == {"done"}
    assert most_on_one_gpu(packed.stamps) == 5


def promise_of(most):
    return most + max(most // 32, GIB // 4)


def best_makespan(jobs, gpu_count, most, seconds):
    """Jobs that are all alike: so many at once on each GPU, round by round; the best of all numbers."""
    return min(math.ceil(jobs / (each * gpu_count)) * seconds for each in range(1, ALL // promise_of(most) + 1))


@pytest.mark.skipif(not LONG, reason="takes minutes; set PERGPU_LONG=1")
@pytest.mark.parametrize("seed", range(3))
def test_jobs_of_any_size_end_within_a_tenth_of_the_best_packing_and_none_is_stopped(packed, seed):
    dice = random.Random(seed)
    gpu_count, rises_after, seconds = dice.randint(1, 2), dice.randint(0, 3), 9
    most = dice.randint(10, 45) * GIB
    at_once = gpu_count * (ALL // promise_of(most))
    jobs = 30 * at_once - dice.randint(0, at_once - 1)
    packed.world.show([{"uuid": uuid(i), "utilization": 2} for i in range(gpu_count)])
    packed.submit(grid("train", jobs, step(most // 2, rises_after, most, seconds)))
    while packed.run("wait", "@", "--timeout", "200s", code=None).returncode == 124:
        pass
    ended = list(packed.ps().values())
    assert {job["state"] for job in ended} == {"done"} and len(ended) == jobs
    assert packed.stamps.count("start") == jobs, "one attempt each"
    best = best_makespan(jobs, gpu_count, most, rises_after + seconds)
    times = [[datetime.fromisoformat(job[key].rstrip("Z")) for job in ended] for key in ("started_at", "ended_at")]
    took = (max(times[1]) - min(times[0])).total_seconds()
    assert took <= 1.1 * best, f"{jobs} jobs of {rises_after + seconds} s and {most // GIB} GiB on {gpu_count} GPUs"
