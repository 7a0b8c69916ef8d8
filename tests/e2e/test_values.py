"""Values of parameters reach a job as they were written, from all places where they may be written."""
import json
import os

from harness import read
from test_python_sweep import python

BIG = 123456789012345678901234567890
SHOW = '[steps.show]\ncommand = ["cp", "{config}", "{out}/seen.json"]\n'


def seen(home, sweep="sweep"):
    """What the jobs of a sweep had in their config.json, as JSON text and read by Python."""
    folder = f"{home.work}/runs/{sweep}"
    texts = [read(f"{folder}/{run}/show/seen.json").strip() for run in sorted(os.listdir(folder))]
    return texts, [json.loads(text) for text in texts]


def test_words_are_texts_unless_they_are_spelled_as_numbers_are(home):
    words = ["0e11111", "0e22222", "12e4567", "3.1", "3.10", "007", "+5", "0x10", "1_000", "1e-3", "1.0", str(BIG)]
    home.run("run", "--lanes", "2", "--name", "words", "--", "sh", "-c", 'cp "$PERGPU_CONFIG" "$1.json"', "sh", "{}", ":::", *words)
    numbers = {"3.1": 3.1, "1e-3": 1e-3, "1.0": 1.0, str(BIG): BIG}
    for word in words:
        value = json.loads(read(f"{home.work}/{word}.json"))["arg1"]
        assert value == numbers.get(word, word) and type(value) is type(numbers.get(word, word)), word


def test_ranges_and_lists_of_the_command_line_are_what_they_look_like(home):
    home.run("run", "--lanes", "2", "--name", "lists", "-g", "seed=0..2", "-g", "layers=[64],[64,64]", "--",
             "sh", "-c", 'echo "$1 $2" >>all', "sh", "{seed}", "{layers}")  # fmt: skip
    assert sorted(read(home.work + "/all").splitlines()) == sorted(
        f"{seed} {layers}" for seed in range(3) for layers in ("[64]", "[64,64]")
    )
    refused = home.run("run", "--dry-run", "-g", "lr=0.1..0.5", "--", "true", code=2).stderr
    assert "-g lr=0.1..0.5: `0.1..0.5` isn't a range: 0..3 is 0,1,2,3" in refused, refused


def test_files_keep_types_digits_and_null(home):
    values = f'{{"big": {BIG}, "f": 1.0, "list": [1.0, 2, null], "n": null, "table": {{"a": 2.0}}, "word": "3.10"}}'
    expected = json.dumps(json.loads(values), separators=(",", ":"))
    step = '"steps": {"show": {"command": ["cp", "{config}", "{out}/seen.json"]}}'
    home.submit(f'{{"constants": {values}, {step}}}', name="j.json")
    home.submit(
        f"constants: {{big: {BIG}, f: 1.0, list: [1.0, 2, ~], n: null, table: {{a: 2.0}}, word: '3.10'}}\n"
        "steps: {show: {command: [cp, '{config}', '{out}/seen.json']}}\n",
        name="y.yaml",
    )
    home.file("rows.jsonl", values + "\n")
    home.submit('runs_from = "rows.jsonl"\n' + SHOW, name="l.toml")
    home.submit(
        "[constants]\nbig = 1\nf = 1.0\nlist = [1.0, 2, { null = true }]\nn = { null = true }\n"
        'table = { a = 2.0 }\nword = "3.10"\n' + SHOW,
        name="t.toml",
    )
    assert home.wait("j", "y", "l", "t") == 0
    for sweep in ("j", "y", "l"):
        assert seen(home, sweep)[0] == [expected], sweep
    assert seen(home, "t")[0] == [expected.replace(str(BIG), "1")]
    shown = home.json("show", "j/0")["jobs"][0]["params"]
    assert shown == {**json.loads(values), "big": str(BIG)}


def test_cells_of_csv_files(home):
    home.file("rows.csv", "commit,x,flag\n0e11111,,True\n0e22222,null,False\n12e4567,1.0,true\n")
    home.submit('runs_from = "rows.csv"\n' + SHOW)
    assert home.wait() == 0
    assert seen(home)[1] == [
        {"commit": "0e11111", "x": "", "flag": True},
        {"commit": "0e22222", "x": None, "flag": False},
        {"commit": "12e4567", "x": 1.0, "flag": True},
    ]


def test_python_gives_none_and_integers_of_any_length(home):
    steps = 'steps={"show": dict(command=["cp", "{config}", "{out}/seen.json"])}'
    out = python(home, f"""
sweep = pergpu.Sweep("sweep", runs=[dict(a=None, b=1.0, c=[None, 2.0])], settings={{"constants": {{"d": None}}}}, {steps})
sweep.run(lanes=1)
sweep.to_toml("again.toml")
large = pergpu.Sweep("large", runs=[dict(a={BIG}, b=None)], {steps})
large.run(lanes=1)
try:
    large.to_toml()
except TypeError as error:
    print("---", error)
""")  # fmt: skip
    assert seen(home)[0] == ['{"a":null,"b":1.0,"c":[null,2.0],"d":null}']
    assert seen(home, "large")[0] == [f'{{"a":{BIG},"b":null}}']
    assert f"--- runs[0].a is {BIG}, and integers of TOML have 64 bits" in out
    assert home.json("submit", "again.toml")["kept"] == 1


def test_equal_rows_are_refused_with_the_way_to_repeat_them(home):
    refused = home.run("run", "--dry-run", "--", "true", ":::", "a", "a", code=2).stderr
    assert "to repeat runs, add a parameter" in refused and "-g repeat=1..3" in refused, refused
    said = home.run("submit", "--lanes", "1", "--name", "three", "-g", "repeat=1..3", "--", "true")
    assert "3 new" in said.stdout and said.stderr == ""


def test_args_and_overrides_reach_the_program_as_words(home):
    home.script("words", 'printf "%s|" "$@" >>"$PERGPU_OUT/words"\n')
    home.submit(
        "[grid]\nname = [\"it's a; b\"]\nseed = [1, 2]\n"
        '[steps.list]\ncommand = "./words {args}"\n'
        "[steps.shell]\nshell = './words {overrides} | cat'\n"
    )
    assert home.wait() == 0
    for seed in (1, 2):
        for step, dashes in (("list", "--"), ("shell", "")):
            out = home.only(f"sweep/{seed - 1}/{step}")["out"]
            assert read(out + "/words") == f"{dashes}name=it's a; b|{dashes}seed={seed}|"


def test_a_swept_parameter_that_no_command_uses_is_warned_of(home):
    home.file("t.py", "print(1)\n")
    words = ["-g", "model=mlp,resnet", "-g", "seed=1,2", "--", "python3", "t.py", "--seed", "{seed}"]
    for command in (["run", "--dry-run"], ["submit", "--lanes", "1"]):
        said = home.run(*command, *words).stderr
        assert "warning: no command uses `model`" in said and "{args}" in said, said
    home.file("t.toml", '[grid]\nlr = [1, 2]\n[steps.m]\ncommand = "python3 t.py"\n')
    assert "t.toml:2:1: warning: no command uses `lr`" in home.run("run", "t.toml", "--dry-run").stderr
    home.file("t.py", "import pergpu\n")
    assert "no command uses" not in home.run("run", "t.toml", "--dry-run").stderr


LONG = "a" * 200_000


def long_sweep(home, steps, name="long"):
    home.file("s.json", json.dumps({"name": name, "grid": {"prompt": [LONG, "b"]}, "steps": steps}))


def test_a_long_parameter_is_read_from_its_file(home):
    script = '[ "$(wc -c <"$PERGPU_CONFIG")" -gt "$1" ] && echo "${PERGPU_PARAM_PROMPT-none}"\n'
    home.script("read", script)
    long_sweep(home, {"generate": {"command": ["./read", "10"]}})
    out = home.run("run", "s.json", "--lanes", "1")
    assert all(len(line) <= 200 for line in (out.stdout + out.stderr).splitlines())
    logs = [read(home.only(f"long/{run}")["log"]) for run in (0, 1)]
    assert logs == ["none\n", "b\n"]
    for command in (["ps", "-a"], ["show", "long/0"], ["run", "s.json", "--dry-run"]):
        lines = home.run(*command).stdout.splitlines()
        assert lines and max(map(len, lines)) < 1000, command
    assert home.json("show", "long/0")["jobs"][0]["params"]["prompt"] == LONG


def test_what_no_kernel_starts_is_refused_with_its_parameter(home):
    long_sweep(home, {"generate": {"command": ["echo", "{prompt}"]}})
    for command in (["run", "s.json", "--dry-run"], ["submit", "s.json", "--lanes", "1"]):
        said = home.run(*command, code=2).stderr
        assert "(`prompt` of run 0), but the kernel allows at most 131071: let the program read the parameters from the file {config}" in said, said
    long_sweep(home, {"generate": {"command": ["echo", *["{config}"] * 3], "env": {f"E{i}": "b" * 100_000 for i in range(70)}}})
    said = home.run("submit", "s.json", "--lanes", "1", code=2).stderr
    assert "step generate: arguments and environment of run 0 have" in said, said
