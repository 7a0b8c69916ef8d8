"""Nothing that is typed silently drops, keeps or repeats work."""
import os

from harness import grid, read

STEP = 'command = ["stamp"]'
OLD = 'command = ["stamp", "0"]'
NEW = 'command = ["stamp", "0.0"]'


def edited_while_it_runs(home):
    """Two jobs run the old command on the two lanes there are; the jobs of the new one wait."""
    home.close_gate()
    home.submit(grid("train", 3, OLD), "--lanes", 2, name="edit.toml")
    home.until_running(2)
    path = home.file("edit.toml", grid("train", 3, NEW))
    return home.run("submit", path, "--lanes", 2)


def test_a_submit_names_what_runs_the_old_command(home):
    said = edited_while_it_runs(home).stderr
    assert "2 running jobs are from an earlier version of the file" in said and "pergpu cancel 1 2\n" in said
    assert home.json("submit", "edit.toml", "--lanes", 2)["old_running"] == [1, 2]
    home.open_gate()
    assert home.wait() == 0


def test_a_sweep_that_is_cancelled_does_not_run_on_in_an_older_version(home):
    edited_while_it_runs(home)
    shown = {job["id"]: job for job in home.json("ps", "edit")["jobs"]}
    assert [job["replaced"] for job in shown.values()] == [True, True, False, False, False]
    said = home.run("logs", "edit/0").stderr
    assert said.startswith("job 1, an older version of edit/00-i=0/train, is running")
    assert "2 running" in home.run("top", "--once").stdout
    held = home.run("hold", "edit").stderr
    assert held.startswith("held 3 jobs: 4 (edit/0), 5 (edit/1), 6 (edit/2); ")
    assert "jobs 1 (edit/0), 2 (edit/1) are running (an older version)" in held
    assert home.run("cancel", "--kill", "edit").stderr == "cancelled 5 jobs of sweep edit\n"
    assert home.wait("edit") == 1
    assert not home.stamps.of("end") and all(job["state"] == "cancelled" for job in home.json("ps", "-a")["jobs"])


def test_wait_waits_for_an_older_version_that_runs(home):
    edited_while_it_runs(home)
    home.run("cancel", "4", "5", "6")
    waiter = home.start("wait", "edit", "--timeout", "100ms")
    assert waiter.wait(60) == 124
    home.open_gate()
    waiter = home.start("wait", "edit")
    assert waiter.wait(60) == 1 and home.stamps.count("end") == 2


def test_ctrl_c_reaches_an_older_version(home):
    edited_while_it_runs(home)
    assert home.run("cancel", "--kill", "*").stderr == "cancelled 5 jobs of sweep edit\n"
    home.open_gate()


def test_one_more_value_is_added(home):
    home.close_gate()
    home.submit(grid("train", 4, STEP), "--lanes", 1)
    home.until_running()
    said = home.run("submit", "sweep.toml", "-p", "i=9").stdout
    assert said == "sweep 1 sweep: 1 job: 1 new; 4 others of the sweep stay; as in the last submit: --lanes 1\n"
    assert list(home.states().values()).count("queued") == 4
    shown = home.run("run", "sweep.toml", "-p", "i=[9, 10]", "--dry-run")
    assert "1 new jobs, 0 queued again, 1 kept, 4 others stay" in shown.stderr
    home.open_gate()
    assert home.wait() == 0 and len(home.ps()) == 5


def test_one_more_value_is_refused_where_it_would_drop_queued_rows(home):
    table = "[steps.table]\nonce = true\nneeds = ['train:all']\ncommand = ['true']\n"
    home.close_gate()
    home.submit(grid("train", 3, STEP) + table, "--lanes", 1)
    home.until_running()
    for dry in (["--dry-run"], []):
        said = home.run("run", "sweep.toml", "-p", "i=9", *dry, code=2).stderr
        assert "2 jobs queued or held and 1 running" in said and "table" in said and "--out DIR" in said
    assert list(home.states().values()) == ["running", "queued", "queued", "queued"]
    home.open_gate()
    assert home.wait() == 0


def test_a_repeat_that_never_started_leaves_what_is_done(home):
    home.submit(grid("train", 4, 'shell = \'echo "{\\"loss\\": 1}" >>"$PERGPU_METRICS"; exec stamp\''), "--lanes", 1)
    assert home.wait() == 0
    home.close_gate()
    assert home.json("submit", "sweep.toml", "--rerun")["requeued"] == 4
    home.until_running(5)
    queued = [job for job in home.ps().values() if job["state"] == "queued"]
    assert len(queued) == 3 and all("(attempt 1 succeeded)" in job["reason"] for job in queued)
    home.run("hold", queued[0]["id"])
    assert home.run("cancel", "--queued", "sweep").stderr.startswith("cancelled 3 jobs: ")
    home.open_gate()
    assert home.wait() == 0
    jobs = {job["id"]: job for job in home.ps().values()}
    assert sorted((job["state"], job["attempt"]) for job in jobs.values()) == [("done", 1)] * 3 + [("done", 2)]
    kept = jobs[queued[0]["id"]]
    assert kept["reason"] == "its repeat was cancelled before it started: cancelled by hand"
    assert "done; its repeat was cancelled" in home.run("why", kept["id"]).stdout
    home.kill_coordinator()
    assert set(home.states().values()) == {"done"}
    assert home.json("submit", "sweep.toml")["kept"] == 4


def test_a_repeat_has_the_lanes_of_the_first_submit(home):
    home.close_gate()
    home.submit(grid("train", 4, STEP), "--lanes", 3)
    home.until_running(3)
    home.open_gate()
    assert home.wait() == 0
    home.close_gate()
    said = home.run("submit", "sweep.toml", "--rerun").stdout
    assert said == "sweep 1 sweep: 4 jobs: 4 queued again; as in the last submit: --lanes 3\n"
    home.until_running(7)
    assert list(home.states().values()).count("running") == 3
    assert home.json("submit", "sweep.toml", "--lanes", 0)["remembered"] == []
    home.open_gate()
    assert home.wait() == 0


def test_a_gpu_step_is_repeated_on_the_lanes_that_it_had(home):
    home.submit(grid("train", 1, STEP + "\ngpus = 1"), "--lanes", 1)
    assert home.wait() == 0
    assert home.json("submit", "sweep.toml", "--rerun")["remembered"] == ["--lanes 1"]
    assert home.wait() == 0


def test_a_job_is_told_by_its_number_and_its_run(home):
    home.close_gate()
    home.submit(grid("train", 3, STEP), "--lanes", 1)
    home.until_running()
    assert home.run("cancel", "sweep/2").stderr == "cancelled job 3 (sweep/2)\n"
    assert home.run("hold", "2").stderr == "held job 2 (sweep/1)\n"
    assert home.json("release", "2")["named"] == [{"id": 2, "name": "sweep/1"}]
    home.open_gate()
    home.wait()


def test_of_two_sweeps_of_one_name_each_can_be_named(home):
    home.close_gate()
    home.submit(grid("train", 2, STEP), "--lanes", 1)
    said = home.run("submit", "sweep.toml", "--lanes", 1, "--out", home.root + "/other").stderr
    assert f"this file also has results in {home.work}/runs, as sweep sweep@1" in said
    said = home.run("cancel", "sweep", code=2).stderr
    for number, root in ((1, home.work + "/runs"), (2, home.root + "/other")):
        assert f"\n  sweep@{number}, submitted " in said and f"results in {root}\n" in said + "\n"
    assert home.run("cancel", "--kill", "sweep@1/1").stderr == "cancelled job 2 (sweep@1/1)\n"
    home.open_gate()
    assert home.wait("sweep@2") == 0 and home.wait("sweep@1") == 1
    assert home.run("export", "--csv", "sweep@2").stdout.count("\n") == 3
    home.run("report", "sweep@1", "-o", home.work + "/r.html")
    assert home.json("attach", "sweep@2")["sweep_id"] == 2
    home.run("clean", "sweep@1", "--yes")
    assert home.wait("sweep") == 0


def test_why_says_that_nothing_waits(home):
    assert "no job is queued, held or running" in home.run("why").stderr


def test_pergpu_in_a_job_asks_the_home_that_runs_it(home):
    shell = f"{home.program} ps -a --json >ids.json"
    home.submit(f"[steps.a]\nshell = '{shell}'\n", env={"PERGPU_HOME": home.path})
    assert home.wait() == 0
    assert '"id":1' in read(home.work + "/ids.json").replace(" ", "")
    home.submit("[steps.b]\nshell = 'echo $PERGPU_HOME'\n", name="b.toml")
    assert home.wait("b") == 0
    assert os.path.realpath(home.run("logs", "b/0").stdout.strip()) == os.path.realpath(home.path)
