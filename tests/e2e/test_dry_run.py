"""What a dry run foretells, beside what the submit then does."""
import json

from harness import grid, wait_until
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
    shown = gpus.run("run", path, "--dry-run", "--devices", "0,9")
    assert "--devices is not checked" in shown.stderr and not gpus.coordinator()
    gpus.json("gpus")
    for dry in (["--dry-run"], []):
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
    assert "at once:\nnothing\n" in home.run("run", path, "--dry-run", "--lanes", 1).stdout
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
    assert "step a: asks 900 TiB of memory, this machine has" in foretold_words
    assert home.run("run", path, code=2).stderr.splitlines()[-1] == foretold_words.splitlines()[-1]
