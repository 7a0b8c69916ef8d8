"""Each job has the process attributes of the shell that submitted it: not those of the shell that
happened to start the coordinator, nor of the one before.  As root and as a user without its powers."""
import contextlib
import os
import signal
import subprocess
import sys

import pytest

import harness
from harness import read, wait_until

USER = 61003
ROOT = os.getuid() == 0
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")

# What a program sees of itself; without what the kernel counts in it.
VIEW = """#!/bin/sh
prlimit --noheadings --raw -o RESOURCE,SOFT,HARD --pid $$
echo "nice $(nice) umask $(umask) io $(ionice)"
chrt -p $$ | sed 's/^[^:]*: //'
grep -E '^(SigIgn|SigBlk|Cpus_allowed_list|Groups):' /proc/self/status
echo "slack $(cat /proc/$$/timerslack_ns 2>&-) personality $(cat /proc/self/personality) core $(cat /proc/self/coredump_filter)"
"""


def shell(words):
    return ["sh", "-c", words + '; exec "$@"', "sh"]


LAST_CORE = max(os.sched_getaffinity(0))
NICE = os.nice(0)  # of who tests
# What somebody may type before `pergpu`.  Those of the first group cannot be taken back by a user.
FOR_GOOD = {
    "nice": ["nice", "-n", "7"],
    "idle": ["chrt", "-i", "0"],
    "files": shell("ulimit -n 512"),
    "addresses": shell("ulimit -v 8000000; ulimit -c 0; ulimit -s 4096"),
    "file-size": shell("ulimit -f 4000000; ulimit -t 3000"),
}
FREE = {
    "core": ["taskset", "-c", str(LAST_CORE)],
    "batch": ["chrt", "-b", "0"],
    "ionice": ["ionice", "-c3"],
    "nohup": ["nohup"],
    "all": ["taskset", "-c", str(LAST_CORE), "ionice", "-c2", "-n7", "setarch", "-R", "env", "--ignore-signal=INT,QUIT,PIPE,CHLD",
            "--block-signal=USR1,WINCH", *shell("umask 077; ulimit -S -n 400; ulimit -S -c 0; ulimit -S -v 9000000")],
}  # fmt: skip
SHELLS = {**FOR_GOOD, **FREE}


def become_user(home):
    """A user that may not raise what it has lowered."""
    if not ROOT:
        return
    home.become(USER)
    for folder, _, names in os.walk(home.root):
        for name in [folder, *(os.path.join(folder, n) for n in names)]:
            os.chown(name, USER, USER)


@pytest.fixture
def user(home):
    home.script("view", VIEW)
    become_user(home)
    return home


@pytest.fixture
def own(home):
    """As whoever runs the tests: root, as a rule."""
    home.script("view", VIEW)
    return home


def typed(home, prefix, *args, **options):
    """`PREFIX… pergpu ARGS…`"""
    program = home.program
    words = [*prefix, program, *map(str, args)]
    home.program = words[0]
    try:
        return home.run(*words[1:], **options)
    finally:
        home.program = program


def seen(home, prefix):
    """What a program sees that is started from this shell without pergpu."""
    return subprocess.run([*prefix, home.work + "/view"], env=home.env, cwd=home.work, text=True, check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **home.user).stdout  # fmt: skip


def run(home, name, prefix=(), *args):
    """What a job sees that is submitted from this shell.  One lane: it is not pinned to a part of the cores."""
    return typed(home, list(prefix), "run", "--name", name, "--lanes", 1, *args, "--", "view").stdout


@pytest.mark.parametrize("kind", SHELLS)
def test_whichever_shell_was_first(user, kind):
    prefix = SHELLS[kind]
    wanted, plain = seen(user, prefix), seen(user, [])
    assert wanted != plain, "the prefix changes nothing here"
    assert run(user, "first", prefix) == wanted
    first = user.coordinator()
    assert run(user, "second") == plain, "what the first shell had sticks to a later sweep"
    assert (user.coordinator() != first) == (kind in FOR_GOOD), "another coordinator only where it must be"
    assert run(user, "third", prefix) == wanted, "a shell has no effect where a coordinator runs"
    assert run(user, "fourth") == plain
    assert "warning" not in user.run("why", "fourth").stdout


@pytest.mark.parametrize("kind", ["nice", "files", "all"])
def test_whichever_shell_was_first_with_the_powers_of_who_tests(own, kind):
    prefix = SHELLS[kind]
    wanted, plain = seen(own, prefix), seen(own, [])
    assert [run(own, "a", prefix), run(own, "b"), run(own, "c", prefix)] == [wanted, plain, wanted]


@pytest.mark.skipif(not ROOT, reason="needs root, to have less nice than 0")
def test_root_may_go_below(own):
    for prefix in (["nice", "-n", "-5"], ["chrt", "-f", "3"], ["ionice", "-c1", "-n3"], ["setpriv", "--groups", "7,61001"]):
        with contextlib.suppress(subprocess.CalledProcessError):  # a container may forbid it
            wanted = seen(own, prefix)
            assert run(own, "-".join(prefix).replace("-", "").replace(",", ""), prefix) == wanted, prefix
    assert run(own, "plain") == seen(own, [])


def test_a_job_is_the_first_to_go_when_memory_ends_and_more_so_if_its_shell_said_so(own):
    for adj, expected in ((700, "700"), (100, "500")):
        prefix = ["choom", "-n", str(adj), "--"]
        said = typed(own, prefix, "run", "--name", f"o{adj}", "--", "cat", "/proc/self/oom_score_adj").stdout
        assert said == expected + "\n"
    assert read(f"/proc/{own.coordinator()}/oom_score_adj").strip() in ("0", read("/proc/self/oom_score_adj").strip())


def test_the_newest_submit_counts_and_a_retry_keeps_it(user):
    text = user.file("s.toml", '[steps.a]\nshell = "nice; umask; [ -e ok ]"\n')
    typed(user, ["nice", "-n", "3", *shell("umask 027")], "run", text, "--lanes", 1, code=1)
    user.run("retry", "s")
    assert user.wait("s") == 1
    assert read(user.only("s")["log"]) == f"{NICE + 3}\n0027\n"
    user.file("ok", "")
    user.run("run", text, "--lanes", 1)
    assert read(user.only("s")["log"]) == f"{NICE}\n{oct_umask()}\n"


def oct_umask():
    mask = os.umask(0)
    os.umask(mask)
    return f"{mask:04o}"


def test_threads_follow_the_cores_of_the_sweep(user):
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        pytest.skip("needs two cores")
    words = ["sh", "-c", "echo $(nproc) $OMP_NUM_THREADS"]
    first = typed(user, ["taskset", "-c", str(LAST_CORE)], "run", "--name", "one", "--lanes", 1, "--", *words)
    assert first.stdout == "1 1\n"
    second = user.run("run", "--name", "two", "--lanes", 1, "--", "env", "-u", "OMP_NUM_THREADS", "nproc")
    assert second.stdout == f"{cores}\n"
    third = user.run("run", "--name", "three", "--lanes", 1, "--", "sh", "-c", "echo $OMP_NUM_THREADS")
    assert third.stdout == f"{cores}\n"


STEP = '[grid]\ni = [1, 2]\n[steps.a]\nmax_parallel = 1\nshell = \'stamp && view >"$PERGPU_OUT/view"\'\n'


def views(home, sweep):
    return [read(job["out"] + "/view") for job in home.ps(sweep).values()]


def test_a_killed_coordinator_takes_nothing_along(user):
    """One sweep of each kind of shell has a job that runs and one that waits."""
    niced, plain = FOR_GOOD["nice"], []
    wanted, usual = seen(user, niced), seen(user, [])
    user.close_gate()
    typed(user, niced, "submit", user.file("niced.toml", STEP), "--lanes", 1)
    wait_until(lambda: user.stamps.count("start") == 1, "the niced job")
    first = user.coordinator()
    said = typed(user, plain, "submit", user.file("plain.toml", STEP), "--lanes", 1)
    assert f"nice {NICE + 7} instead of {NICE}" in said.stderr and "running jobs continue" in said.stderr
    wait_until(lambda: user.stamps.count("start") == 2, "the other one")
    assert user.coordinator() != first
    before = user.kill_coordinator()
    wait_until(lambda: user.coordinator() not in (None, before), "its revival by a keeper")
    user.open_gate()
    assert user.wait("niced", "plain") == 0
    assert user.stamps.count("start") == 4, "no job was started twice"
    assert views(user, "niced") == [wanted, wanted]
    assert views(user, "plain") == [usual, usual]


def service(home, prefix):
    """A coordinator as a service manager starts it: it stays whatever clients want."""
    program = home.program
    home.program = prefix[0]
    process = home.start(*prefix[1:], program, "coordinator", "run", "--foreground")
    home.program = program
    wait_until(home.coordinator, "the service")
    wait_until(lambda: home.run("coordinator", "status", code=None).returncode == 0, "its answer")
    return process


def end(process):
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def test_what_a_service_cannot_give_is_said_at_submit_and_in_why_and_fails_no_job(user):
    running = service(user, ["nice", "-n", "4", *FOR_GOOD["files"]])
    pid = user.coordinator()
    user.close_gate()
    text = user.file("s.toml", "[steps.a]\nshell = 'ulimit -Sn; nice; stamp'\n")
    said = user.run("submit", text, "--lanes", 1).stderr
    for words in ("512 open files instead of", "ulimit", f"nice {NICE + 4} instead of {NICE}", "pergpu.service"):
        assert words in said, said
    assert said.count("\n") == 1, "one line"
    user.until_running()
    assert f"nice {NICE + 4} instead" in user.run("why", "s").stdout
    assert any("512 open files" in words for words in user.only("s")["warnings"])
    user.open_gate()
    assert user.wait("s") == 0
    assert read(user.only("s")["log"]).split() == ["512", str(NICE + 4)]
    assert user.coordinator() == pid
    reply = user.json("submit", text, "--lanes", 1, "--rerun")
    assert any(f"nice {NICE + 4}" in words for words in reply["warnings"])
    user.wait("s")
    end(running)


def test_of_two_shells_that_each_have_less_none_takes_the_others_place(user):
    user.run("run", "--name", "a", "--lanes", 1, "--", "true", code=0)
    typed(user, FOR_GOOD["files"], "coordinator", "stop")
    typed(user, FOR_GOOD["files"], "run", "--name", "b", "--lanes", 1, "--", "true")
    pid = user.coordinator()
    said = typed(user, FOR_GOOD["nice"], "run", "--name", "c", "--lanes", 1, "--", "sh", "-c", "nice; ulimit -n")
    assert said.stdout.split() == [str(NICE + 7), "512"]
    assert "open files" in said.stderr and "pergpu coordinator stop" in said.stderr
    assert user.coordinator() == pid
    assert run(user, "d") == seen(user, []), "a shell with all of it does take its place"


def test_of_a_python_program_and_its_executor(own):
    script = own.file("calls.py", "import os, pergpu\n"
        "def view():\n    return os.nice(0), len(os.sched_getaffinity(0))\n"
        "if __name__ == '__main__':\n    with pergpu.Executor(name='calls', lanes=1) as pool:\n"
        "        print(*pool.submit(view).result())\n")  # fmt: skip
    own.run("run", "--name", "first", "--", "true")
    env = {**own.env, "PYTHONPATH": PACKAGE, "PERGPU_BIN": harness.PERGPU, "PYTHONDONTWRITEBYTECODE": "1"}
    with harness.starting:
        process = subprocess.Popen(["nice", "-n", "6", "taskset", "-c", str(LAST_CORE), sys.executable, script], env=env,
                                   cwd=own.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        harness.started.add(process.pid)
    out = process.communicate(timeout=120)[0]
    assert process.returncode == 0 and out.split() == [str(NICE + 6), "1"], out


def test_a_low_file_limit_of_the_first_shell_hurts_nobody(user):
    assert typed(user, shell("ulimit -n 64"), "run", "--name", "low", "--", "sh", "-c", "ulimit -Hn").stdout == "64\n"
    assert run(user, "high") == seen(user, [])


def test_the_signal_that_a_step_asks_for_arrives_whatever_its_shell_ignores(own):
    text = own.file("s.toml", "[steps.a]\ntimeout = '1h'\nsignal = 'USR1@30s'\n"
                    "command = ['grep', '-E', 'Sig(Ign|Blk)', '/proc/self/status']\n")  # a shell would unblock them
    typed(own, ["env", "--ignore-signal=USR1,USR2", "--block-signal=USR1,WINCH"], "run", text, "--lanes", 1)
    masks = [int(line.split()[1], 16) for line in read(own.only("s")["log"]).splitlines()]
    assert masks == [1 << (signal.SIGWINCH - 1), 1 << (signal.SIGUSR2 - 1)]
