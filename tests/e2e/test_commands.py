"""Commands, selectors, JSON, exit codes and the forms of `run -- CMD`."""
import json
import os
import subprocess

from harness import descendants, grid, read, wait_until
from test_security import connect


def two_sweeps(home):
    home.submit(grid("train", 2, 'command = ["sh", "-c", "exit {i}"]'), name="a.toml")
    text = grid("train", 2, 'command = ["echo", "{i}"]')
    text += '[steps.evaluate]\nneeds = ["train"]\ncommand = ["echo", "eval", "{i}"]\n'
    home.submit(text, name="b.toml")
    home.run("wait", "a", "b", code=1)


def names(home, *selectors):
    jobs = home.json("ps", "-a", *selectors)["jobs"]
    return [f"{job['sweep']}/{job['index']}/{job['step']}" for job in jobs]


def test_selectors_name_jobs_sweeps_runs_steps_and_the_last_sweeps(home):
    two_sweeps(home)
    b = ["b/0/train", "b/0/evaluate", "b/1/train", "b/1/evaluate"]
    assert sorted(names(home, "b")) == sorted(b) == sorted(names(home, "@"))
    assert names(home, "@2") == ["a/0/train", "a/1/train"] == names(home, "1", "2")
    assert sorted(names(home, "b/1")) == ["b/1/evaluate", "b/1/train"]
    assert names(home, "b/01-i=1/evaluate") == ["b/1/evaluate"] == names(home, "b/1/eval*")
    assert sorted(names(home, "*/0/train")) == ["a/0/train", "b/0/train"]


def test_what_matches_nothing_is_exit_4_and_names_the_selector(home):
    two_sweeps(home)
    for selector in ("c", "a/7", "99", "@3", "b/0/nothing"):
        assert selector in home.run("ps", selector, code=4).stderr
    home.run("wait", "c", code=4)
    home.run("logs", "c", code=4)
    home.run("cancel", "c", code=4)


def test_an_ambiguous_name_lists_the_candidates(home):
    two_sweeps(home)
    shown = home.run("logs", "b/0", code=2).stderr
    assert "b/00-i=0/train" in shown and "b/00-i=0/evaluate" in shown


def test_submit_tells_scripts_the_ids(home):
    reply = home.submit(grid("train", 3, 'command = ["true"]'))
    assert reply["sweep"] == "sweep" and reply["sweep_id"] == 1
    assert reply["jobs"] == [1, 2, 3] and (reply["new"], reply["kept"]) == (3, 0)


def test_ps_tells_scripts_all_of_a_job(home):
    two_sweeps(home)
    job = home.only("a/1")
    assert {k: job[k] for k in ("id", "sweep", "run", "index", "step", "state", "attempt")} == {
        "id": 2, "sweep": "a", "run": "01-i=1", "index": 1, "step": "train", "state": "failed",
        "attempt": 1,
    }  # fmt: skip
    assert (job["class"], job["exit"], job["signal"], job["gpus"]) == ("exit", 1, None, [])
    assert job["reason"] == "exit code 1" and job["out"].endswith("/runs/a/01-i=1/train")
    times = [job["queued_at"], job["started_at"], job["ended_at"]]
    assert times == sorted(times) and all(t.endswith("Z") and "T" in t for t in times)


def test_ps_without_all_shows_only_what_is_not_ended(home):
    two_sweeps(home)
    home.close_gate()
    reply = home.submit('[steps.train]\ncommand = ["stamp"]\n')
    home.until_running()
    assert [job["id"] for job in home.json("ps")["jobs"]] == reply["jobs"]
    table = home.run("ps").stdout
    assert "ID" in table and "running" in table and "failed" not in table


def test_coordinator_status_and_gpus_tell_scripts(home):
    home.submit('[steps.train]\ncommand = ["true"]\n')
    status = home.json("coordinator", "status")
    assert status["pid"] == home.coordinator() and status["home"] == home.path
    assert home.json("gpus")["gpus"] == []


def test_coordinator_start_starts_one_or_tells_of_the_one_that_runs(home):
    assert home.coordinator() is None
    told = home.json("coordinator", "start")
    assert told["pid"] == home.coordinator() and told["socket"] == home.path + "/run/coordinator.sock"
    again = home.json("coordinator", "start")
    assert (again["pid"], again["socket"]) == (told["pid"], told["socket"]) and os.path.exists(told["socket"])
    assert again == home.json("coordinator", "status")
    assert f"socket      {told['socket']}\n" in home.run("coordinator", "start").stdout
    home.run("coordinator", "start", env={"PERGPU_HOME": "/proc/1"}, code=3)


def test_why_and_show_explain_in_words(home):
    two_sweeps(home)
    assert "exit code 1" in home.run("why", "a/1").stdout
    shown = home.run("show", "a/1").stdout
    assert "exit code 1" in shown and home.work in shown
    assert home.json("show", "b/0/train")["jobs"][0]["command"] == ["echo", "{i}"]


def test_wait_gives_up_with_124_and_leaves_the_jobs(home):
    home.close_gate()
    home.submit('[steps.train]\ncommand = ["stamp"]\n')
    home.run("wait", "--timeout", "50ms", code=124)
    home.run("wait", "--timeout", "50", code=2)
    home.open_gate()
    home.run("wait", "--timeout", "60s", code=0)


def test_the_state_of_a_sweep_is_the_exit_code(home):
    home.run("run", home.file("good.toml", '[steps.a]\ncommand = ["true"]\n'), code=0)
    home.run("run", home.file("bad.toml", '[steps.a]\ncommand = ["false"]\n'), code=1)


def test_an_unreachable_coordinator_is_exit_3(home):
    home.run("coordinator", "status", code=3)
    assert home.coordinator() is None
    shown = home.run("ps", env={"PERGPU_HOME": "/proc/1"}, code=3).stderr
    assert "/proc/1" in shown


def test_hold_release_and_cancel_change_queued_jobs(home):
    home.close_gate()
    home.submit(grid("train", 4, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    assert home.json("hold", "sweep/1", "sweep/2")["changed"] == [2, 3]
    assert home.json("cancel", "sweep/3")["changed"] == [4]
    home.open_gate()
    assert home.wait() == 1
    assert list(home.states().values()) == ["done", "held", "held", "cancelled"]
    assert "hand" in home.only("sweep/1")["reason"]
    home.run("release", "sweep")
    assert home.wait() == 1
    assert list(home.states().values()) == ["done", "done", "done", "cancelled"]


def test_a_cancelled_need_skips_what_needs_it_and_running_jobs_cannot_be_held(home):
    home.close_gate()
    text = grid("train", 2, 'command = ["stamp"]')
    text += '[steps.evaluate]\nneeds = ["train"]\ncommand = ["true"]\n'
    home.submit(text, "--lanes", 1)
    home.until_running()
    assert home.json("hold", "sweep/0/train")["unchanged"] == [1]
    home.run("cancel", "sweep/1/train")
    home.run("cancel", "--kill", "sweep/0/train")
    assert home.wait() == 1
    states = home.states()
    assert [states[name] for name in sorted(states)] == ["skipped", "cancelled"] * 2
    assert home.only("sweep/0/train")["signal"] == 9


def test_who_watches_is_told_when_the_rest_waits_for_held_jobs(home):
    home.close_gate()
    text = grid("train", 2, 'command = ["stamp"]')
    text += '[steps.evaluate]\nneeds = ["train"]\ncommand = ["true"]\n'
    watcher = home.start("run", home.file("sweep.toml", text), "--lanes", 1)
    home.until_running()
    home.run("hold", "sweep/1/train")
    waiter = home.start("wait", "sweep")
    home.open_gate()
    out, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 1 and "pergpu release sweep" in err, out + err
    assert waiter.wait(60) == 1
    assert list(home.states().values()) == ["done", "held", "done", "queued"]
    home.run("release", "sweep")
    assert home.wait() == 0


def test_who_waits_is_not_told_of_an_end_while_a_job_runs_that_was_held_when_he_came(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    home.run("hold", "sweep/1")
    with connect(home, hello=True) as waiter:
        waiter.settimeout(60)
        waiter.sendall(b'{"op":"wait","sel":["sweep"]}\n')
        home.run("release", "sweep/1")  # it is asked later than that
        home.open_gate()
        told = json.loads(waiter.makefile().readline())
        assert [job["state"] for job in told["data"]["jobs"]] == ["done", "done"]


def test_what_has_not_started_is_cancelled_and_what_runs_goes_on(home):
    home.close_gate()
    home.submit(grid("train", 4, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    home.run("hold", "sweep/1")
    reply = home.json("cancel", "--queued", "sweep/0", "sweep/1", "sweep/2")
    assert (reply["changed"], reply["unchanged"]) == ([2, 3], [1])
    assert [(job["id"], job["state"]) for job in reply["left"]] == [(1, "running")]
    said = home.run("cancel", "--queued", "sweep").stderr
    assert said.startswith("cancelled job 4 (sweep/3); jobs 2 (sweep/1), 3 (sweep/2) are already cancelled; job 1 (sweep/0) is running; ")
    assert "--queued cancels only jobs that have not started" in said
    assert "--kill" in home.run("cancel", "--queued", "--kill", "sweep", code=2).stderr
    home.open_gate()
    assert home.wait() == 1
    assert list(home.states().values()) == ["done", "cancelled", "cancelled", "cancelled"]


def test_a_coordinator_can_be_told_to_end_its_jobs(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    home.run("coordinator", "stop", "--kill")
    wait_until(lambda: not descendants(), "the end of all")
    assert home.states("sweep/0") == {"00-i=0/train": "cancelled"}


def test_enabling_a_service_without_a_user_manager_says_what_to_do(home):
    shown = home.run("coordinator", "enable", code=3).stderr
    assert "systemd" in shown and "cron" in shown


def test_retry_failed_takes_only_what_failed(home):
    two_sweeps(home)
    home.run("retry", "--failed", "b", code=4)
    assert home.json("retry", "--failed", "a")["changed"] == [2]
    home.wait("a")
    assert [job["attempt"] for job in home.ps("a").values()] == [1, 2]


def test_a_single_command_gives_its_log_on_stdout_and_its_code(home):
    done = home.run("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    assert done.stdout == "out\nerr\n"
    assert home.run("run", "--", "echo", "well").stdout == "well\n"
    assert home.run("run", "--", "sh", "-c", "kill -KILL $$", code=137).stdout == ""


def test_a_single_command_that_is_retried_shows_each_attempts_log_once(home):
    words = "echo attempt $PERGPU_ATTEMPT; sleep 0.01; [ $PERGPU_ATTEMPT = 3 ]"
    for _ in range(5):
        done = home.run("run", "--retries", "2", "--", "sh", "-c", words)
        assert done.stdout == "attempt 1\nattempt 2\nattempt 3\n"


def test_a_log_that_an_earlier_home_left_in_the_folder_is_not_shown(new_home):
    first, second = new_home(), new_home()
    for home, text in ((first, "old"), (second, "new")):
        assert home.run("run", "--", "echo", text, cwd=first.work).stdout == text + "\n"


def test_a_relative_home_is_taken_from_the_callers_folder(home):
    here = {"cwd": home.root, "env": {"PERGPU_HOME": "h"}}
    assert home.run("run", "--", "echo", "well", **here).stdout == "well\n"
    assert home.only()["state"] == "done" and os.path.exists(home.path + "/pergpu.db")


def test_a_home_may_begin_with_a_tilde_and_has_to_be_text(home):
    here = {"cwd": home.root, "env": {"HOME": home.root, "PERGPU_HOME": "~/" + os.path.basename(home.path)}}
    assert home.run("run", "--", "echo", "well", **here).stdout == "well\n"
    assert home.only()["state"] == "done" and not os.path.exists(home.root + "/~")
    for env in ({"PERGPU_HOME": home.root + "/h\udcff"}, {"PERGPU_HOME": "", "HOME": home.root + "/h\udcff", "XDG_STATE_HOME": ""}):
        said = home.run("ps", env=env, code=3).stderr
        assert "the home's path is not valid UTF-8" in said and "PERGPU_HOME" in said, said
    assert "only ~/ is expanded, to your home folder" in home.run("ps", env={"PERGPU_HOME": "~otto"}, code=3).stderr


def test_a_job_reads_nothing_from_the_terminal(home):
    home.run("run", "--", "cat", stdin=subprocess.PIPE)


def test_when_only_held_jobs_remain_a_run_ends_with_1(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    home.run("hold", "sweep/1")
    follower = home.start("attach")
    home.open_gate()
    out, err = follower.communicate(timeout=60)
    assert follower.returncode == 1 and "1 done, 1 held" in out and "release" in err


def test_logs_show_the_end_or_follow_to_the_jobs_code(home):
    home.close_gate()
    home.submit('[steps.a]\nshell = "seq 5; stamp; echo last; exit 3"\n')
    home.until_running()
    assert home.run("logs", "-n", "2", "@").stdout == "4\n5\n"
    follower = home.start("logs", "-f", "@")
    home.open_gate()
    out, _ = follower.communicate(timeout=60)
    assert out.split() == ["1", "2", "3", "4", "5", "last"] and follower.returncode == 3


def test_positional_and_named_lists_multiply_or_go_in_step(home):
    home.run("run", "--name", "a", "--", "echo", ":::", "x", "y z")
    home.run("run", "--name", "b", "--", "echo", "{2}-{1}", ":::", "x", "y", ":::+", "1", "2")
    home.run("run", "--name", "c", "-g", "lr=1e-3,1e-4", "--", "echo", "{lr}", "{}", ":::", "p", "q")
    logs = {name: [] for name in "abc"}
    for job in home.json("ps", "-a")["jobs"]:
        logs[job["sweep"]].append(read(job["log"]).strip())
    assert logs == {
        "a": ["x", "y z"],
        "b": ["1-x", "2-y"],
        "c": ["1e-3 p", "1e-3 q", "1e-4 p", "1e-4 q"],
    }


def test_emit_prints_the_sweep_file_of_a_command_and_starts_nothing(home):
    args = ["-g", "lr=1e-3,1e-4", "--timeout", "1h", "--", "sh", "-c", "echo {lr}"]
    text = home.run("run", "--emit", *args).stdout
    assert home.coordinator() is None
    home.run("run", home.file("emitted.toml", text))
    assert [read(job["log"]) for job in home.ps().values()] == ["1e-3\n", "1e-4\n"]


def test_a_dry_run_shows_the_runs_and_starts_nothing(home):
    text = home.file("s.toml", grid("train", 3, 'command = ["stamp"]'))
    shown = home.run("run", "--dry-run", text)
    assert "02-i=2" in shown.stdout + shown.stderr
    assert home.stamps.lines() == [] and home.json("ps", "-a")["jobs"] == []


def test_unnamed_commands_are_new_sweeps_each_time(home):
    for _ in range(2):
        home.run("run", "--", "true")
    assert [job["sweep"] for job in home.json("ps", "-a")["jobs"]] == ["true", "true-2"]


def test_a_parameter_of_the_file_can_be_replaced(home):
    text = '[grid]\nlr = [1, 2, 3]\n[steps.a]\ncommand = ["echo", "{lr}"]\n'
    home.submit(text, "-p", "lr=7e-2")
    assert home.wait() == 0
    assert read(home.only()["log"]) == "7e-2\n"


def test_one_json_value_ends_a_run_with_json(home):
    done = home.run("run", "--json", "--", "sh", "-c", "exit 4", code=4)
    assert json.loads(done.stdout)["exit"] == 4
