"""What a dry run foretells, beside what the submit then does."""
import json
import os

from harness import grid, read, wait_until
from test_gpus import STEP, gpus, uuid, world  # noqa: F401 (fixtures)


def foretold(home, text, *args, name="sweep.toml", **options):
    return home.json("run", home.file(name, text), "--dry-run", *args, **options)


def starts(reply):
    return {start["lane"]: start["job"] for start in reply["starts"]}


def running(home, *selectors):
    return {job["lane"]: name for name, job in home.ps(*selectors).items() if job["lane"]}


def test_the_lanes_that_are_free_get_the_jobs_that_a_submit_then_starts(gpus):  # noqa: F811
    gpus.close_gate()
    gpus.submit(grid("busy", 6, STEP % 0), name="other.toml")
    gpus.until_running(6)
    text = grid("train", 4, STEP % 0)
    told = foretold(gpus, text)
    assert told["estimated"] is False and told["new"] == 4
    assert starts(told) == {"gpu6": "00-i=0/train", "gpu7": "01-i=1/train"}
    gpus.submit(text)
    gpus.until_running(8)
    assert running(gpus, "sweep") == starts(told)
    gpus.open_gate()
    gpus.wait("*")


def test_devices_are_checked_as_the_submit_checks_them(gpus):  # noqa: F811
    path = gpus.file("sweep.toml", grid("train", 1, STEP % 0))
    assert not gpus.coordinator()
    for dry in (["--dry-run"], ["--dry-run"], []):
        assert "9" in gpus.run("run", path, "--devices", "0,9", *dry, code=2).stderr


def test_what_is_done_does_not_start_and_new_runs_have_their_real_folders(home):
    home.submit("[grid]\ni = [5, 7]\n[steps.train]\ncommand = ['true']\n")
    home.wait()
    home.close_gate()
    text = "[grid]\ni = [3, 5]\n[steps.train]\ncommand = ['true']\n"
    text += "[steps.evaluate]\nneeds = ['train']\ncommand = ['stamp']\n"
    told = foretold(home, text)
    assert [run["run"] for run in told["runs"]] == ["02-i=3", "00-i=5"]
    assert sorted(starts(told).values()) == ["00-i=5/evaluate", "02-i=3/train"]
    assert (told["new"], told["kept"], told["requeued"]) == (3, 1, 0)
    assert len(home.ps()) == 2


def test_rows_gone_from_the_file_and_warnings_are_told(home):
    limited = "[limits]\ndisk = %d\n"
    home.close_gate()
    home.submit(limited % 1 + grid("train", 3, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    path = home.file("sweep.toml", limited % 2 + grid("train", 2, 'command = ["stamp"]'))
    said = home.run("run", path, "--dry-run", "--lanes", 1).stderr
    assert "1 to be cancelled (no longer in the file)" in said
    assert "warning: limit disk was 1 and is now 2" in said
    assert home.only("sweep/2")["state"] == "queued"
    home.open_gate()
    home.wait()


def test_nothing_starts_where_no_lane_is_free(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    path = home.file("sweep.toml", grid("train", 3, 'command = ["stamp"]'))
    assert "would start now:\nnothing\n" in home.run("run", path, "--dry-run", "--lanes", 1).stdout
    home.open_gate()
    home.wait()


def test_the_first_look_at_slow_gpus_is_waited_for(gpus):  # noqa: F811
    gpus.world.show(2, delay_ms={"nvmlInit_v2": 1000})
    first = gpus.start("gpus", "--json")
    status = lambda: gpus.run("coordinator", "status", code=None).returncode == 0  # noqa: E731
    wait_until(status, "a coordinator")
    told = foretold(gpus, grid("train", 3, STEP % 0))
    assert sorted(starts(told)) == ["gpu0", "gpu1"]
    out, _ = first.communicate(timeout=60)
    assert [gpu["uuid"] for gpu in json.loads(out)["gpus"]] == [uuid(0), uuid(1)]


def test_without_a_coordinator_it_refuses_what_the_machine_cannot_run(home):
    path = home.file("sweep.toml", '[steps.a]\nmemory = "900TiB"\ncommand = ["true"]\n')
    foretold_words = home.run("run", path, "--dry-run", code=2).stderr
    assert "step a: asks for 900 TiB of memory, but this machine has" in foretold_words
    assert home.run("run", path, code=2).stderr.splitlines()[-1] == foretold_words.splitlines()[-1]


GATED = """[grid]
i = [0, 1, 2, 3, 4, 5]
[steps.train]
command = ["stamp"]
%s
"""


def first_and_second(home, text, *args, code=0):
    """The answer with no coordinator, and that of the one which runs then."""
    path = home.file("sweep.toml", text)
    assert not home.coordinator()
    shown = [home.run("run", path, "--dry-run", *args, code=code) for _ in range(2)]
    assert home.coordinator() and (shown[0].stdout, shown[0].stderr) == (shown[1].stdout, shown[1].stderr)
    assert not home.ps()
    return shown[0]


def test_max_parallel_holds_with_and_without_a_coordinator(home):
    shown = first_and_second(home, GATED % "max_parallel = 2", "--lanes", 6).stdout
    assert shown.count("/train\n") == 2
    assert "4 jobs of step train would wait" in shown and "max_parallel" in shown


def test_memory_holds_with_and_without_a_coordinator(home):
    total = int(read("/proc/meminfo").split()[1]) // 1024
    shown = first_and_second(home, GATED % f'memory = "{total * 2 // 3}MiB"', "--lanes", 6).stdout
    assert shown.count("/train\n") == 1
    assert "5 jobs of step train would wait: " in shown and "memory" in shown


def test_a_gpu_that_is_not_there_is_refused_with_and_without_a_coordinator(home):
    said = first_and_second(home, GATED % "gpus = 1", code=2).stderr
    assert "step train asks for a GPU, but this machine has none" in said
    hint = "; `pergpu plan FILE --on 1` shows the schedule with one GPU"
    assert said == home.run("run", home.work + "/sweep.toml", code=2).stderr.rstrip("\n") + hint + "\n"
    assert hint not in home.run("run", "--dry-run", "--gpus", 1, "--", "true", code=2).stderr


def test_results_of_others_and_moved_folders_are_judged_as_by_the_submit(home):
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1)
    home.wait()
    for i in range(2):
        record = f"runs/sweep/{i:02}-i={i}/train/attempt.json"
        home.file("copy/" + record, read(f"{home.work}/{record}"))
    home.file("copy/sweep.toml", read(home.work + "/sweep.toml"))
    said = [home.run("run", "copy/sweep.toml", *dry, code=2).stderr for dry in (["--dry-run"], [])]
    assert said[0] == said[1] and "contains results of another sweep" in said[0], said
    assert len(home.ps()) == 2, "nothing was submitted"
    assert "2 new jobs" in home.run("run", "copy/sweep.toml", "--dry-run", "--rerun").stderr
    home.file("sub/sweep.toml", grid("train", 2, 'command = ["stamp"]'))
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1, name="sub/sweep.toml")
    home.wait()
    os.rename(home.work + "/sub", home.work + "/moved")
    shown = home.run("run", "moved/sweep.toml", "--dry-run").stderr
    assert "was moved from" in shown and "0 new jobs, " in shown and "2 kept" in shown, shown
    assert "2 kept" in home.run("submit", "moved/sweep.toml", "--lanes", 1).stdout


def test_a_project_that_was_moved_while_its_jobs_run_is_refused_as_by_the_submit(home):
    os.mkdir(home.work + "/sub")
    home.close_gate()
    text = grid("train", 2, 'shell = "test $PERGPU_PARAM_I = 0 || exec stamp"')
    home.submit(text, "--lanes", 1, name="sub/sweep.toml")
    home.wait("sweep/0")
    home.until_running()
    os.rename(home.work + "/sub", home.work + "/moved")
    said = [home.run("run", "moved/sweep.toml", *dry, code=2).stderr for dry in (["--dry-run"], [])]
    assert said[0] == said[1] and "while its jobs are running" in said[0], said
    home.open_gate()
    home.wait()


def test_a_channel_that_cannot_be_used_is_refused_as_by_the_submit(home):
    path = home.file("sweep.toml", '[notify]\nurl = "$NOWHERE"\n' + GATED % "")
    said = [home.run("run", path, *dry, code=2).stderr for dry in (["--dry-run"], [])]
    assert said[0] == said[1] and "NOWHERE" in said[0]


def test_a_shell_without_sbatch_is_warned_of_and_the_scripts_are_shown(home):
    path = home.file("sweep.toml", grid("train", 2, 'command = ["true"]'))
    shown = home.run("run", path, "--on", "slurm", "--dry-run", env={"PATH": home.work})
    assert "warning: there is no sbatch in this shell's PATH" in shown.stderr and "#SBATCH --array=0-1" in shown.stdout
    assert "sbatch" not in home.run("run", path, "--dry-run", "--lanes", 1, env={"PATH": home.work}).stderr
