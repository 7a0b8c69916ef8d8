"""Folders and files that somebody removes while a sweep runs, or after it."""
import os
import shutil

from harness import grid, read, wait_until

SHOW = 'command = ["sh", "-c", "exec stamp; cat {config}"]'


def test_jobs_that_wait_have_their_folders_made_again_when_they_start(home):
    home.close_gate()
    home.submit(grid("train", 4, SHOW), "--lanes", 1)
    home.until_running()
    runs = home.work + "/runs"
    wait_until(lambda: os.path.exists(f"{runs}/sweep/01-i=1/train/config.json"), "the next job's folder")
    shutil.rmtree(runs)
    home.open_gate()
    home.wait()
    waited = [job for job in home.ps().values() if job["index"] > 0]
    assert [(job["state"], job["attempt"]) for job in waited] == [("done", 1)] * 3
    assert all(os.path.exists(job["out"] + "/config.json") for job in waited)


def test_a_file_of_ours_that_is_removed_before_the_start_is_made_again(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["sh", "-c", "stamp; cat {config}"]'), "--lanes", 1)
    home.until_running()
    config = home.work + "/runs/sweep/01-i=1/train/config.json"
    wait_until(lambda: os.path.exists(config), "the next job's folder")
    os.remove(config)
    home.open_gate()
    assert home.wait() == 0
    assert read(config) == '{"i":1}\n' == read(home.only("sweep/1")["log"])


def test_a_working_folder_that_is_gone_is_named(home):
    os.mkdir(home.work + "/code")
    home.close_gate()
    home.submit(grid("train", 2, 'cwd = "code"\ncommand = ["stamp"]'), "--lanes", 1)
    home.until_running()
    os.rmdir(home.work + "/code")
    home.open_gate()
    home.wait()
    job = home.only("sweep/1")
    assert (job["state"], job["class"]) == ("failed", "user-error")
    assert f"its working folder {home.work}/code does not exist" in job["reason"]
