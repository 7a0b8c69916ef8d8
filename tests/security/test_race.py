"""A second user swaps names in the results folder while run, clean, snapshot, report and logs work, and the folder
for locks of GPUs while jobs use them.

Counted are operations (a file or folder that a command made, wrote, read or removed there), and wins: something private
was changed, even for a moment, or shown, or the other user's code ran.  Private files that the other user can move, since
they lie in a shared folder, keep their text and mode, and no file that others can read has their text.  ./test takes
2,000 operations; as many as are wanted, here 100,000 as with PERGPU_LONG=1 (some minutes):

    PERGPU_RACES=100000 PERGPU_BIN=$PWD/build/dev/pergpu tests/security/start -s tests/security/test_race.py
"""
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections import Counter

import pytest
from harness import FAKE_NVML, LONG, for_every_user, read, stat_of, wait_until
from two_users import GROUP, OURS, SECRET, show

RACES = int(os.environ.get("PERGPU_RACES") or (100_000 if LONG else 2_000))
RUNS = 200 if RACES > 20_000 else 80
MOVED = "text-of-a-private-file-that-was-moved"
MOVABLE = 40
ROUNDS_WITH_GPUS = 200 if LONG else 8
OWN, THEIRS = "own code ran", "code of the other user ran"
READERS = [["why", "{s}"], ["ps", "-a", "--json", "{s}"], ["show", "{s}/0"], ["export", "{s}"],
           *(["logs", "-n", "5", "{s}/%d" % run] for run in range(8))]  # fmt: skip
FILES_OF_A_RUN = 6  # its two folders, config.json, log.txt, attempt.json at its begin and end

SWEEP = f"""
[grid]
i = {list(range(RUNS))}
[steps.a]
snapshot = ["*.sh"]
shell = "exec sh ./train.sh"
retries = 0
breaker = 0
"""


class Race:
    def __init__(self, lab, movable):
        self.lab, self.home, self.adversary = lab, lab.home, None
        self.operations = Counter()
        self.refused = Counter()  # operations that met the adversary
        self.wins = []
        width = max(2, len(str(RUNS - 1)))
        runs = [f"{i:0{width}}-i={i}" for i in range(0, RUNS, 5)]
        files = ("config.json", "log.txt", "attempt.json", "metrics.jsonl", "train.sh")
        lab.fill_private(["a", *(f"{run}/a" for run in runs)], files)
        self.private = lab.state_of_private()
        self.movable = {}  # open files and folders, wherever they are: as they are to stay
        for path in movable:
            fd = os.open(path, os.O_RDONLY)
            self.movable[fd] = self.state_of_movable(fd)

    def close(self):
        for fd in self.movable:
            os.close(fd)

    @staticmethod
    def state_of_movable(fd):
        st = os.fstat(fd)
        return st.st_ino, oct(st.st_mode), st.st_uid, "" if stat.S_ISDIR(st.st_mode) else os.pread(fd, 1 << 16, 0)

    @contextlib.contextmanager
    def quiet(self):
        """No name is swapped: the test isn't to be led elsewhere itself."""
        self.adversary.send_signal(signal.SIGSTOP)
        wait_until(lambda: stat_of(self.adversary.pid)[0] == "T", "a stopped adversary")
        yield
        self.adversary.send_signal(signal.SIGCONT)

    def check(self, command, shown=""):
        """Was anything won?"""
        now = self.lab.state_of_private()
        changed = sorted(path for path in {*now, *self.private} if now.get(path) != self.private.get(path))
        if changed:
            self.wins.append((command, "changed", changed))
            self.private = now
        for fd, before in self.movable.items():
            state = self.state_of_movable(fd)
            if state != before:
                self.wins.append((command, "changed where it was moved", before, state))
                self.movable[fd] = state
        if SECRET in shown:
            self.wins.append((command, "shown", shown[:1000]))
        with self.quiet():
            movable = {state[0] for state in self.movable.values()}
            for path in self.lab.leaks(SECRET, MOVED):
                if os.lstat(path).st_ino not in movable:
                    self.wins.append((command, "written into", path, read(path)[:1000]))
                    os.unlink(path)

    def command(self, *args):
        code, shown = show(self.home, *args)
        self.check(args[0], shown)
        return code, shown

    def round(self, name):
        self.home.script("train.sh", f"# {name}\necho {OWN}\n")
        sweep = self.home.file(name + ".toml", f'name = "{name}"\n{SWEEP}')
        for _ in range(20):
            code, shown = self.command("submit", sweep, "--lanes", "3", "--out", self.lab.shared)
            if code == 0:
                break
            self.refused["snapshot"] += 1
        self.operations["snapshot"] += 1
        assert code == 0, shown
        self.command("logs", "-f", f"{name}/1")
        self.home.wait(name)
        self.check("run")
        jobs = self.home.ps(name).values()
        assert len(jobs) == RUNS and {job["state"] for job in jobs} <= {"done", "failed", "lost"}
        self.operations["run"] += FILES_OF_A_RUN * RUNS
        self.refused["run"] += sum(job["state"] != "done" for job in jobs)
        self.look_at_code(name)
        self.read(name)
        self.clean(name)

    def look_at_code(self, name):
        """No job wrote that it is the other user's.  Their own files may say so, and are theirs."""
        with self.quiet():
            for path in self.lab.files():
                if path.startswith(f"{self.lab.shared}/{name}/") and path.endswith("/log.txt") and THEIRS in read(path):
                    self.wins.append(("snapshot", "ran their code", path))

    def read(self, name):
        for args in READERS:
            code, _ = self.command(*(arg.format(s=name) for arg in args))
            self.operations[args[0]] += RUNS if args[0] == "export" else 1
            self.refused[args[0]] += code != 0
        code, _ = self.command("report", name, "-o", self.home.work + "/page.html")
        page = read(self.home.work + "/page.html", "")
        self.check("report", page)
        self.operations["report"] += 2 * RUNS  # each run's log and metrics
        self.refused["report"] += code != 0

    def clean(self, name):
        for _ in range(5):
            code, _ = self.command("clean", name, "--results", "--yes")
            if code == 0:
                self.operations["clean"] += (FILES_OF_A_RUN - 1) * RUNS
                return
            self.refused["clean"] += 1


def movable_things(lab):
    """A folder of files that others can move, and nothing else, and of links; the files, and such a folder."""
    folder = lab.shared + "/.own"
    paths = [lab.shared + "/.folder", *(f"{folder}/file-{i}" for i in range(MOVABLE))]
    os.mkdir(folder)
    os.mkdir(paths[0], 0o700)
    for path in paths[1:]:
        with open(path, "w") as f:
            f.write(f'{{"step": 1, "reason": "ValueError: {MOVED}"}}\n')
        os.chmod(path, 0o600)
    for i in range(MOVABLE):
        os.symlink(lab.private, f"{folder}/link-to-folder-{i}")
        os.symlink(lab.private + "/log.txt", f"{folder}/link-to-file-{i}")
    for path in (folder, paths[0], *(f"{folder}/{name}" for name in os.listdir(folder))):
        os.chown(path, OURS, GROUP, follow_symlinks=False)
    os.chmod(folder, 0o2775)
    return folder, paths


@pytest.fixture
def race(lab):
    program = read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "adversary.py"))
    hostile = f"echo {THEIRS}; echo gained >> {lab.private}/log.txt\n"
    folder, movable = movable_things(lab)
    race = Race(lab, movable)
    race.adversary = lab.as_other(sys.executable, "-I", "-c", program, lab.shared, lab.private,
                                  lab.private + "/log.txt", hostile, folder)  # fmt: skip
    assert race.adversary.stdout.readline() == "there\n"
    yield race
    race.adversary.kill()
    race.adversary.communicate()
    race.close()


def end(race):
    """Nothing was won, and the other user had the chance."""
    swaps = int(race.adversary.communicate("")[0])
    print(f"{sum(race.operations.values())} operations {dict(race.operations)}")
    print(f"{dict(race.refused)} met one of {swaps} swaps; {len(race.wins)} wins")
    assert not race.wins, race.wins
    assert swaps > 100
    assert sum(race.refused.values()) > 0, "nothing met the other user"


def test_whoever_swaps_names_while_commands_work_wins_nothing(race):
    rounds = 0
    while sum(race.operations.values()) < RACES and not race.wins:
        race.round(f"s{rounds}")
        rounds += 1
    end(race)


@pytest.fixture
def gpus(lab):
    """Two GPUs that are not there; their locks lie in the shared folder."""
    if not FAKE_NVML:
        pytest.skip("needs FAKE_NVML, a library that shows GPUs")
    world = lab.home.file("world.json", json.dumps({"gpus": 2}))
    lab.home.env.update(PERGPU_NVML=f"{for_every_user()}/{os.path.basename(FAKE_NVML)}",
                        FAKE_NVML_SCENARIO=world, PERGPU_LOCKS=lab.shared + "/locks")  # fmt: skip


def test_whoever_swaps_the_folder_of_locks_wins_nothing(gpus, race):
    sweep = race.home.file("g.toml", 'name = "g"\n[grid]\ni = [0, 1, 2]\n[steps.a]\ngpus = 1\ncommand = "true"\n')
    for number in range(10 * ROUNDS_WITH_GPUS):
        if race.wins or (number >= ROUNDS_WITH_GPUS and sum(race.refused.values()) > 0):
            break
        with race.quiet(), contextlib.suppress(FileNotFoundError):  # else what stays there is all that's met
            os.rename(race.lab.shared + "/locks", f"{race.home.root}/locks.{number}")
        race.command("submit", sweep, "--rerun", "--out", race.home.work + "/runs")
        with contextlib.suppress(subprocess.TimeoutExpired):  # while the folder is none
            race.home.start("wait", "g").communicate(timeout=1)
        race.check("run")
        jobs = race.home.ps("g").values()
        race.operations["run"] += len(jobs)
        race.refused["run"] += sum(job["state"] != "done" for job in jobs)
        for args in (["gpus"], ["doctor"], ["why", "g"], ["coordinator", "stop", "--kill"]):
            _, shown = race.command(*args)
            race.operations[args[0]] += 1
            race.refused[args[0]] += "lock folder" in shown
    end(race)
