"""What jobs share: the example, run as a sweep."""
import json

import pytest

from harness import read, wait_until

pytest.importorskip("numpy")
pytest.importorskip("sklearn")


def test_eight_jobs_of_the_example_load_their_data_once(home, example):
    example("shared_dataset")
    with open(home.work + "/train.py", "a") as script:  # nobody ends before the last one has the data
        script.write("    __import__('fcntl').flock(open(__import__('os').environ['GATE']), 1)\n")
    home.close_gate()
    home.run("submit", "shared_dataset.toml", "--lanes", 8)
    wait_until(lambda: [*home.states("shared_dataset").values()] == 8 * ["running"], "eight running jobs")
    jobs = home.json("show", "shared_dataset")["jobs"]
    wait_until(lambda: all("digits right" in read(job["log"], "") for job in jobs), "all of them to be trained")
    home.open_gate()
    assert home.wait() == 0
    assert sum(read(job["log"]).count("loading the data") for job in jobs) == 1
    rows = [json.loads(line) for line in home.run("export", "--jsonl", "shared_dataset").stdout.splitlines()]
    assert len(rows) == 8 and all(row["last_metrics"]["accuracy"] > 0.8 for row in rows), rows


def test_one_producer_feeds_four_trainers_of_the_example(home, example):
    example("producer_consumer")
    home.run("run", "producer_consumer.toml", "--lanes", 5)
    jobs = {job["id"]: job for job in home.json("show", "producer_consumer")["jobs"]}
    logs = [read(job["log"]) for job in jobs.values()]
    assert sum("600 batches for 4 of 4 trainers" in log for log in logs) == 1, logs
    assert sum(log.strip().endswith("600 batches") for log in logs) == 4, logs
    rows = [json.loads(line) for line in home.run("export", "--jsonl", "producer_consumer").stdout.splitlines()]
    trained = [row["last_metrics"] for row in rows if row["step"] == "train"]
    assert len(trained) == 4 and all(row["step"] == 600 and row["accuracy"] > 0.8 for row in trained), rows
