"""`pergpu set`: who goes first, and how many at once, of what was submitted."""
from harness import grid, wait_until

STEP = 'command = ["stamp"]'


def test_a_higher_priority_goes_first_also_after_a_kill(home):
    header = "[limits]\none = 1\n"
    uses = STEP + '\nuses = ["one"]'
    home.close_gate()
    home.submit(grid("train", 4, uses, header), name="a.toml")
    home.until_running()
    home.submit(grid("train", 2, uses, header), name="b.toml")
    reply = home.json("set", "b", "priority=5")
    assert reply["changed"] == [5, 6] and reply["unchanged"] == [] == reply["left"]
    home.kill_coordinator()
    assert home.json("show", "b/0")["jobs"][0]["limits"]["priority"] == 5
    home.open_gate()
    assert home.wait("a", "b") == 0
    assert set(home.stamps.of("start")[1:3]) == {5, 6}


def test_sweeps_with_a_weight_share_also_after_a_kill(home):
    """One lane, so that there is one order: a and b in turns at the place of a, and then c, which has none."""
    header = "[limits]\none = 1\n"
    uses = STEP + '\nuses = ["one"]'
    home.close_gate()
    home.submit(grid("first", 1, uses, header), name="first.toml")
    home.until_running()
    home.submit(grid("a", 2, uses + "\nweight = 1", header), name="a.toml")
    home.submit(grid("c", 1, uses, header), name="c.toml")
    home.submit(grid("b", 2, uses, header), name="b.toml")
    assert home.json("set", "b", "weight=2")["changed"] == [5, 6]
    home.kill_coordinator()
    shown = {job["step"]: job["limits"].get("weight") for job in home.json("show", "a", "b", "c")["jobs"]}
    assert shown == {"a": 1, "b": 2, "c": None}
    home.open_gate()
    assert home.wait("a", "b", "c") == 0
    order = home.stamps.of("start", 5)
    assert order[:3] == ["first", "a", "b"] and sorted(order[3:5]) == ["a", "b"] and order[5] == "c"


def test_more_run_at_once_when_told_so(home):
    home.close_gate()
    home.submit(grid("train", 4, STEP + "\nmax_parallel = 1"), "--lanes", 2)
    home.until_running()
    assert home.run("set", "sweep", "max_parallel=2").stderr == "changed 4 jobs; max_parallel of sweep/*/train: 1 -> 2\n"
    home.until_running(2)
    home.run("set", "@", "max_parallel=none", "lanes=4")
    home.until_running(4)
    home.open_gate()
    assert home.wait() == 0


def test_what_cannot_be_set_is_told_and_nothing_changes(home):
    home.close_gate()
    home.submit(grid("train", 2, STEP), "--lanes", 1)
    home.until_running()
    said = home.run("set", "sweep", "priority=5", "lanes=0", "timeout=1h", code=2).stderr
    assert "lanes=0: expected a whole number from 1" in said and "`timeout` can't be set" in said
    assert "name sweep/*/train" in home.run("set", "sweep/0", "priority=5", code=2).stderr
    assert "name sweep" in home.run("set", "sweep/0", "lanes=2", code=2).stderr
    assert "name the jobs" in home.run("set", "priority=5", code=2).stderr
    assert "nothing to set" in home.run("set", "sweep", code=2).stderr
    home.run("set", "nothing", "priority=5", code=4)
    shown = home.json("show", "sweep")["jobs"]
    assert all("priority" not in job["limits"] for job in shown)
    home.open_gate()
    assert home.wait() == 0
    said = home.run("set", "sweep", "priority=5").stderr
    assert said == "changed 0 jobs; jobs 1 (sweep/0), 2 (sweep/1) are already done; ended jobs can't be changed\n"


def test_jobs_that_cannot_be_changed_have_both_names_for_each_state(home):
    fails = '[steps.agg]\nonce = true\nneeds = ["train:all"]\ncommand = ["true"]\n'
    home.submit(grid("train", 12, 'command = ["sh", "-c", "test $PERGPU_PARAM_I != 11"]') + fails, "--lanes", 4)
    assert home.wait() == 1
    said = home.run("set", "sweep", "priority=5").stderr
    assert "job 13 (sweep/agg) is already skipped" in said and "job 12 (sweep/11) is already failed" in said, said


def test_the_next_submit_has_what_the_file_says(home):
    home.close_gate()
    path = home.file("sweep.toml", grid("train", 3, STEP + "\npriority = 2"))
    home.run("submit", path, "--lanes", 1)
    home.until_running()
    home.run("set", "sweep", "priority=9", "lanes=2")
    home.until_running(2)
    assert home.json("submit", path, "--lanes", 1)["kept"] == 3
    assert home.json("show", "sweep/0")["jobs"][0]["limits"]["priority"] == 2
    home.open_gate()
    assert home.wait() == 0
    wait_until(lambda: home.stamps.count("end") == 3, "all ends")
