"""What goes wrong between pergpu and a Slurm: nothing is lost, and nothing runs twice."""
import glob
import json
import os
import shutil

import pytest
import slurm_cluster
from harness import FAKE_NVML, read, wait_until
from test_slurm import TWO_STEPS, gone, in_the_place_of, long, submit


@pytest.fixture
def drained(slurm):
    """Nothing begins while the test runs, until `resume()`."""

    def resume():
        if "DRAIN" in slurm.run("scontrol", "show", "node", "n0"):
            slurm.run("scontrol", "update", "NodeName=n0", "State=RESUME")

    slurm.run("scontrol", "update", "NodeName=n0", "State=DRAIN", "Reason=test")
    yield resume
    resume()


def make_deaf(home):
    """Slurm does not hear of a cancel while the file `is_deaf` lasts."""
    home.file("is_deaf", "")
    in_the_place_of(home, "scancel", f'''
test -e {home.work}/is_deaf || exec $REAL "$@"
echo "scancel: error: Kill job error: Unable to contact slurm controller (connect failure)" >&2
exit 1
''')


def test_a_cancel_of_what_runs_outlives_the_coordinator(slurm, home):
    make_deaf(home)
    home.close_gate()
    submit(home, 'name = "two"\nsteps.train.command = "stamp 0"\n')
    home.until_running()
    wait_until(lambda: home.only()["state"] == "running", "a running job")
    home.run("cancel", "two")
    wait_until(lambda: home.only()["state"] == "stopping", "its stopping")
    home.kill_coordinator()
    os.remove(home.work + "/is_deaf")
    home.run("ps")
    assert home.wait() == 1 and home.only()["state"] == "cancelled", "although its gate stays closed"


@long
def test_what_its_task_ends_is_not_taken_for_cancelled_by_the_next_coordinator(slurm, home):
    asked = f"{home.work}/asked"
    in_the_place_of(home, "squeue", f'echo >> {asked}\nexec $REAL "$@"')
    submit(home, '''
name = "slow"
[steps.train]
shell = "trap '' TERM; stamp 0; while [ ! -e go ]; do sleep 0.1; done"
timeout = "1s"
grace = "60s"
''')
    wait_until(lambda: home.only()["state"] == "stopping", "the end of its time")
    home.kill_coordinator()
    looks = len(read(asked))
    home.run("ps")
    wait_until(lambda: len(read(asked)) > looks + 1, "its looking at Slurm's queue")
    home.file("go", "")
    assert home.wait() == 1 and home.only()["state"] == "timeout", home.only()


def test_a_cancel_that_slurm_did_not_hear_is_said_again(slurm, home, drained):
    make_deaf(home)
    submit(home, TWO_STEPS)
    wait_until(lambda: len(slurm.open()) == 6, "both arrays in Slurm's hands")
    home.run("cancel", "two")
    # All have ended here, and a coordinator that knows no more than that is to end them there, too.
    assert set(home.states().values()) <= {"cancelled", "skipped"}
    home.kill_coordinator()
    os.remove(home.work + "/is_deaf")
    home.run("ps")
    gone(slurm)
    drained()
    assert home.stamps.count("start") == 0 and set(home.states().values()) <= {"cancelled", "skipped"}


@pytest.mark.parametrize("coordinator", [pytest.param("lives", marks=long), "is killed"])
def test_what_slurm_holds_for_a_hold_that_it_only_half_heard_runs_when_it_is_released(slurm, home, drained, coordinator):
    make_deaf(home)
    submit(home, 'name = "two"\ngrid.x = [1, 2]\nsteps.train.command = "stamp 0"\n')
    wait_until(lambda: len(slurm.open()) == 2, "both in Slurm's queue")
    home.run("hold", "two/0")
    wait_until(lambda: "JobHeld" in slurm.run("squeue", "-h", "-O", "Reason"), "what `scontrol hold` does")
    if coordinator == "is killed":
        home.kill_coordinator()
    home.run("release", "two/0")
    drained()
    assert home.wait() == 0
    assert home.stamps.count("start") == 2
    assert len(slurm.queue()) == 2, "nothing was submitted again"


@long
def test_a_sweep_of_which_slurm_has_tasks_begins_nowhere_else(slurm, home, drained):
    make_deaf(home)
    submit(home, TWO_STEPS)
    wait_until(lambda: len(slurm.open()) == 6, "both arrays in Slurm's hands")
    home.run("cancel", "two")
    assert "some of its tasks are still in Slurm" in home.run("submit", "sweep.toml", "--lanes", 1, code=2).stderr
    assert "some of its tasks are still in Slurm" in home.run("clean", "two", "--yes", code=None).stderr
    os.remove(home.work + "/is_deaf")
    gone(slurm)
    drained()
    wait_until(lambda: home.start("submit", "sweep.toml", "--lanes", 1).wait() == 0, "its being taken")
    home.run("retry", "two", code=None)
    assert home.wait() == 0 and home.stamps.count("start") == 6


def test_a_sweep_that_slurm_does_not_take_keeps_no_other_from_it(slurm, home):
    in_the_place_of(home, "sbatch", '''
script=$(cat)
printf "%s" "$script" | grep -q "full/" || { printf "%s" "$script" | $REAL "$@"; exit; }
echo "sbatch: error: Batch job submission failed: Job violates accounting policy (MaxSubmitJobs)" >&2
exit 1
''')
    submit(home, TWO_STEPS.replace('"two"', '"full"'))
    wait_until(lambda: "MaxSubmitJobs" in home.run("why", "full/0").stdout, "words about the limit")
    submit(home, TWO_STEPS)
    home.run("wait", "two")
    assert set(home.states("two").values()) == {"done"} and set(home.states("full").values()) == {"queued"}
    # What was not taken leaves no folders behind.
    wait_until(lambda: not glob.glob(f"{home.work}/runs/full/.slurm/full-*"), "the removal of its folder")
    home.run("cancel", "full")


@long
def test_a_refused_sweep_leaves_its_coordinator_at_rest(slurm, home):
    in_the_place_of(home, "sbatch", f'''
echo >> {home.work}/asked
echo "sbatch: error: Batch job submission failed: Requested node configuration is not available" >&2
exit 1
''')
    submit(home, TWO_STEPS)
    assert home.wait() == 1, "only held jobs are left"
    assert home.ps()["00-x=1/train"]["state"] == "held"
    assert "not available" in home.ps()["00-x=1/train"]["reason"]
    wait_until(lambda: not home.coordinator(), "its leaving", 120)
    assert len(read(f"{home.work}/asked")) == 1


@long
def test_a_coordinator_that_began_without_slurms_programs_in_its_path_uses_those_of_who_submits(slurm, home):
    with_slurm = home.env["PATH"]
    for name in os.listdir("/usr/bin"):
        if name not in slurm_cluster.PROGRAMS and name not in ("scancel", "sacct", "srun"):
            os.makedirs(f"{home.work}/bare", exist_ok=True)
            os.symlink(f"/usr/bin/{name}", f"{home.work}/bare/{name}")
    system = slurm_cluster.SEARCHED.split(":")
    own = [folder for folder in with_slurm.split(":") if folder not in system]
    home.env["PATH"] = ":".join([*own, f"{home.work}/bare"])
    home.submit('name = "local"\nsteps.train.command = "stamp 0"\n', "--lanes", 1, name="local.toml")
    home.run("wait", "local")
    first = home.coordinator()
    home.env["PATH"] = with_slurm
    submit(home, TWO_STEPS)
    assert home.wait() == 0 and set(home.states("two").values()) == {"done"}
    assert home.coordinator() == first


def lose_store(home):
    home.run("coordinator", "stop")
    wait_until(lambda: not home.coordinator(), "its end")
    shutil.rmtree(home.path)


def test_a_store_that_is_lost_begins_with_what_the_folders_tell(slurm, home):
    submit(home, TWO_STEPS)
    assert home.wait() == 0
    lose_store(home)
    submit(home, TWO_STEPS)
    assert home.wait() == 0
    assert home.stamps.count("start") == 6, "what was done is not done again"
    lose_store(home)
    submit(home, TWO_STEPS, "--rerun")
    assert home.wait() == 0
    assert home.stamps.count("start") == 12, "but where that is asked for"


def test_what_cannot_be_read_is_not_taken_for_lost(slurm, home):
    home.close_gate()
    submit(home, TWO_STEPS)
    home.until_running(3)
    home.run("coordinator", "stop")
    home.open_gate()
    gone(slurm)
    (owner, *_) = glob.glob(f"{home.work}/runs/two/.slurm/two-*/owner")
    os.rename(owner, home.work + "/aside")
    os.mkdir(owner)  # no file
    home.run("ps")
    wait_until(lambda: owner in home.run("why", "two/1").stdout, "words about the file")
    assert not set(home.states().values()) & {"lost", "cancelled", "skipped", "held"}
    os.rmdir(owner)
    os.rename(home.work + "/aside", owner)
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"} and home.stamps.count("start") == 6


@long
def test_of_two_coordinators_only_the_one_that_was_asked_last_hands_over(slurm, home, new_home):
    failing = 'name = "two"\nsteps.train.shell = "stamp 0; exit 3"\n'
    submit(home, failing)
    assert home.wait() == 1
    other = new_home()
    for name in ("PATH", "STAMPS", "GATE", "SLURM_CONF"):
        other.env[name] = home.env[name]
    other.run("submit", f"{home.work}/sweep.toml", "--on", "slurm")
    assert other.wait() == 1 and home.stamps.count("start") == 1, "what had failed is known there"
    home.close_gate()
    other.run("retry", "two")
    home.until_running(2)
    # The first has nothing in Slurm's hands that it would look at, and does not know.
    home.run("retry", "two")
    wait_until(lambda: home.only()["state"] == "held", "its letting go")
    assert "taken over by pergpu on" in home.only()["reason"]
    home.open_gate()
    assert other.wait() == 1 and other.only()["attempt"] == 2
    assert home.stamps.count("start") == 2
    # It is told to take it back, and learns what became of it.
    home.run("submit", f"{home.work}/sweep.toml", "--on", "slurm")
    assert home.wait() == 1 and home.only()["attempt"] == 2
    home.run("retry", "two")
    assert home.wait() == 1 and home.only()["attempt"] == 3
    assert home.stamps.count("start") == 3


def test_memory_that_no_gpu_of_the_allocation_has_is_told(slurm, home):
    if not FAKE_NVML:
        pytest.skip("the fake NVML is not built")
    home.file("world.json", json.dumps({"gpus": 8}))
    home.env.update(PERGPU_NVML=FAKE_NVML, FAKE_NVML_SCENARIO=home.work + "/world.json")
    submit(home, '''
name = "large"
[steps.train]
command = "stamp 0"
gpus = 1
gpu_memory = "900GiB"
''')
    assert home.wait() == 1
    job = home.only()
    assert job["state"] == "held" and "900 GiB" in job["reason"], job
    gone(slurm)


@long
def test_a_task_that_disappears_again_and_again_is_held(slurm, home):
    # As on a node that has no pergpu, with a Slurm that forgets at once what has ended.
    in_the_place_of(home, "sbatch", 'sed "s/^exec .*/exit 1/" | $REAL "$@"')
    in_the_place_of(home, "squeue", '$REAL "$@" | grep -v FAILED')
    submit(home, 'name = "two"\nsteps.train.command = "stamp 0"\n')
    wait_until(lambda: home.only()["state"] == "held", "its hold", 60)
    assert "3 times" in home.only()["reason"]
    assert len(slurm.queue()) == 3 and home.stamps.count("start") == 0
