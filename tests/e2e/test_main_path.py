"""The main path: one sweep file, many runs of steps that need each other, their folders and files."""
import json
import os

import pytest

from harness import grid, read, wait_until

SWEEP = """
name = "digits"
[grid]
method = ["ddpm", "edm"]
lr = [1e-4, 3e-4]

[steps.classifier]
once = true
shell = "echo classified >$PERGPU_OUT/classifier.txt"

[steps.train]
command = ["sh", "train.sh", "{config}", "{out}", "{lr}"]
outputs = ["{out}/model.pt"]

[steps.evaluate]
needs = ["train", "classifier"]
command = "sh evaluate.sh {train.out}/model.pt {classifier.out}/classifier.txt"
max_parallel = 1
outputs = ["{metrics}"]
"""
TRAIN = """echo "training with $3"
cp "$1" "$2/model.pt"
stamp 0
"""
EVALUATE = """cat "$1" "$2"
stamp 0.02
echo '{"fid": 1.5}' >>"$PERGPU_METRICS"
"""


@pytest.fixture
def digits(home):
    home.file("train.sh", TRAIN)
    home.file("evaluate.sh", EVALUATE)
    home.sweep = home.file("digits.toml", SWEEP)
    return home


def test_a_sweep_of_three_steps_runs_to_its_end_and_shows_a_table(digits):
    done = digits.run("run", digits.sweep, "--lanes", 4)
    rows = [line for line in done.stdout.splitlines() if "ddpm" in line or "edm" in line]
    assert len(rows) == 4 and all(row.count("done") == 2 and "1.5" in row for row in rows)
    assert "digits: 9 done" in done.stdout
    assert set(digits.states().values()) == {"done"} and len(digits.ps()) == 9


def test_needs_are_done_before_and_max_parallel_holds(digits):
    digits.run("run", digits.sweep, "--lanes", 8)
    assert digits.stamps.most_at_once("evaluate") == 1
    jobs = {job["id"]: job for job in digits.ps().values()}
    ended = {line[1]: n for n, line in enumerate(digits.stamps.lines()) if line[0] == "end"}
    begun = {line[1]: n for n, line in enumerate(digits.stamps.lines()) if line[0] == "start"}
    for job in jobs.values():
        if job["step"] == "evaluate":
            (train,) = [
                j["id"] for j in jobs.values() if (j["run"], j["step"]) == (job["run"], "train")
            ]
            assert ended[train] < begun[job["id"]]


def test_a_run_is_evaluated_while_others_still_train(digits):
    digits.file("train.sh", 'cp "$1" "$2/model.pt"\n[ "$3" = 1e-4 ] || stamp\n')
    digits.file("evaluate.sh", 'echo "start 0 0 $$ - evaluate" >>"$STAMPS"; echo {} >>"$PERGPU_METRICS"\n')
    digits.close_gate()  # for the two trainings with 3e-4
    digits.submit(read(digits.sweep), "--lanes", 3, name="digits.toml")
    wait_until(lambda: digits.stamps.of("start", 5).count("evaluate") == 2, "two evaluations")
    assert digits.stamps.of("start", 5).count("train") >= 1 and digits.stamps.count("end") == 0
    digits.open_gate()
    assert digits.wait() == 0


def test_each_job_has_its_folder_with_the_promised_files(digits):
    digits.run("run", digits.sweep)
    root = digits.work + "/runs/digits"
    names = sorted(os.listdir(root))
    assert names[:4] == [
        "00-method=ddpm,lr=1e-4",
        "01-method=ddpm,lr=3e-4",
        "02-method=edm,lr=1e-4",
        "03-method=edm,lr=3e-4",
    ]
    assert os.listdir(root + "/_once") == ["classifier"]
    train = f"{root}/{names[1]}/train"
    assert set(os.listdir(train)) == {"config.json", "log.txt", "attempt.json", "model.pt"}
    assert json.loads(read(train + "/config.json")) == {"method": "ddpm", "lr": 3e-4}
    assert read(train + "/log.txt") == "training with 3e-4\n"
    evaluate = f"{root}/{names[1]}/evaluate"
    assert read(evaluate + "/log.txt") == read(train + "/config.json") + "classified\n"
    assert json.loads(read(evaluate + "/metrics.jsonl")) == {"fid": 1.5}


def test_the_record_of_an_attempt_tells_what_ran_and_how_it_ended(digits):
    digits.run("run", digits.sweep)
    job = digits.only("digits/1/train")
    record = json.loads(read(job["out"] + "/attempt.json"))
    assert record["argv"] == ["sh", "train.sh", job["out"] + "/config.json", job["out"], "3e-4"]
    assert record["job"] == job["id"] and record["attempt"] == 1 and record["cwd"] == digits.work
    assert (record["state"], record["class"], record["exit"]) == ("done", "ok", 0)
    assert record["started_at"].endswith("Z") and record["duration_s"] >= 0
    assert record["environment"]["set"]["PERGPU_STEP"] == "train"
    assert "PATH" in record["environment"]["inherited"]
    assert list(record["files"]) == ["train.sh"]


def test_the_second_run_says_that_all_is_done_and_starts_nothing(digits):
    digits.run("run", digits.sweep)
    before = digits.stamps.lines()
    again = digits.run("run", digits.sweep)
    assert "9 kept" in again.stderr and "digits: 9 done" in again.stdout
    assert digits.stamps.lines() == before
    assert {job["attempt"] for job in digits.ps().values()} == {1}


def test_a_job_sees_the_promised_environment(home):
    home.submit(
        """[constants]
lr = 1e-4
[steps.train]
cpus = 1
env = { GREETING = "run {index}" }
command = ["env", "-0"]
""",
        env={"OMP_NUM_THREADS": "7", "RANK": "3", "WORLD_SIZE": "8", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert home.wait() == 0
    job = home.only()
    seen = dict(entry.split("=", 1) for entry in read(job["log"]).split("\0") if entry)
    wanted = {
        "CUDA_VISIBLE_DEVICES": "",
        "GREETING": "run 0",
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "7",
        "PERGPU_ATTEMPT": "1",
        "PERGPU_CONFIG": job["out"] + "/config.json",
        "PERGPU_JOB": str(job["id"]),
        "PERGPU_METRICS": job["out"] + "/metrics.jsonl",
        "PERGPU_OUT": job["out"],
        "PERGPU_PARAM_LR": "1e-4",
        "PERGPU_RUN": job["run"],
        "PERGPU_STEP": "train",
        "PERGPU_SWEEP": "sweep",
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    assert {name: seen.get(name) for name in wanted} == wanted
    assert not {"RANK", "WORLD_SIZE"} & set(seen)


def test_a_retry_keeps_the_folder_and_the_earlier_log(home):
    home.submit(
        """[steps.train]
retries = 2
shell = 'echo "attempt $PERGPU_ATTEMPT"; echo x >>$PERGPU_OUT/checkpoint; [ $PERGPU_ATTEMPT = 3 ] || exit 9'
"""
    )
    assert home.wait() == 0
    job = home.only()
    assert (job["attempt"], job["state"]) == (3, "done")
    out = job["out"]
    logs = [read(f"{out}/{name}") for name in ("log.1.txt", "log.2.txt", "log.txt")]
    assert logs == ["attempt 1\n", "attempt 2\n", "attempt 3\n"]
    assert json.loads(read(out + "/attempt.1.json"))["exit"] == 9
    assert read(out + "/checkpoint") == "x\nx\nx\n"
    assert home.run("logs", f"{job['id']}.2").stdout == "attempt 2\n"


def test_a_program_that_changed_since_the_first_start_is_warned_of(home):
    home.script("code.sh", "#!/bin/sh\nexit 5\n")
    home.submit(grid("train", 2, 'command = ["./code.sh"]'))
    home.wait()
    home.script("code.sh", "#!/bin/sh\nexit 0\n")
    home.run("retry", "@/0")
    assert home.wait() == 1
    assert "code.sh has changed" in home.only("@/0")["warnings"][0]
    home.run("retry", "@/1")
    assert home.wait() == 0
    assert not any(job["warnings"] for job in home.ps().values())


def test_yaml_and_json_are_spellings_of_the_same_sweep(home):
    toml = '[grid]\ni = [1, 2]\n[steps.a]\ncommand = ["echo", "{i}"]\ntimeout = "90s"\n'
    yaml = 'grid:\n  i: [1, 2]\nsteps:\n  a:\n    command: [echo, "{i}"]\n    timeout: 90s\n'
    same = {"grid": {"i": [1, 2]}, "steps": {"a": {"command": ["echo", "{i}"], "timeout": "90s"}}}
    texts = {"toml": toml, "yaml": yaml, "json": json.dumps(same)}
    files = [home.file("s." + kind, text) for kind, text in texts.items()]
    assert len({home.run("run", "--emit", file).stdout for file in files}) == 1
    replies = [home.json("submit", file) for file in files]
    assert [reply["new"] for reply in replies] == [2, 0, 0]
    assert home.wait() == 0


def test_two_hundred_pretended_jobs_end_as_their_file_says(home):
    fake = 'command = ["true"]\nfake = { duration = "5ms", exit = "{i}" }\n'
    text = f"[grid]\ni = [0, 3]\nk = {list(range(100))}\n[steps.train]\n{fake}"
    home.submit(text, "--lanes", 20, "--engine", "fake")
    assert home.wait() == 1
    jobs = list(home.ps().values())
    assert len(jobs) == 200 and {(job["state"], job["exit"]) for job in jobs} == {
        ("done", 0), ("failed", 3)}  # fmt: skip


def test_output_goes_to_the_root_that_is_asked_for(home):
    home.submit("[steps.train]\ncommand = ['true']\n", "--out", home.root + "/elsewhere")
    assert home.wait() == 0
    assert home.only()["out"].startswith(home.root + "/elsewhere/sweep/")


@pytest.mark.parametrize("value", ["x", "of more than a few letters, as parameters of many kinds are"])
def test_the_json_of_a_run_is_a_placeholder(home, value):
    home.submit(f'[grid]\nword = ["{value}"]\n[steps.a]\nenv = {{ RUN = "{{json}}" }}\nshell = "echo $RUN"\n')
    assert home.wait() == 0
    assert json.loads(read(home.only()["log"])) == {"word": value}
