"""A sweep file that comes on standard input: `program | pergpu run -`."""
import json

from harness import read

SWEEP = 'name = "piped"\n[grid]\ni = [1, 2]\n[steps.a]\nshell = "pwd; echo $PERGPU_PARAM_I"\n'


def given(home, text, *args, code=0, command="submit"):
    path = home.root + "/given"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with open(path, encoding="utf-8") as file:
        return home.run(command, "-", *args, code=code, stdin=file)


def test_it_is_the_same_sweep_as_the_file_in_this_folder(home):
    reply = json.loads(given(home, SWEEP, "--json", "--lanes", 1).stdout)
    assert (reply["sweep"], reply["new"]) == ("piped", 2)
    assert home.wait("piped") == 0
    for i, job in enumerate(home.ps("piped").values()):
        assert read(job["log"]) == f"{home.work}\n{i + 1}\n" and job["out"].startswith(home.work + "/runs/piped/")
    again = home.submit(SWEEP, name="piped.toml")
    assert (again["new"], again["kept"]) == (0, 2)
    assert home.json("show", "piped/0")["jobs"][0]["file"].endswith("/piped.toml")


def test_json_is_known_by_its_brace(home):
    text = json.dumps({"name": "j", "steps": {"a": {"command": ["true"]}}})
    assert json.loads(given(home, "\n  " + text, "--json").stdout)["new"] == 1
    assert home.wait("j") == 0


def test_mistakes_are_told_by_line_and_nothing_starts(home):
    said = given(home, SWEEP.replace("shell", "shel") + "gpus = 'x'\n", code=2).stderr
    assert "<stdin>:5:1: " in said and "`shell`" in said and "<stdin>:6:8: " in said
    said = given(home, SWEEP.replace('name = "piped"\n', ""), code=2).stderr
    assert "a sweep from standard input needs a name" in said and 'add name = "…"' in said
    said = given(home, "\xff\n".encode("latin-1").decode("latin-1"), code=2).stderr
    assert "<stdin>:1:" in said
    assert home.ps() == {}


def test_it_can_be_rehearsed_planned_and_followed(home):
    assert "2 runs" in given(home, SWEEP, "--dry-run", command="run").stdout
    assert 'name = "piped"' in given(home, SWEEP, "--emit", command="run").stdout
    given(home, SWEEP, "--lanes", 2, command="run")
    assert set(home.states("piped").values()) == {"done"}
