"""One sweep, whichever way its folder is spelled; one attempt in a folder, whoever submitted it."""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest

from harness import LONG, PERGPU, alive, grid, read, wait_until

TEXT = grid("train", 3, 'command = ["stamp"]', header='name = "one"')
# Says `beside` where another attempt works in its folder, by a lock of its own that its children inherit.
# A long one makes its folder again, as scripts do that overwrite their output.
WORK = """#!/bin/sh
say() { echo "$1 $PERGPU_JOB $PERGPU_ATTEMPT $$ $(id -u) $PERGPU_STEP" >>"$STAMPS"; }
exec 8>>"$CROWD.$PERGPU_RUN"
flock -n 8 || say beside
say start
[ "$1" = 0 ] || { rm -rf "$PERGPU_OUT"; mkdir -p "$PERGPU_OUT"; }
sleep "$1"
say end
"""


class Spellings:
    """Random paths to one file: links, links to links, `..`, doubled slashes, another mount, /proc."""

    def __init__(self, home, seed):
        self.random = random.Random(seed)
        self.base = os.path.realpath(home.root) + "/disk"
        self.real = self.base + "/u/exp"
        os.makedirs(self.real + "/deep/er")
        links = {"link_u": self.base + "/u", "disk/u/again": "exp", "disk/ring": "..", "to_exp": "link_u/again"}
        for name, target in links.items():
            os.symlink(target, f"{home.root}/{name}")
        self.ways = [self.real, home.root + "/link_u/exp", home.root + "/to_exp", home.root + "/disk/ring/link_u/again"]
        self.mounted = home.root + "/mounted"
        os.mkdir(self.mounted)
        mount = ["mount", "--bind", self.base, self.mounted]
        if os.getuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0:
            self.ways += [self.mounted + "/u/exp", self.mounted + "/u/again"]
        else:
            self.mounted = None

    def one(self):
        """(path of the file, working folder to use it from)"""
        folder = self.random.choice(self.ways)
        for _ in range(self.random.randrange(4)):
            folder += self.random.choice(["/deep/..", "/./", "//", "/deep/er/../..", "/../again", "/../exp"])
        if self.random.random() < 0.3:
            return self.random.choice(["s.toml", "./s.toml", "/proc/self/cwd/s.toml", "deep/../s.toml"]), folder
        return folder + "/s.toml", None

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.mounted], check=False)


@pytest.fixture
def spellings(home):
    made = Spellings(home, seed=os.environ.get("PERGPU_SEED", "1"))
    shutil.copy(home.file("s.toml", TEXT), made.real)
    yield made
    made.close()


def test_a_sweep_by_any_spelling_of_its_path_is_the_same_sweep(home, spellings):
    for turn in range(20):
        path, cwd = spellings.one()
        reply = home.json("submit", path, cwd=cwd)
        assert (reply["new"], reply["kept"]) == ((3, 0) if turn == 0 else (0, 3)), (path, cwd)
        if turn == 0:
            home.wait()
        assert home.json("run", "--dry-run", path, cwd=cwd)["new"] == 0, (path, cwd)
    assert sorted(home.stamps.of("start")) == [1, 2, 3]


def test_submits_at_once_by_many_spellings_start_each_job_once(home, spellings):
    count = 200 if LONG else 40
    submits = []
    for _ in range(count):
        path, cwd = spellings.one()
        submits.append(home.start("submit", path, cwd=cwd))
    for submit in submits:
        assert submit.wait(240) == 0, submit.stderr.read()
    assert home.wait() == 0
    assert sorted(home.stamps.of("start")) == [1, 2, 3] and len(home.ps()) == 3


def test_the_root_by_any_spelling_is_the_same_root(home, spellings):
    first = home.json("submit", spellings.real + "/s.toml", "--out", home.root + "/link_u/results")
    again = [
        home.json("submit", "s.toml", "--out", "../results", cwd=spellings.real),
        home.json("submit", spellings.real + "/s.toml", "--out", spellings.base + "/u//new/../results/"),
        home.json("submit", spellings.real + "/s.toml", "--out", home.root + "/to_exp/../results"),
    ]
    assert first["new"] == 3 and [reply["new"] for reply in again] == [0, 0, 0]
    home.file("s.toml", TEXT.replace('"one"', '"two"\nout = "../results"'))
    shutil.copy(home.work + "/s.toml", spellings.real)
    assert home.json("submit", home.root + "/to_exp/s.toml")["new"] == 3
    assert home.json("submit", "s.toml", "--out", "../results", cwd=spellings.real)["new"] == 0
    home.wait()


def test_commands_from_a_linked_folder_are_of_one_sweep(home, spellings):
    for cwd in (spellings.real, home.root + "/to_exp", home.root + "/link_u/exp"):
        home.run("submit", "--name", "cmd", "-g", "i=1,2", "--", "stamp", cwd=cwd)
        home.wait()
    assert home.stamps.count("start") == 2
    home.run("submit", "--", "true", cwd=spellings.real)
    home.run("submit", "--", "true", cwd=home.root + "/to_exp")
    assert {job["sweep"] for job in home.json("ps", "-a")["jobs"]} == {"cmd", "true", "true-2"}


def python(home, text, cwd):
    package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
    process = subprocess.run(
        [sys.executable, "-c", "import json\nimport pergpu\n" + text], cwd=cwd, text=True, capture_output=True, timeout=240,
        check=False, env={**home.env, "PYTHONPATH": package, "PERGPU_BIN": PERGPU, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_sweeps_and_calls_of_python_from_a_linked_folder_are_of_one_sweep(home, spellings):
    sweep = "pergpu.Sweep('py', steps={'a': {'command': ['stamp']}}, folder=%r).submit()"
    calls = "with pergpu.Executor(name='calls', lanes=1) as pool: print(pool.submit(pow, 3, 2).result())"
    for turn, cwd in enumerate([spellings.real, home.root + "/to_exp", home.root + "/link_u/exp"]):
        reply = json.loads(python(home, f"print(json.dumps({sweep % '.'}))", cwd))
        assert (reply["new"], reply["kept"]) == ((1, 0) if turn == 0 else (0, 1))
        home.wait()
        reply = json.loads(python(home, f"print(json.dumps({sweep % cwd}))", home.work))
        assert (reply["new"], reply["kept"]) == (0, 1)
        assert python(home, calls, cwd) == "9\n"
    assert len({job["id"] for job in home.json("ps", "-a", "calls")["jobs"]}) == 3  # `calls` names one sweep


def test_a_link_that_leads_elsewhere_is_another_sweep(home, spellings):
    os.mkdir(spellings.base + "/u/other")
    shutil.copy(spellings.real + "/s.toml", spellings.base + "/u/other")
    current = home.root + "/current"
    for target in ("exp", "other"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(current)
        os.symlink(f"{spellings.base}/u/{target}", current)
        assert home.json("submit", current + "/s.toml")["new"] == 3
    home.wait()
    assert os.path.exists(spellings.base + "/u/other/runs/one/00-i=0/train/log.txt")


def shared(new_home, text, users=(None, None)):
    """Two homes, of two users where they are given, whose sweeps have one output root."""
    homes = [new_home() for _ in users]
    root = homes[0].root + "/shared"
    os.mkdir(root)
    os.chmod(root, 0o777)
    for home, uid in zip(homes, users, strict=True):
        home.env.update(PERGPU_LOCKS=homes[0].env["PERGPU_LOCKS"], STAMPS=homes[0].stamps.path,
                        GATE=homes[0].gate, CROWD=root + "/crowd")  # fmt: skip
        home.stamps.path = homes[0].stamps.path
        home.script("work", WORK)
        home.sweep = home.file("s.toml", f'name = "s"\nout = "{root}"\n{text}')
        if uid is None:
            continue
        home.become(uid)
        for folder, _, names in os.walk(home.root):
            if folder != root:
                for name in [folder, *(os.path.join(folder, n) for n in names)]:
                    os.chown(name, uid, uid)
    open(homes[0].stamps.path, "w").close()
    os.chmod(homes[0].stamps.path, 0o666)
    return homes


ONE = '[steps.train]\ncommand = ["stamp"]\n'


def reason_of(home):
    return home.only("s")["reason"]


def test_a_job_waits_for_a_folder_that_another_home_works_in_and_names_it(new_home):
    first, second = shared(new_home, ONE)
    first.close_gate()
    first.run("submit", first.sweep)
    first.until_running()
    second.run("submit", second.sweep)
    wait_until(lambda: "in use by job 1 of sweep s" in reason_of(second), "the reason")
    folder = os.path.realpath(first.root) + "/shared/s/00/train"
    words = second.run("why", "s").stdout
    assert f"waits for folder {folder}, in use by job 1 of sweep s of user " in words
    assert f"(home {first.path})" in words
    assert read(folder + "/log.txt") == "" and not os.path.exists(folder + "/log.old.txt")
    assert '"home": "' + first.path in wait_until(lambda: read(folder + "/attempt.json", ""), "the record")
    first.open_gate()
    assert first.wait() == 0 and second.wait() == 0
    assert [line[0] for line in first.stamps.lines()] == ["start", "end", "start", "end"]
    wait_until(lambda: not os.path.exists(folder + "/.pergpu-lock"), "the end of the lock file")


AWAY = {"removed": 'rm -rf "$PERGPU_OUT"', "moved": 'mv "$PERGPU_OUT" "$PERGPU_OUT.before"'}


@pytest.mark.parametrize("how", AWAY)
def test_a_job_that_makes_its_folder_again_is_still_alone_in_it(new_home, how):
    shell = f"{AWAY[how]}; mkdir -p \"$PERGPU_OUT\"; exec stamp"
    first, second = shared(new_home, f"[steps.train]\nshell = '{shell}'\n")
    run = os.path.realpath(first.root) + "/shared/s/00"
    first.close_gate()
    first.run("submit", first.sweep)
    wait_until(lambda: first.stamps.count("start") == 1, "the start")
    second.run("submit", second.sweep)
    wait_until(lambda: second.stamps.count("start") == 2 or "in use by job 1 of sweep s" in reason_of(second), "the reason")
    assert first.stamps.count("start") == 1, "two live jobs in one folder"
    for victim in [first.coordinator(), *first.keepers()]:  # neither frees the folder
        os.kill(victim, signal.SIGKILL)
    first.open_gate()
    assert second.wait() == 0
    first.run("ps")
    assert first.wait() == 0
    starts = [line[0] for line in first.stamps.lines()]
    assert starts == ["start", "end"] * (len(starts) // 2)
    wait_until(lambda: not [name for name in os.listdir(run) if name.startswith(".")], "the end of the lock files")


def test_a_shared_lock_on_the_lock_file_is_waited_for_without_a_start(home):
    path = os.path.realpath(home.work) + "/runs/sweep/00/train/.pergpu-lock"
    os.makedirs(os.path.dirname(path))
    lockers = {}
    for _ in range(2):
        locker = subprocess.Popen(["flock", "-s", "-F", path, "sleep", "1000"])
        lockers[locker.pid] = locker
        wait_until(lambda: f" {locker.pid} " in read("/proc/locks"), "its lock")
    home.submit(ONE)
    while lockers:  # a look finds the second one, and not a start
        words = f" of uid {os.getuid()}, by a shared lock on {path}"
        pid = wait_until(lambda: next((pid for pid in lockers if f"process {pid}{words}" in home.only()["reason"]), 0), words)
        assert home.only()["attempt"] == 1 and home.stamps.count("start") == 0
        locker = lockers.pop(pid)
        locker.kill()
        locker.wait()
    assert home.wait() == 0
    assert home.only()["attempt"] == 2 and home.stamps.count("start") == 1


def test_a_job_that_waits_for_its_folder_can_be_cancelled(new_home):
    first, second = shared(new_home, ONE)
    first.close_gate()
    first.run("submit", first.sweep)
    first.until_running()
    second.run("submit", second.sweep)
    wait_until(lambda: "in use by" in reason_of(second), "the reason")
    second.run("cancel", "s")
    assert second.wait("s") == 1 and second.only("s")["state"] == "cancelled"
    first.open_gate()
    assert first.wait() == 0


def test_the_folder_stays_in_use_when_all_of_pergpu_is_killed(new_home):
    first, second = shared(new_home, ONE)
    first.close_gate()
    first.run("submit", first.sweep)
    first.until_running()
    pid = first.stamps.of("start", 3)[0]
    for victim in [first.coordinator(), *first.keepers()]:
        os.kill(victim, signal.SIGKILL)
    second.run("submit", second.sweep)
    wait_until(lambda: "in use by job 1 of sweep s" in reason_of(second), "the reason")
    assert alive(pid)
    first.open_gate()
    assert second.wait() == 0
    assert [line[0] for line in first.stamps.lines()] == ["start", "end", "start", "end"]


def test_what_closes_descriptors_but_keeps_its_output_holds_the_folder(new_home):
    script = "import os, subprocess; subprocess.Popen(['stamp'], close_fds=True).wait()"
    first, second = shared(new_home, f'[steps.train]\ncommand = ["python3", "-c", "{script}"]\n')
    first.close_gate()
    first.run("submit", first.sweep)
    first.until_running()
    child = first.stamps.of("start", 3)[0]
    parent = int(read(f"/proc/{child}/stat").rpartition(")")[2].split()[1])
    for victim in [first.coordinator(), *first.keepers(), parent]:
        os.kill(victim, signal.SIGKILL)
    second.run("submit", second.sweep)
    wait_until(lambda: "processes left by an earlier attempt" in reason_of(second), "the reason")
    first.open_gate()
    assert second.wait() == 0
    assert [line[0] for line in first.stamps.lines()] == ["start", "end", "start", "end"]


def test_a_job_may_lock_its_own_folder(home):
    home.submit('[steps.a]\nshell = \'flock -n "$PERGPU_OUT" true && flock "$PERGPU_OUT" stamp\'\n')
    assert home.wait() == 0


def schedule(new_home, seed):
    """Two homes submit one sweep, and at random instants something of pergpu is killed."""
    chance = random.Random(seed)
    users = (61001, 61002) if os.getuid() == 0 else (None, None)
    text = f'[[runs]]\ni = 0\ns = 0\n[[runs]]\ni = 1\ns = {chance.choice(["0.05", "0.3"])}\n' \
           '[steps.train]\ncommand = ["work", "{s}"]\nretries = 9\n'  # fmt: skip
    homes = shared(new_home, text, users)
    for home in chance.sample(homes, 2):
        home.run("submit", home.sweep, "--rerun", umask=0)
        if chance.random() < 0.5:
            os.sched_yield()
    for _ in range(chance.randrange(1, 6)):
        victims = [(home, pid) for home in homes for pid in [home.coordinator(), *home.keepers()] if pid]
        if not victims:
            break
        home, pid = chance.choice(victims)
        if chance.random() < 0.3:  # all of one home
            for _, each in [victim for victim in victims if victim[0] is home]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: False, deadline=chance.choice([0.0, 0.02, 0.1]))
    for home in homes:
        home.wait(code=None)
    return homes, homes[0].stamps


@pytest.mark.parametrize("seed", range(500 if LONG else 5))
def test_no_two_attempts_work_in_one_folder_whatever_is_killed(new_home, seed):
    homes, stamps = schedule(new_home, seed)
    assert stamps.count("beside") == 0, stamps.lines()
    for home in homes:
        assert set(home.states("s").values()) == {"done"}, home.ps("s")


def finished(home):
    """A project with finished results."""
    path = home.file("project/s.toml", TEXT)
    home.submit_reply = home.json("submit", path)
    assert home.wait() == 0
    for i in range(3):
        home.file(f"project/runs/one/0{i}-i={i}/train/model", f"trained {i}")
    return home.work + "/project"


def test_a_project_that_was_moved_goes_on_where_it_is(home):
    project = finished(home)
    os.rename(project, home.work + "/elsewhere")
    reply = home.json("submit", home.work + "/elsewhere/s.toml")
    assert (reply["new"], reply["kept"]) == (0, 3)
    assert f"was moved from {os.path.realpath(home.work)}/project/runs/one" in reply["warnings"][0]
    home.kill_coordinator()
    assert home.json("submit", home.work + "/elsewhere/s.toml")["kept"] == 3
    shutil.copy(home.file("more.toml", grid("train", 4, 'command = ["stamp"]', header='name = "one"')),
                home.work + "/elsewhere/s.toml")  # fmt: skip
    assert home.json("submit", home.work + "/elsewhere/s.toml")["new"] == 1
    assert home.wait() == 0 and not os.path.exists(project)
    assert home.stamps.count("start") == 4


@pytest.mark.parametrize("knows", ["the same home", "another home"])
def test_results_of_a_copy_are_not_trained_over_in_silence(home, new_home, knows):
    project = finished(home)
    other = home if knows == "the same home" else new_home()
    copy = shutil.copytree(project, other.work + "/copy")
    refused = other.run("submit", copy + "/s.toml", code=2)
    assert f"{os.path.realpath(copy)}/runs/one contains results of another sweep (of home {home.path})" in refused.stderr
    assert "3 of the 3 jobs there" in refused.stderr and "--rerun" in refused.stderr and "--out" in refused.stderr
    assert read(copy + "/runs/one/00-i=0/train/model") == "trained 0"
    assert other.run("ps", "-a").stdout.count("copy") == 0
    reply = other.json("submit", copy + "/s.toml", "--rerun")
    assert reply["new"] == 3 and other.wait() == 0
    assert os.path.exists(copy + "/runs/one/00-i=0/train/log.old.txt")


def test_unfinished_results_of_others_are_said(home, new_home):
    home.submit('name = "one"\n[steps.train]\ncommand = ["false"]\n')
    assert home.wait() == 1
    other = new_home()
    copy = shutil.copytree(home.work, other.work + "/copy")
    reply = other.json("submit", copy + "/sweep.toml")
    assert "contains unfinished results of another sweep" in reply["warnings"][0]
    other.wait()
