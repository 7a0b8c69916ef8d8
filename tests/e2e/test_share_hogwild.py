"""What processes train together: the example, run as a sweep, and one of its workers killed inside an
update."""
import json

import pytest

from harness import read, wait_until

pytest.importorskip("sklearn")
pytest.importorskip("torch")

DYING = """shared.count("steps")
                if (cfg.worker, os.environ["PERGPU_ATTEMPT"], mine) == (1, "1", 1):
                    os.kill(os.getpid(), 9)"""
WAITING = """    if cfg.workers > 1:
        __import__("fcntl").flock(open(os.environ["GATE"]), 1)
        print("cut updates:", shared.cut_updates)
        state"""


@pytest.fixture
def submit(home, example):
    """Submits a sweep of the example."""
    example("hogwild")
    return lambda name, *args: home.run("submit", f"{name}.toml", *args, "-p", "epochs=16")


def metrics(home, sweep):
    (row,) = [job for job in home.json("show", sweep)["jobs"] if job["step"] == "evaluate"]
    return json.loads(read(row["metrics"]).splitlines()[-1])


def test_a_worker_that_is_killed_inside_an_update_joins_the_others_again(home, submit):
    path = home.work + "/train.py"
    script = read(path).replace('shared.count("steps")', DYING, 1).replace("    if cfg.workers > 1:\n        state", WAITING, 1)
    home.file("train.py", script)
    home.close_gate()  # nobody ends before the killed one has come back
    submit("hogwild", "--lanes", 4)
    job = wait_until(lambda: home.ps().get("01-worker=1/train"), "the jobs")
    wait_until(lambda: home.ps()["01-worker=1/train"]["attempt"] == 2, "the second attempt", deadline=120)
    wait_until(lambda: "training with the processes" in read(job["log"], ""), "it to have the parameters", deadline=120)
    home.open_gate()
    assert home.wait() == 0
    logs = [read(one["log"]) for name, one in home.ps().items() if name.endswith("/train")]
    assert len(logs) == 4 and all("cut updates: 1\n" in log for log in logs), logs
    together = metrics(home, "hogwild")
    submit("serial", "--lanes", 1)
    assert home.wait("hogwild-serial") == 0
    alone = metrics(home, "hogwild-serial")
    assert alone["step"] == 16 * 47
    # The figures of the whole example are in docs/measurements.md; this shows that it learns as well.
    assert abs(together["loss"] / alone["loss"] - 1) < 0.1 and together["accuracy"] > 0.9, (together, alone)
