"""Files that a step declares as its outputs: patterns, and what is gone at the next submit."""
import os
import shutil

from harness import wait_until

TWO_STEPS = """[grid]
seed = [0, 1]
[steps.train]
shell = 'stamp; echo weights >"$PERGPU_OUT/model.pt"'
outputs = ["{out}/model.pt"]
[steps.evaluate]
needs = ["train"]
shell = 'stamp'
[steps.table]
needs = ["evaluate:all"]
once = true
shell = 'stamp'
"""


def done(home, text=TWO_STEPS, *args):
    home.submit(text, *args)
    assert home.wait() == 0
    return {name: job["out"] for name, job in home.ps().items()}


def attempts(home):
    return {name: job["attempt"] for name, job in home.ps().items()}


def test_what_lost_its_outputs_runs_again_with_all_that_needs_it(home):
    outs = done(home)
    os.remove(outs["00-seed=0/train"] + "/model.pt")
    shown = home.run("submit", "sweep.toml")
    assert "3 queued again (the outputs of 1 are gone), 2 kept" in shown.stdout
    assert f"job 1 (sweep/00-seed=0/train): {outs['00-seed=0/train']}/model.pt does not exist" in shown.stderr
    assert home.wait() == 0
    again = [name for name, count in attempts(home).items() if count == 2]
    assert sorted(again) == ["00-seed=0/evaluate", "00-seed=0/train", "_once/table"]
    reply = home.json("submit", "sweep.toml")
    assert (reply["requeued"], reply["outputs_gone"], reply["kept"], reply["warnings"]) == (0, 0, 5, [])


def test_all_that_was_removed_is_made_again(home):
    done(home)
    shutil.rmtree(home.work + "/runs")
    told = home.run("run", "sweep.toml").stderr
    assert "5 queued again (the outputs of 2 are gone)" in told
    assert os.path.getsize(home.work + "/runs/sweep/01-seed=1/train/model.pt") > 0


def test_an_emptied_output_counts_as_gone_and_an_older_one_does_not(home):
    outs = done(home)
    os.utime(outs["00-seed=0/train"] + "/model.pt", (1, 1))
    open(outs["01-seed=1/train"] + "/model.pt", "w").close()
    reply = home.json("submit", "sweep.toml")
    assert (reply["requeued"], reply["outputs_gone"]) == (3, 1)
    assert "01-seed=1/train" in reply["warnings"][0] and "is empty" in reply["warnings"][0]


def test_only_new_leaves_jobs_without_outputs_and_says_so(home):
    outs = done(home)
    os.remove(outs["00-seed=0/train"] + "/model.pt")
    reply = home.json("submit", "sweep.toml", "--only-new")
    assert (reply["kept"], reply["requeued"], reply["outputs_gone"]) == (5, 0, 0)
    assert "because of --only-new they don't run again" in reply["warnings"][0]


def test_a_dry_run_and_a_plan_know_what_is_gone(home):
    outs = done(home)
    os.remove(outs["00-seed=0/train"] + "/model.pt")
    told = home.json("run", "sweep.toml", "--dry-run")
    assert (told["requeued"], told["kept"], told["outputs_gone"]) == (3, 2, 1)
    assert [start["job"] for start in told["starts"]] == ["00-seed=0/train"]
    assert "3 queued again (the outputs of 1 are gone)" in home.run("run", "sweep.toml", "--dry-run").stderr
    told = home.run("plan", "sweep.toml", *(f"--expect={step}=1s" for step in ("train", "evaluate", "table")))
    assert "outputs of done jobs are gone" in told.stdout + told.stderr
    assert home.json("submit", "sweep.toml", "--rerun")["outputs_gone"] == 0


def test_rows_that_are_added_leave_what_other_rows_lost_alone(home):
    text = TWO_STEPS[: TWO_STEPS.index("[steps.table]")]
    outs = done(home, text)
    for name in ("00-seed=0/train", "01-seed=1/train"):
        os.remove(outs[name] + "/model.pt")
    home.file("more.toml", 'name = "sweep"\n' + text.replace("[0, 1]", "[1, 2]"))
    reply = home.json("submit", "more.toml", "--add")
    assert (reply["new"], reply["requeued"], reply["outputs_gone"]) == (2, 2, 1)
    assert home.wait() == 0
    assert attempts(home)["00-seed=0/train"] == 1


def test_many_jobs_are_looked_at(home):
    text = """[grid]
i = {from = 0, to = 699, n = 700}
[steps.train]
shell = 'echo x >"$PERGPU_OUT/y"'
outputs = ["{out}/y"]
"""
    outs = done(home, text, "--lanes", 4)
    for name in sorted(outs)[5::100]:
        os.remove(outs[name] + "/y")
    reply = home.json("submit", "sweep.toml", "--lanes", 4)
    assert (reply["requeued"], reply["outputs_gone"], reply["kept"]) == (7, 7, 693)


def test_outputs_may_be_patterns(home):
    text = """[grid]
name = ["a", "x[1]*"]
[steps.train]
shell = 'echo w >"$PERGPU_OUT/$PERGPU_PARAM_NAME-epoch=3.ckpt"; mkdir -p $PERGPU_OUT/deep/er; echo w >$PERGPU_OUT/deep/er/log'
outputs = ["{out}/{name}-*.ckpt", "{out}/**/log"]
"""
    outs = done(home, text)
    folder = next(out for name, out in outs.items() if name.startswith("01"))
    os.remove(folder + "/x[1]*-epoch=3.ckpt")
    open(folder + "/x1z-epoch=3.ckpt", "w").write("what {name} stands for is no pattern")
    reply = home.json("submit", "sweep.toml")
    assert (reply["outputs_gone"], reply["kept"]) == (1, 1) and "matches no file" in reply["warnings"][0]


def test_a_pattern_that_matches_nothing_is_named(home):
    home.submit("[steps.train]\nshell = ': >$PERGPU_OUT/a.pt'\noutputs = ['{out}/*.pt', '{out}/*.ckpt']\n")
    home.wait()
    job = home.only()
    assert job["class"] == "output-missing"
    assert job["reason"] == f"output {job['out']}/*.pt matches only empty files"
    home.file("sweep.toml", "[steps.train]\nshell = 'echo x >$PERGPU_OUT/a.pt'\noutputs = ['{out}/*.pt', '{out}/*.ckpt']\n")
    home.run("run", "sweep.toml", code=None)
    assert home.only()["reason"].endswith("*.ckpt matches no file")


def test_a_disk_that_cannot_be_looked_at_costs_nothing(home):
    outs = done(home)
    link = outs["00-seed=0/train"] + "/model.pt"
    os.remove(link)
    os.symlink(link, link)  # a circle: ELOOP
    reply = home.json("submit", "sweep.toml")
    assert reply["outputs_gone"] == 0 and reply["kept"] == 5
    assert "can't check whether the outputs of done jobs still exist" in reply["warnings"][0]
    wait_until(lambda: home.wait() == 0, "nothing new")
