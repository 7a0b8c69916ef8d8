"""Mistakes that people make in the first hour, and what they are told."""
import json
import os
import subprocess

import pytest
from harness import FAKE_NVML, PERGPU, grid, wait_until

STEP = '[steps.train]\ncommand = ["true"]\n'


def refused(home, *args, code=2, **options):
    done = home.run(*args, code=code, **options)
    assert done.stdout == ""
    return done.stderr


def reason_of(home, *command):
    home.run("run", "--name", "one", "--lanes", 1, "--", *command, code=None)
    return home.only("one")["reason"]


def test_what_is_given_is_not_repeated_at_length(home):
    long = "x" * 100_000
    sweep = home.file("long.toml", f'{long} = 1\n[steps.a]\ncommand = ["true"]\n')
    for words in (["show", long], ["ps", long], ["run", long], ["run", sweep], [long], ["ps", "--" + long],
                  ["wait", "--timeout", long], ["submit", sweep, "--lanes", long]):  # fmt: skip
        said = home.run(*words, code=None)
        assert said.returncode != 0 and said.stderr, words[0][:20]
        assert len(said.stdout + said.stderr) < 20_000, words[0][:20]


def test_a_program_that_cannot_be_started_says_why(home):
    home.script("crlf.sh", "#!/bin/bash\r\necho hi\r\n")
    home.script("gone.py", "#!/opt/conda/envs/gone/bin/python\nprint(1)\n")
    home.file("plain.py", "print(1)\n")
    for command, words in {
        "./crlf.sh": 'no such interpreter "/bin/bash\\r" (the file has Windows line endings); convert it with dos2unix',
        "./gone.py": 'no such interpreter "/opt/conda/envs/gone/bin/python"',
        "./plain.py": "./plain.py is not executable; `chmod +x ./plain.py`, or write `python plain.py`",
        "nosuchcmd": "command not found: nosuchcmd (not in the PATH you submitted with)",
        "./nosuch.sh": f"no such file: ./nosuch.sh (in {home.work})",
    }.items():
        reason = reason_of(home, command)
        assert reason.startswith("could not start: ") and words in reason, reason
        assert home.only("one")["class"] == "user-error"


def test_a_bare_exit_code_comes_with_the_end_of_the_log(home):
    says = "import sys; print('first'); print('no d\\x1bata ' + 'x' * 2000); sys.exit(3)"
    home.run("run", "--name", "one", "--lanes", 1, "--", "python3", "-c", says, code=None)
    number = home.only("one")["id"]
    for command, words in {"why": "last line of its log: no d", "show": "last line: no d"}.items():
        told = home.run(command, "one").stdout
        assert "exit code 3\n" in told and words in told and f"whole log: pergpu logs {number}\n" in told
        assert "\\x1b" in told and "\x1b" not in told and "xxx..." in told and len(told) < 3000
        assert "last line" not in home.run(command, "one", "--json").stdout
    for explained in ("raise KeyError('lr')", "pass"):
        home.run("run", "--name", "two", "--lanes", 1, "--", "python3", "-c", explained, code=None)
        assert "last line" not in home.run("why", "two").stdout + home.run("show", "two").stdout


def test_a_machine_without_a_configuration_of_slurm_is_not_called_silent(home):
    for name in ("sbatch", "squeue", "scontrol", "scancel", "sacct"):
        home.script(f"bin/{name}", f"""#!/bin/sh
echo "{name}: error: fetch_config: DNS SRV lookup failed" >&2
echo "{name}: fatal: Could not establish a configuration source" >&2
exit 1
""")  # fmt: skip
    home.env["PATH"] = f"{home.work}/bin:{home.env['PATH']}"
    home.submit(grid("train", 2, 'command = ["true"]'), "--on", "slurm")
    words = "waits to be submitted to Slurm: this machine has no Slurm configuration (slurm.conf or SLURM_CONF); s"
    wait_until(lambda: words in home.run("why", "1").stdout, "words about the configuration")
    assert ": fatal: Could not establish" in home.run("why", "1").stdout
    home.run("cancel", "@")


def test_many_changed_jobs_are_named_by_their_sweeps(home):
    for name in ("first", "second"):
        home.submit(grid("train", 5, 'command = ["false"]'), "--lanes", 1, name=name + ".toml")
    assert home.wait("*") == 1
    assert home.run("retry", "first").stderr.startswith("queued again 5 jobs of sweep first")
    home.wait("*")
    assert home.run("retry", "*").stderr.startswith("queued again 10 jobs of 2 sweeps")
    assert "sweeps" not in home.json("cancel", "*")


def test_what_no_job_will_find_is_said_at_submit(home):
    home.script("crlf.sh", "#!/bin/bash\r\n")
    home.script("bare.py", "print(1)\n")
    for command, words in {
        '["nosuchcmd"]': "command not found: nosuchcmd",
        '["./crlf.sh"]': "Windows line endings",
        '["./bare.py"]': "/bin/sh would read it; write `python bare.py`",
        '["python3", "-u", "nosuch.py", "--seed", "{i}"]': f"no file nosuch.py in {home.work}",
        '["true"]\ncwd = "nowhere"': f"no folder {home.work}/nowhere",
    }.items():
        path = home.file("s.toml", grid("train", 2, f"command = {command}"))
        for args in (["submit"], ["run", "--dry-run"]):
            err = home.run(*args, path).stderr
            assert "warning: " in err and words in err, err
        home.wait()
    for fine in ('["python3", "-c", "1"]', '["python3", "-m", "x"]', '["sh", "{out}/x"]', '["{i}"]', '["true"]'):
        path = home.file("s.toml", f"[zip]\ni = [1]\n[steps.train]\ncommand = {fine}\n")
        assert "warning" not in home.run("run", "--dry-run", path).stderr


def test_a_step_whose_program_another_step_makes_is_not_doubted(home):
    text = '[steps.build]\ncommand = ["true"]\n[steps.use]\nneeds = ["build"]\ncommand = ["./made-by-build"]\n'
    assert "warning" not in home.run("submit", home.file("s.toml", text)).stderr


def test_results_that_cannot_be_written_are_refused_at_submit(home):
    path = home.file("s.toml", STEP)
    home.file("a-file", "")
    for out in (home.work + "/a-file", home.work + "/a-file/x", "/proc/x"):
        for args in (["submit"], ["run", "--dry-run"], ["run"]):
            err = refused(home, *args, path, "--out", out)
            assert f"can't write results to {out}" in err and "--out" in err
    assert home.json("ps", "-a")["jobs"] == []
    assert not [name for name in os.listdir(home.work) if name.startswith(".pergpu")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_somebody_elses_folder_is_refused_at_submit(home):
    home.become(12345)
    os.chown(home.path, 12345, 12345)
    path = home.file("s.toml", STEP)
    err = refused(home, "submit", path)
    assert f"can't write results to {home.work}/runs" in err and "Permission denied" in err and "--out" in err


def test_a_forgotten_double_dash_is_named(home):
    home.file("train.py", "")
    home.script("run.sh", "#!/bin/sh\n")
    for args, words in {
        ("run", "python3", "-c", "print(1)"): "pergpu run -- python3 -c 'print(1)'",
        ("run", "python3", "train.py", "--model", "mlp"): "pergpu run -- python3 train.py --model …",
        ("run", "--lanes", "4", "python3", "train.py"): "pergpu run --lanes 4 -- python3 train.py",
        ("submit", "python3", "train.py", "x"): "pergpu submit -- python3 train.py x",
        ("run", "train.py"): "pergpu run -- python train.py",
        ("run", "train.py", "--lr", "1"): "pergpu run -- python train.py --lr 1",
        ("run", "./run.sh"): "pergpu run -- ./run.sh",
        ("train.py",): "pergpu run -- python train.py",
    }.items():
        assert words in refused(home, *args), args
    assert "did you mean `--name`?" in refused(home, "run", "--nmae", "test", "python3")


def test_a_sweep_file_that_is_none_or_not_there_names_what_is(home):
    home.file("ok.toml", STEP)
    home.file("array.sh", "#!/bin/bash\n#SBATCH --array=0-9\n")
    assert "did you mean ok.toml?" in refused(home, "run", "ok")
    err = refused(home, "run", "nope.toml")
    assert f"nope.toml: no such file in {home.work}; there is ok.toml" in err
    assert "no folder nowhere" in refused(home, "run", "nowhere/x.toml")
    assert "docs/coming-from.md" in refused(home, "run", "array.sh")


def test_parameters_and_lanes_written_as_elsewhere(home):
    path = home.file("ok.toml", STEP)
    for args, words in {
        ("-p", "seed", "3"): "write -p seed=3",
        ("seed=3",): "write -p seed=3",
        ("-j4",): "--lanes 4",
        ("-j", "4"): "--lanes 4",
        ("--jobs=4",): "--lanes 4",
    }.items():
        assert words in refused(home, "run", path, *args), args
    assert "write -p seed=VALUE" in refused(home, "run", path, "-p", "seed")


def test_commands_of_other_programs_are_recognized(home):
    for word, ours in {
        "stop": "cancel", "best": "export", "sweeps": "ps -a", "rm": "clean", "delete": "clean", "results": "export",
        "pause": "hold", "resume": "release", "describe": "show", "squeue": "ps", "dashboard": "serve", "tail": "logs",
    }.items():  # fmt: skip
        assert f"did you mean `{ours}`?" in refused(home, word), word


def test_what_to_cancel_has_to_be_named(home):
    for command in ("cancel", "hold", "release", "show", "logs"):
        err = refused(home, command)
        assert f"pergpu {command} 17" in err and "SWEEP" in err
        assert f"pergpu {command} '*'" in refused(home, command, "--all")


def test_what_is_not_there_names_what_is(home):
    home.submit(STEP, "--lanes", 1, name="baselines.toml")
    home.wait("baselines", code=0)
    for selector, words in {
        "basline": "did you mean `baselines`?",
        "ok": "no sweep is called `ok`; there is baselines",
        "baselines/9": "baselines has no such run or step",
        "99": "there is no job 99",
        "1.7": "job 1 has had only 1 attempt",
        "@9": "there is only 1 sweep",
        "x*": "nothing matches `x*`; there are baselines",
    }.items():
        assert words in refused(home, "ps", selector, code=4), selector
    assert "no job is queued, held or running" in home.run("why").stderr


def test_alone_it_says_how_things_are(home):
    assert "No coordinator is running" in home.run().stdout
    home.close_gate()
    home.submit(grid("train", 3, 'command = ["stamp"]'), "--lanes", 1, name="night.toml")
    home.until_running()
    shown = home.run().stdout
    assert shown.startswith("1 running, 2 queued\n") and "night  1 running, 2 queued" in shown
    home.open_gate()
    home.wait(code=0)
    shown = home.run().stdout
    assert "nothing is queued or running" in shown and "night  3 done" in shown and "pergpu --help" in shown


def test_rows_that_cannot_be_read_are_no_unknown_placeholders(home):
    path = home.file("s.toml", 'runs_from = "rows.csv"\n[steps.train]\ncommand = ["echo", "{lr}", "{seed}"]\n')
    for rows in (None, "lr\n1,2\n", "", '"never closed\n'):
        if rows is not None:
            home.file("rows.csv", rows)
        err = refused(home, "run", path)
        assert "rows.csv" in err and "placeholder" not in err, err


def test_sweeps_from_process_substitution_and_in_capitals(home):
    text = 'name = "piped"\n' + STEP
    home.file("file.TXT", text)
    shell = ["bash", "-c", f'"{PERGPU}" submit --lanes 1 <(cat file.TXT) && cat file.TXT | "{PERGPU}" submit --lanes 1 -']
    done = subprocess.run(shell, env=home.env, cwd=home.work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 new" in done.stdout and "1 kept" in done.stdout or "0 new" in done.stdout
    home.file("B.YAML", "steps:\n  train:\n    command: ['true']\n")
    home.run("submit", "B.YAML", "--lanes", 1)
    assert home.wait("piped", "B", code=0) == 0


def test_commands_are_shown_as_a_shell_needs_them(home):
    text = """[grid]
model = ["a", "b"]
[steps.train]
command = 'python3 -c "import sys; print(sys.argv)" {model} "two words" --x={model}'
"""
    path = home.file("s.toml", text)
    shown = home.run("run", "--dry-run", path, env={"COLUMNS": "400"}).stdout
    assert "python3 -c 'import sys; print(sys.argv)' {model} 'two words' --x={model}" in shown
    home.run("submit", path, "--lanes", 1)
    assert "command   python3 -c 'import sys; print(sys.argv)' {model} 'two words' --x={model}\n" in home.run("show", "1").stdout


def test_a_bad_cuda_visible_devices_is_blamed_by_its_name(home):
    world = home.file("world.json", json.dumps({"gpus": [{"uuid": f"GPU-{i:08}-0000"} for i in range(2)]}))
    home.env.update(PERGPU_NVML=FAKE_NVML, FAKE_NVML_SCENARIO=world)
    home.run("coordinator", "start")
    path = home.file("s.toml", '[steps.train]\ngpus = 1\ncommand = ["true"]\n')
    for value in ("99", "GPU-nothing", "0,,1", "zero"):
        for args in (["submit"], ["run", "--dry-run"]):
            err = refused(home, *args, path, env={"CUDA_VISIBLE_DEVICES": value})
            assert "CUDA_VISIBLE_DEVICES" in err and "--devices:" not in err, err
        assert "--devices" in refused(home, "submit", path, "--devices", value)
    for value in ("", "-1"):
        err = refused(home, "submit", path, env={"CUDA_VISIBLE_DEVICES": value})
        assert "CUDA_VISIBLE_DEVICES of this shell names none" in err
