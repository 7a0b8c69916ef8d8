"""docs/schema/sweep.json and the parser agree on what a sweep file is, and the documents on what both say."""
import glob
import json
import os
import re
import subprocess
import tomllib

from harness import PERGPU, read
from schemas import ROOT, check, mistakes, schemas

# Each is tried as the value of every key of a step.
VALUES = r"""
"" "x" "a\u0020b" "all" "avoid" "ignore" "fit" "time" "mps" "mig" "uuid" "index" "0s" "90s" "1d2h" "2h1d" "1.5h" "1w" "5min" "90" "01:30:00"
"1:99:00" "64GiB" "500MB" "1.5g" "64\u0020GiB" "0B" "USR1@2m" "SIGTERM@90s" "USR1" "{i}m" "train:all" "train:some" "A=b"
true false 0 1 2 255 256 1000 1001 1000000 1000001 -1 1.5 0.25 0.005 11
[] ["x"] ["x","train"] ["x",1] [""] ["train:ended"] [1]
{} {max=1} {max=1,on=["exit"],delay="1s"} {on=["exit"]} {max=1,on=["ok"]} {max=1001} {max=1,more=2}
{memory=1.5} {memory=1} {memory=11} {gpu_memory=2} {memry=2} {A="b",B=2} {A-B="c"} {A=true}
{duration="2s",exit=3} {duration="{i}s",exit="{i}"} {exit=256} {duration=2} {other=1}
[{match="x",class="exit"}] [{match="x",class="timeout"}] [{match="x"}] [{match="",class="exit"}]
""".split()
# What a schema cannot know.
ONLY_PERGPU = "there is no such step|is not in \\[limits\\]|needs a shell|values aren't pasted"


def parsed(text):
    return json.loads(json.dumps(tomllib.loads(text)))


def refusals(home, text):
    """{line: messages} of what pergpu says of a sweep file; nothing is started."""
    done = home.run("run", "--emit", home.file("sweep.toml", text), code=None)
    assert done.returncode in (0, 2) and "more errors" not in done.stderr, done.stderr
    found = {}
    for line, message in re.findall(r"^\S*sweep\.toml:(\d+):\d+: (?!warning: )(.*)$", done.stderr, re.M):
        found.setdefault(int(line), []).append(message)
    assert bool(found) == (done.returncode == 2), done.stderr
    return found


def probe(key, value):
    """The keys of a step in which this one is tried, one a line, and all that it needs beside it."""
    beside = {
        "command": [],
        "shell": [],
        "gpu": ["gpus = 1"],
        "gpu_memory": ["gpus = 1"],
        "sharing": ["gpus = 0.5"],
        "grow": ["gpus = 1", 'memory = "1GiB"', 'gpu_memory = "1GiB"', "retries = 1"],
    }.get(key, [])
    command = [] if key in ("command", "shell") else ['command = ["true"]']
    return [*command, *beside, f"{key} = {value}"]


def test_the_schema_and_the_tables_of_the_documentation_are_those_of_the_parser():
    done = subprocess.run([ROOT + "/tools/sweep-reference", "--check", PERGPU], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_good_sweep_files_fit():
    files = glob.glob(ROOT + "/examples/*/*.toml") + glob.glob(ROOT + "/tests/data/good/*.toml")
    assert len(files) > 5
    for path in files:
        check("sweep", parsed(read(path)))
    for name in ("everything", "thirteen"):
        check("sweep", json.loads(read(f"{ROOT}/tests/data/good/{name}.json")))


def test_broken_sweep_files_do_not_fit():
    for name in """unknown_key unknown_key_of_another_tool counts_out_of_range memory_without_unit memory_in_a_wrong_unit
                   command_and_shell no_command no_steps empty_list env_pass_with_value failures_mistakes fractional_cpus
                   limit_below_one name_is_a_number name_is_empty name_with_a_slash needs_unknown_scope
                   parameter_at_top_level parameter_called_like_a_placeholder
                   parameter_name_with_a_dash""".split():
        assert mistakes("sweep", parsed(read(f"{ROOT}/tests/data/broken/{name}.toml"))), name


def test_parser_and_schema_agree_on_the_values_of_every_key(home):
    step = schemas()["sweep"]["$defs"]["step"]
    wrong = []
    for key in step["properties"]:
        lines = ["[grid]", "i = [1, 2]", "[limits]", "x = 1", "train = 1"]
        lines += ["[steps.x]", 'command = ["true"]', "[steps.train]", 'command = ["true"]']
        steps = []  # (value, first line, last line, keys)
        for value in VALUES:
            keys = probe(key, value)
            first = len(lines) + 1
            lines += [f"[steps.s{len(steps)}]", *keys]
            steps.append((value, first, len(lines), parsed("\n".join(keys))))
        refused = refusals(home, "\n".join(lines) + "\n")
        accepted = 0
        for value, first, last, keys in steps:
            said = [message for line in range(first, last + 1) for message in refused.get(line, [])]
            fits = not mistakes("sweep", {"steps": {"s": keys}})
            accepted += not said
            if not said and not fits:
                wrong.append(f"pergpu takes `{key} = {value}`, the schema does not")
            if said and fits and not all(re.search(ONLY_PERGPU, message) for message in said):
                wrong.append(f"the schema takes `{key} = {value}`; pergpu: {said}")
        if not accepted:
            wrong.append(f"no value of `{key}` was tried that it takes")
    assert not wrong, "\n".join(wrong)


def test_parser_and_schema_agree_on_sections(home):
    tail = '[steps.step]\ncommand = ["true"]\n'
    good = ['name = "x"', 'name = "a b.1"', 'out = "r"', "[grid]\ni = [1]", '[grid]\ni = { from = 1, to = 9, n = 3, scale = "log" }',
            "[zip]\na = [1]\nb = [2]", "[[runs]]\na = 1\n[[runs]]\nb = [1]", "[constants]\nt = {a = 1}",
            "[grid]\ni = [1, 2]\n[[exclude]]\ni = [1]", "[limits]\nd = 2", "[defaults]\ncpus = 1\nenv = { A = 1 }",
            '[notify]\ncommand = ["true"]', '[[notify]]\nntfy = "a"\non = ["end"]']   # fmt: skip
    bad = ['name = "a/b"', 'name = "17"', 'name = "@x"', 'name = ""', "name = 1", 'out = ""', "grid = 1", "[grid]\ni = 1",
           "[grid]\ni = []", '[grid]\ni = [{ glob = "*" }]', "[grid]\ni = { from = 1, to = 9 }", "[grid]\ni = { from = 1, to = 2, n = 1 }",
           '[grid]\ni = { from = 1, to = 2, n = 3, scale = "sqrt" }', "[grid]\nrun = [1]", "[grid]\na-b = [1]", "runs = 1",
           "runs = [1]", 'runs_from = ""', "[limits]\nd = 0", '[limits]\n"a b" = 1', '[defaults]\ncommand = "x"',
           "[defaults]\ncpu = 1", '[defaults]\nonce = true', "[notify]\nslak = 1", "lr = 1"]  # fmt: skip
    for text in good:
        assert refusals(home, f"{text}\n{tail}") == {}, text
        check("sweep", parsed(f"{text}\n{tail}"))
    for text in bad:
        assert refusals(home, f"{text}\n{tail}"), text
        assert mistakes("sweep", parsed(f"{text}\n{tail}")), text
    for text in ("", "[steps]\n", "[steps.a]\n", '[steps.a-b]\ncommand = "x"\n', '[steps.out]\ncommand = "x"\n',
                 f'[steps.{"a" * 65}]\ncommand = "x"\n'):  # fmt: skip
        assert refusals(home, "[constants]\na = 1\n" + text), text
        assert mistakes("sweep", parsed(text)), text
    assert os.listdir(home.path) == [], "nothing was started"
