"""`~`, variables, wildcards and odd bytes in all keys and options that name files."""
import json
import os

import pytest

from harness import read

STEP = '[steps.a]\ncommand = ["true"]\n'
KEYS = {
    "out": 'out = "@"\n' + STEP,
    "cwd": STEP + 'cwd = "@"\n',
    "metrics": STEP + 'metrics = "@"\n',
    "outputs": STEP + 'outputs = ["@"]\n',
    "env.A": STEP + 'env = { A = "@" }\n',
    "runs_from": 'runs_from = "@"\n' + STEP,
    "snapshot": STEP + 'snapshot = ["@"]\n',
    "x": '[grid]\nx = { glob = "@" }\n' + STEP,
}
REFUSED = {
    "$NOTSET/x": "$NOTSET is not set in this shell",
    "~otto/x": "only ~/ is expanded, to your home folder",
    "a$(date)": "isn't a variable",
    "${HOME:-x}": "isn't a variable",
    "$API_KEY": "looks like a secret",
}
SECRET = {"API_KEY": "s3cret"}


@pytest.mark.parametrize("key", KEYS)
def test_what_would_be_taken_literally_is_refused_with_its_key(home, key):
    for path, why in REFUSED.items():
        home.file("s.toml", KEYS[key].replace("@", path))
        told = home.run("run", "s.toml", "--dry-run", code=2, env=SECRET).stderr
        assert f"`{key}`" in told and why in told and "s3cret" not in told, (path, told)
    if key in ("out", "cwd", "metrics"):
        home.file("s.toml", KEYS[key].replace("@", "some/*"))
        assert f"`{key}`: must be the path of one file" in home.run("run", "s.toml", "--dry-run", code=2).stderr


@pytest.mark.parametrize("key", KEYS)
def test_an_empty_variable_is_refused_where_it_is_part_of_a_path(home, key):
    for path in ("$EMPTY/runs", "${EMPTY}", "x/$EMPTY"):
        home.file("s.toml", KEYS[key].replace("@", path))
        done = home.run("run", "s.toml", "--dry-run", code=0 if key == "env.A" else 2, env={"EMPTY": ""})
        if key != "env.A":
            assert f"`{key}" in done.stderr and "$EMPTY is empty in this shell" in done.stderr, done.stderr
    home.file("s.toml", STEP)
    for option in ("--out", "--cwd"):
        words = ["run", "s.toml", option, "$EMPTY/x"] if option == "--out" else ["run", option, "$EMPTY", "--", "true"]
        assert "$EMPTY is empty" in home.run(*words, code=2, env={"EMPTY": ""}).stderr


def test_patterns_of_a_shell_are_refused_in_outputs(home):
    for pattern in ("{out}/{a,b}.ckpt", "{out}/+(x)", "{out}/[x.ckpt", "{out}/e{1..3}"):
        home.file("s.toml", STEP + f'outputs = ["{pattern}"]\n')
        assert "`outputs`: " in home.run("run", "s.toml", "--dry-run", code=2).stderr, pattern
    text = '[steps.a]\nshell = "echo x >$PERGPU_OUT/%s"\noutputs = ["{out}/x.ckpt/"]\n'
    home.submit(text % "x.ckpt", "--lanes", 1)
    assert home.wait() == 1 and "x.ckpt/ is not a folder" in home.only()["reason"], home.only()
    home.submit((text % "x.ckpt/y").replace('"echo', '"mkdir $PERGPU_OUT/x.ckpt; echo'), "--lanes", 1, name="t.toml")
    assert home.wait("t") == 0


def test_results_that_no_file_system_can_hold_are_refused(home):
    path = home.file("s.toml", STEP)
    for dry in (["--dry-run"], []):
        said = home.run("run", path, *dry, "--out", "x" * 300, code=2).stderr
        assert "`--out`: it contains a name of 300 bytes" in said, said
        said = home.run("run", path, *dry, "--out", "d/" * 2000, code=2).stderr
        assert "`--out`: paths of results would have up to" in said and "choose a shorter folder" in said, said
    home.file("s.toml", f'out = "{"x" * 300}"\n' + STEP)
    assert "`out`: it contains a name of 300 bytes" in home.run("submit", "s.toml", code=2).stderr
    assert not home.ps()


def test_variables_stand_for_nothing_in_a_name(home):
    for name in ("$USER-c", "~c", "a${X}"):
        home.file("s.toml", f'name = "{name}"\n' + STEP)
        said = home.run("run", "s.toml", "--dry-run", code=2).stderr
        assert f"a sweep can't be named \"{name}\": variables and ~ aren't expanded in `name`" in said, said
    assert "variables and ~" in home.run("run", "--name", "~c", "--", "true", code=2).stderr


def test_options_are_refused_in_the_same_way(home):
    home.file("s.toml", STEP)
    assert "`--out`: $NOTSET is not set" in home.run("run", "s.toml", "--out", "$NOTSET", code=2).stderr
    assert "`cwd`" in home.run("run", "--cwd", "~otto", "--", "true", code=2).stderr
    home.run("run", "s.toml", "--lanes", 1)
    assert "$NOTSET is not set" in home.run("report", "-o", "$NOTSET/x.html", code=None).stderr
    assert not [name for name in os.listdir(home.work) if "$" in name or "~" in name]


def test_they_stand_for_what_they_stand_for_in_the_shell(home):
    scratch = home.root + "/scratch"
    os.mkdir(scratch)
    open(scratch + "/rows.csv", "w").write("seed\n1\n")
    home.file("code.py", "")
    home.file("s.toml", """out = "~/results"
runs_from = "$SCRATCH/rows.csv"
[steps.a]
shell = 'pwd; echo "$A"; echo x >"epoch=3.pt"; echo {} >"m{1}.jsonl"'
cwd = "${SCRATCH}"
outputs = ["~/scratch/*.pt", "$SCRATCH/epoch=3.pt"]
metrics = "$SCRATCH/m{{1}}.jsonl"
env = { A = "~/x $SCRATCH/{seed} costs $$5" }
""")
    home.run("run", "s.toml", "--lanes", 1, env={"SCRATCH": scratch})
    job = home.only()
    assert job["state"] == "done" and job["out"] == home.root + "/results/s/00/a"
    assert read(job["log"]) == f"{scratch}\n{home.root}/x {scratch}/1 costs $5\n"
    assert job["metrics"] == scratch + "/m{1}.jsonl"
    told = home.json("submit", "s.toml", "--lanes", 1, env={"SCRATCH": scratch})
    assert (told["kept"], told["new"]) == (1, 0)


def test_a_home_folder_in_an_option_is_not_a_folder_called_tilde(home):
    home.run("run", "--lanes", 1, "--out=~/here", "--name", "s", "--", "true")
    assert os.path.isdir(home.root + "/here/s") and not os.path.exists(home.work + "/~")
    home.run("export", "--csv", "--output=~/table.csv")
    home.run("report", "--output=$HOME/report.html")
    assert os.path.isfile(home.root + "/table.csv") and os.path.isfile(home.root + "/report.html")


def test_files_of_a_pattern_may_lie_in_the_home_folder(home):
    for name in ("a.bin", "b.bin"):
        open(f"{home.root}/{name}", "w").close()
    home.file("s.toml", '[grid]\nx = { glob = "~/*.bin" }\n[steps.a]\ncommand = ["echo", "{x}"]\n')
    runs = home.json("run", "s.toml", "--dry-run")["runs"]
    assert [run["params"]["x"] for run in runs] == [home.root + "/a.bin", home.root + "/b.bin"]


def test_names_that_are_no_utf8_are_refused_with_what_names_them(home):
    work = home.work.encode()
    open(work + b"/caf\xe9.bin", "w").close()
    home.file("s.toml", '[grid]\nx = { glob = "*.bin" }\n' + STEP)
    told = home.run("run", "s.toml", "--dry-run", code=2).stderr
    assert "`x`" in told and "not valid UTF-8" in told and "caf" in told
    home.file("t.toml", STEP)
    assert "`--out` is not valid UTF-8" in home.run("run", "t.toml", "--out", "caf\udce9", code=2).stderr
    os.mkdir(work + b"/caf\xe9")
    open(work + b"/caf\xe9/t.toml", "w").write(STEP)
    told = home.run("run", "t.toml", code=2, cwd=work + b"/caf\xe9").stderr
    assert "not valid UTF-8" in told and "rename" in told
    home.run("run", "--lanes", 1, "--", "true", code=2, cwd=work + b"/caf\xe9")


def test_a_variable_that_is_made_of_itself_is_refused(home):
    home.file("s.toml", STEP + 'env = { PATH = "/opt/bin:$PATH" }\n')
    told = home.run("run", "s.toml", "--dry-run", code=2).stderr
    assert "`env.PATH`" in told and "set PATH in the shell that you submit from" in told


def test_env_pass_takes_names(home):
    home.file("s.toml", STEP + 'env_pass = ["$HOME"]\n')
    assert "`env_pass`" in home.run("run", "s.toml", "--dry-run", code=2).stderr


def test_no_shell_expands_the_words_of_a_command(home):
    home.file("s.toml", '[steps.a]\ncommand = ["~/bin/train"]\n')
    assert '"~/bin/train" isn\'t a program' in home.run("run", "s.toml", "--dry-run", code=2).stderr
    home.file("s.toml", '[steps.a]\ncommand = ["cat", "$HOME/x"]\n')
    told = home.run("run", "s.toml", "--dry-run").stderr
    assert "warning" in told and '"$HOME/x" isn\'t expanded' in told
    home.file("s.toml", STEP + '[notify]\ncommand = ["~/bin/tell"]\n')
    assert "`notify.command`" in home.run("run", "s.toml", "--dry-run", code=2).stderr


def test_a_parameter_and_a_variable_of_one_name_are_told_apart(home):
    text = '[grid]\nHOME = ["a"]\n' + STEP
    home.file("s.toml", text + 'outputs = ["${HOME}"]\n')
    assert "the variable or the parameter" in home.run("run", "s.toml", "--dry-run", code=2).stderr
    home.file("s.toml", text + 'env = { A = "$HOME {HOME} $${HOME}" }\n')
    home.run("run", "s.toml", "--lanes", 1)
    record = json.loads(read(home.only()["out"] + "/attempt.json"))
    assert record["environment"]["set"]["A"] == f"{home.root} a $a"
