"""One loader for several jobs: the example, run as a sweep, also where a training is killed."""
import json
import re

import pytest

from harness import read

pytest.importorskip("numpy")
pytest.importorskip("sklearn")

DYING = """
            if step == 100 and cfg.lr == 0.3:
                __import__("os").kill(__import__("os").getpid(), 9)
"""


@pytest.fixture
def sweep(home, example):
    """Submits the sweep; the logs of its jobs, by name, when all have ended."""
    example("one_loader")

    def run(code):
        home.run("submit", "one_loader.toml", "--lanes", 3, "-p", "epochs=10")
        assert home.wait() == code
        return {name: read(job["log"]) for name, job in home.ps("one_loader").items()}

    return run


def test_two_trainings_get_every_batch_of_the_loader_of_a_third_job(home, sweep):
    logs = sweep(0)
    assert logs["_once/feed"] == "300 batches, 2 of 2 trainings got all of them\n", logs
    first, second = logs["00-lr=0.1/train"], logs["01-lr=0.3/train"]
    assert re.fullmatch("300 batches, checksum [0-9a-f]{8}\n", first) and first == second, logs
    rows = [json.loads(line) for line in home.run("export", "--jsonl", "one_loader").stdout.splitlines()]
    trained = [row["last_metrics"] for row in rows if row["step"] == "train"]
    assert len(trained) == 2 and all(row["step"] == 300 and row["accuracy"] > 0.7 for row in trained), rows


def test_the_other_training_gets_every_batch_when_one_is_killed(home, sweep):
    path = home.work + "/train.py"
    begin = "            x = flat(image)\n"
    assert begin in read(path)
    home.file("train.py", read(path).replace(begin, DYING + begin, 1))
    logs = sweep(1)
    assert home.ps("one_loader")["01-lr=0.3/train"]["signal"] == 9
    assert logs["00-lr=0.1/train"].startswith("300 batches, "), logs
    assert logs["_once/feed"].startswith("continued without a training: "), logs
    assert logs["_once/feed"].endswith("300 batches, 1 of 2 trainings got all of them\n"), logs
