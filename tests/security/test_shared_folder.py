"""What the other user of a shared results folder plants there, once: links, code, commands' outputs."""
import os

from harness import read, wait_until
from two_users import OURS, SECRET, THEIRS, show

PLANT = """
import os, sys
for pair in sys.argv[1:]:
    target, link = pair.split("=>")
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.symlink(target, link)
"""
# Takes the results' names away and puts links to another folder there.
REPLACE = """
import os, sys
results, target = sys.argv[1:]
os.rename(results, results + ".away")
os.symlink(target, results)
"""
# Replaces each file of that name that can be reached, its folder, and the folder of that.
REPLACE_CODE = """
import os, shutil, sys
results, name, text = sys.argv[1:]
found = [folder for folder, _, names in os.walk(results) if name in names]
for folder in found:
    with open(folder + "/" + name + ".new", "w") as f: f.write(text)
    os.rename(folder + "/" + name + ".new", folder + "/" + name)
    for place in (folder, os.path.dirname(folder)):
        copy = place + ".copy"
        shutil.copytree(place, copy)
        os.rename(place, place + ".away")
        os.rename(copy, place)
print(len(found))
"""
FILES = ("config.json", "log.txt", "attempt.json", "log.old.txt", "model.pt")
SWEEP = 'name = "s"\n[grid]\ni = [0, 1, 2]\n[steps.a]\ncommand = ["echo", "said"]\n'


def test_neither_a_job_nor_a_command_is_led_through_links_of_the_other_user(lab):
    home = lab.home
    lab.fill_private(["a", "00-i=0/a", "s/00-i=0/a"], FILES)
    before = lab.state_of_private()
    lab.other_runs(PLANT, f"{lab.private}=>{lab.shared}/s/00-i=0", f"{lab.private}=>{lab.shared}/s/01-i=1/a")
    home.run("submit", home.file("s.toml", SWEEP), "--out", lab.shared)
    home.wait()
    jobs = home.ps("s")
    assert [job["out"] for job in jobs.values()] == [f"{lab.shared}/s/0{i}-i={i}/a" for i in range(3)]
    assert [job["state"] for job in jobs.values()] == ["failed", "failed", "done"]
    for job in list(jobs.values())[:2]:
        assert f"is a symbolic link that belongs to uid {THEIRS}" in home.run("why", job["id"]).stdout
    assert lab.state_of_private() == before

    lab.other_runs(REPLACE, lab.shared + "/s", lab.private)
    for args in (["logs", "s/2"], ["show", "s/2"], ["why", "s"], ["report", "s", "-o", home.work + "/page.html"],
                 ["export", "s"], ["clean", "s", "--results"], ["clean", "s", "--results", "--yes"]):  # fmt: skip
        code, shown = show(home, *args)
        assert SECRET not in shown + read(home.work + "/page.html", ""), args
        if args[0] in ("logs", "clean"):
            assert code != 0 and "link" in shown, (args, code, shown)
    assert lab.state_of_private() == before and not lab.leaks()


def test_code_that_waits_is_not_replaced(lab):
    home = lab.home
    home.close_gate()
    home.script("train.sh", "flock -s $GATE true; echo own code\n")
    text = 'name = "s"\n[grid]\ni = [0, 1, 2]\n[steps.a]\nsnapshot = ["*.sh"]\nshell = "exec sh ./train.sh"\n'
    home.run("submit", home.file("s.toml", text), "--out", lab.shared, "--lanes", 1)
    wait_until(lambda: "running" in home.states("s").values(), "the first job")
    hostile = f"echo code of uid $(id -u); cat {home.work}/s.toml\n"
    lab.other_runs(REPLACE_CODE, lab.shared, "train.sh", hostile)
    home.open_gate()
    home.wait("s")
    for job in home.ps("s").values():
        said = home.run("logs", job["id"], code=None)
        assert f"code of uid {OURS}" not in said.stdout, job
        assert "own code" in said.stdout or job["state"] == "failed", (job, said)
    assert all("code of uid" not in read(path) for path in lab.files() if path.endswith("log.txt"))


def test_what_a_command_writes_is_led_nowhere(lab):
    home = lab.home
    lab.fill_private([], FILES)
    before = lab.state_of_private()
    home.run("run", "--name", "s", "--", "true")
    lab.other_runs(PLANT, f"{lab.private}/log.txt=>{lab.shared}/page.html", f"{lab.private}=>{lab.shared}/folder")
    for path in ("page.html", "folder/page.html"):
        for args in (["report", "s", "-o"], ["export", "s", "-o"]):
            said = home.run(*args, f"{lab.shared}/{path}", code=2).stderr
            assert f"is a symbolic link that belongs to uid {THEIRS}" in said, args
    assert lab.state_of_private() == before
    assert sorted(os.listdir(lab.shared)) == ["folder", "page.html"]
