"""A second user swaps names in the results folder while run, clean, snapshot, report and logs work.

Counted are operations (a file or folder that a command made, wrote, read or removed there), and wins:
something private was changed, even for a moment, or shown, or the other user's code ran.  ./test takes
2,000 operations; as many as are wanted, here 100,000 as with PERGPU_LONG=1 (some minutes):

    PERGPU_RACES=100000 PERGPU_BIN=$PWD/build/dev/pergpu tests/security/start -s tests/security/test_race.py
"""
import contextlib
import os
import signal
import sys
from collections import Counter

import pytest
from harness import LONG, read, stat_of, wait_until
from two_users import SECRET, show

RACES = int(os.environ.get("PERGPU_RACES") or (100_000 if LONG else 2_000))
RUNS = 200 if RACES > 20_000 else 80
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
    def __init__(self, lab, adversary):
        self.lab, self.home, self.adversary = lab, lab.home, adversary
        self.operations = Counter()
        self.refused = Counter()  # operations that met the adversary
        self.wins = []
        width = max(2, len(str(RUNS - 1)))
        runs = [f"{i:0{width}}-i={i}" for i in range(0, RUNS, 5)]
        files = ("config.json", "log.txt", "attempt.json", "metrics.jsonl", "train.sh")
        lab.fill_private(["a", *(f"{run}/a" for run in runs)], files)
        self.private = lab.state_of_private()

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
        if SECRET in shown:
            self.wins.append((command, "shown", shown[:1000]))
        with self.quiet():
            for path in self.lab.leaks():
                self.wins.append((command, "written into", path))
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


@pytest.fixture
def race(lab):
    program = read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "adversary.py"))
    hostile = f"echo {THEIRS}; echo gained >> {lab.private}/log.txt\n"
    adversary = lab.as_other(sys.executable, "-I", "-c", program, lab.shared, lab.private,
                             lab.private + "/log.txt", hostile)  # fmt: skip
    assert adversary.stdout.readline() == "there\n"
    yield Race(lab, adversary)
    adversary.kill()
    adversary.communicate()


def test_whoever_swaps_names_while_commands_work_wins_nothing(race):
    rounds = 0
    while sum(race.operations.values()) < RACES and not race.wins:
        race.round(f"s{rounds}")
        rounds += 1
    swaps = int(race.adversary.communicate("")[0])
    print(f"{sum(race.operations.values())} operations {dict(race.operations)}")
    print(f"{dict(race.refused)} met one of {swaps} swaps; {len(race.wins)} wins")
    assert not race.wins, race.wins
    assert swaps > 100
    assert sum(race.refused.values()) > 0, "nothing met the other user"
