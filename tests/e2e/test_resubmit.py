"""The same sweep again: what is kept, what is queued again, what is cancelled."""
import os
import time

from harness import grid, read

CODES = 'command = ["sh", "code.sh", "{i}"]'


def codes(home, **wanted):
    """Job i stamps and exits with the code of file code.<i>, else 0."""
    home.file("code.sh", 'stamp 0 "$(cat code.$1 2>/dev/null || echo 0)"\n')
    for run, code in wanted.items():
        home.file("code." + run[1:], str(code))


def test_failed_jobs_are_queued_again_and_done_ones_are_kept(home):
    codes(home, i1=5)
    text = grid("train", 3, CODES)
    home.submit(text)
    assert home.wait() == 1 and home.only("sweep/1/train")["exit"] == 5
    os.remove(home.work + "/code.1")
    reply = home.submit(text)
    assert (reply["new"], reply["kept"]) == (0, 2)
    assert home.wait() == 0
    assert [job["attempt"] for job in home.ps().values()] == [1, 2, 1]


def test_only_new_leaves_failed_jobs_as_they_are(home):
    codes(home, i1=5)
    home.submit(grid("train", 2, CODES))
    home.wait()
    reply = home.submit(grid("train", 3, CODES), "--only-new")
    assert (reply["new"], reply["kept"]) == (1, 2)
    assert home.wait() == 1
    assert list(home.states().values()) == ["done", "failed", "done"]
    assert home.only("sweep/1/train")["attempt"] == 1


def test_rerun_repeats_all(home):
    codes(home)
    home.submit(grid("train", 2, CODES))
    home.wait()
    home.submit(grid("train", 2, CODES), "--rerun")
    assert home.wait() == 0
    assert [job["attempt"] for job in home.ps().values()] == [2, 2]


def test_new_rows_get_the_next_index_and_old_ones_keep_their_folders(home):
    codes(home)
    home.submit("[grid]\ni = [5, 7]\n[steps.train]\n" + CODES)
    home.wait()
    before = {job["index"]: job["run"] for job in home.ps().values()}
    reply = home.submit("[grid]\ni = [3, 5, 7]\n[steps.train]\n" + CODES)
    assert (reply["new"], reply["kept"]) == (1, 2)
    assert home.wait() == 0
    after = {job["index"]: job["run"] for job in home.ps().values()}
    assert before == {0: "00-i=5", 1: "01-i=7"} and after == {**before, 2: "02-i=3"}


def test_rows_gone_from_the_file_are_cancelled_while_queued_and_go_on_while_running(home):
    home.close_gate()
    home.submit(grid("train", 4, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    home.submit("[grid]\ni = [1]\n[steps.train]\ncommand = ['stamp']\n", "--lanes", 1)
    home.open_gate()
    home.wait()
    states = {job["index"]: (job["state"], job["reason"]) for job in home.ps().values()}
    gone = ("cancelled", "no longer in the file")
    assert states == {0: ("done", ""), 1: ("done", ""), 2: gone, 3: gone}


def test_a_changed_definition_is_a_new_job_and_so_are_those_that_need_it(home):
    text = """[steps.train]
command = ["stamp", "0"]
[steps.evaluate]
needs = ["train"]
command = ["true"]
[steps.other]
command = ["true"]
"""
    first = home.submit(text)["jobs"]
    home.wait()
    reply = home.submit(text.replace('"0"', '"0.01"'))
    assert (reply["new"], reply["kept"]) == (2, 1)
    assert home.wait() == 0
    assert home.stamps.count("start") == 2
    assert len(set(reply["jobs"]) & set(first)) == 1
    old = [job for job in home.json("ps", "-a")["jobs"] if job["replaced"]]
    assert len(old) == 2 and {job["id"] for job in old} < set(first)


def test_resources_retries_and_priority_are_no_part_of_identity(home):
    home.submit('[steps.train]\ncommand = ["stamp"]\n')
    home.wait()
    text = '[steps.train]\ncommand = ["stamp"]\ncpus = 1\npriority = 3\nretries = 2\ntimeout = "1h"\n'
    assert (home.submit(text)["new"], home.stamps.count("start")) == (0, 1)
    assert home.wait() == 0


def test_retry_says_that_the_file_was_modified_and_runs_what_was_submitted(home):
    home.submit('[steps.train]\ncommand = ["false"]\n')
    home.wait()
    assert "modified" not in home.run("retry", "@").stderr
    home.wait()
    path = home.file("sweep.toml", '[steps.train]\ncommand = ["true"]\n')
    os.utime(path, (time.time() + 60,) * 2)
    told = home.run("retry", "@").stderr
    assert f"{path} was modified after the last submit" in told and f"pergpu run {path}" in told
    assert home.wait() == 1
    assert "files" not in home.json("retry", "@")


def test_a_skipped_job_comes_back_with_the_need_that_is_retried(home):
    home.file("code.sh", 'stamp 0 "$(cat code 2>/dev/null || echo 0)"\n')
    home.file("code", "5")
    home.submit(
        """[steps.train]
command = ["sh", "code.sh"]
[steps.evaluate]
needs = ["train"]
command = ["true"]
"""
    )
    assert home.wait() == 1
    run = next(iter(home.states())).split("/")[0]
    assert home.states() == {f"{run}/train": "failed", f"{run}/evaluate": "skipped"}
    assert "train" in home.ps()[f"{run}/evaluate"]["reason"]
    os.remove(home.work + "/code")
    home.run("retry", "sweep/0/train")
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"}


def test_a_need_for_all_runs_is_skipped_when_one_fails_and_ended_goes_on(home):
    codes(home, i1=5)
    home.submit(
        grid("train", 2, CODES)
        + """
[steps.best]
once = true
needs = ["train:all"]
command = ["true"]
[steps.summary]
once = true
needs = ["train:ended"]
command = ["true"]
"""
    )
    assert home.wait() == 1
    states = home.states()
    assert (states["_once/best"], states["_once/summary"]) == ("skipped", "done")


def test_a_sweep_of_the_same_name_under_another_root_is_another_sweep(home):
    text = '[steps.train]\ncommand = ["true"]\n'
    first = home.submit(text)
    second = home.submit(text, "--out", home.root + "/other")
    assert first["sweep_id"] != second["sweep_id"] and second["new"] == 1
    home.run("wait", *first["jobs"], *second["jobs"], code=0)
    shown = home.run("ps", "sweep", code=2).stderr
    assert home.work + "/runs" in shown and home.root + "/other" in shown
    assert read(home.root + "/other/sweep/00/train/log.txt") == ""


def test_a_repeated_sweep_starts_its_longest_job_first(home):
    text = grid("train", 3, 'command = ["sh", "-c", "exec stamp 0.$(({i} * 2))"]')
    home.submit(text, "--lanes", 1)
    assert home.wait() == 0
    path = home.file("sweep.toml", text)
    told = home.json("run", path, "--dry-run", "--lanes", 1, "--rerun")
    assert [start["job"] for start in told["starts"]] == ["02-i=2/train"]
    home.submit(text, "--lanes", 1, "--rerun")
    assert home.wait() == 0
    assert home.stamps.of("start") == [1, 2, 3, 3, 2, 1]


def test_a_simulated_sweep_says_so_and_then_runs_for_real(home):
    path = home.file("sim.toml", grid("train", 2, "command = ['stamp']\nfake = {duration = '5ms'}"))
    simulate = ("run", path, "--lanes", 2, "--engine", "fake")
    assert "sim: 2 done; simulated" in home.run(*simulate).stdout
    for looks in (["ps", "-a"], ["show", "sim/0/train"], ["why", "sim/0/train"], ["why", "sim"]):
        assert "simulated" in home.run(*looks).stdout
    assert home.stamps.count("start") == 0
    home.kill_coordinator()
    for how in (["--dry-run"], []):
        told = home.run("run", path, "--lanes", 2, *how)
        assert "sim was only simulated before" in told.stderr and "2 new" in told.stderr
    assert told.stdout.endswith("sim: 2 done\n") and home.stamps.count("start") == 2
    assert "simulated" not in home.run("ps", "-a").stdout
    refused = home.run(*simulate, code=2).stderr
    assert "sim has real jobs" in refused and "another name" in refused
    assert home.states("sim") == {"00-i=0/train": "done", "01-i=1/train": "done"}
