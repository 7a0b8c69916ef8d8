"""One experiment: a real sweep in a home of its own (work.py), something of pergpu is killed or its
disk fails, and afterwards the history is read.

The jobs say themselves what they did.  What must hold, whatever was killed:
  lost     every accepted job is there, has ended, and did its work
  twice    no attempt has started twice, none beside another of its job, none before what it needs
           has ended; and where no keeper was killed, every job has started exactly as often as it had to
  wrong    state and exit status that are recorded are those that the job had, retries are counted
  orphans  no process of a job is left when all have ended, none at all when pergpu has left
  leases   a GPU's lease is held while its job works, by nobody at the end; no two trees on one GPU
  stuck    the queue drained without a further command

What counts as a kill is one while a job was unfinished, of a keeper while it had a job.  Others strike,
too, and are counted apart, as `idle`.
"""
import collections
import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))

import harness  # noqa: E402
from harness import PERGPU, read, wait_until  # noqa: E402
from work import RETRIES, WORK, Work, stamps  # noqa: E402

KILL_AT = os.environ.get("KILL_AT", "")
FAULTY_DISK = os.environ.get("FAULTY_DISK", "")
KEEP = os.environ.get("KEEP_BROKEN", "")  # a folder for the homes of experiments that broke something
DRAIN = 120  # seconds: keepers wait up to a minute before they start yet another coordinator
BROKEN = ("lost", "twice", "wrong", "orphans", "leases", "stuck")


def keep(root, folder):
    """Copies files and folders; sockets, pipes and what goes meanwhile are left out, and so is a run of before."""

    def others(parent, names):
        paths = {name: f"{parent}/{name}" for name in names}
        return [name for name, path in paths.items() if not (os.path.isdir(path) or os.path.isfile(path))]

    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(shutil.Error):
        shutil.copytree(root, folder, symlinks=True, ignore=others)


class Experiment:
    """`kind` is a method's name, `seed` all of its chance."""

    def __init__(self, kind, seed):
        self.kind, self.seed = kind, seed
        self.chance = random.Random(f"{kind} {seed}")
        self.home = harness.Home()
        del self.home.env["PERGPU_TURN_LIMIT_MS"]  # a tracer stops it between two instructions
        self.home.script("work", WORK)
        self.home.env["LEASES"] = self.home.env["PERGPU_LOCKS"]  # jobs are not told of PERGPU_LOCKS
        self.result = {"kind": kind, "seed": seed, "kills": 0, "idle": 0, "jobs": 0, "notes": []}
        self.result.update({name: 0 for name in BROKEN})
        self.struck = []  # "WHEN PID PROGRAM": when and what was killed
        self.keepers_die = False
        self.on_gpus = False
        self.work = None
        self.accepted = False
        self.drained = False

    def run(self):
        try:
            getattr(self, self.kind)()
            self.check_history()
        except (AssertionError, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
            self.broken("stuck", repr(error)[:2000])
        if KEEP and any(self.result[name] for name in BROKEN):
            keep(self.home.root, f"{KEEP}/{self.kind}-{self.seed}")
        remains, bugs, logs = harness.close([self.home])
        if remains:
            self.broken("orphans", str(remains), len(remains))
        if bugs:
            self.broken("wrong", bugs)
        if any(self.result[name] for name in BROKEN):
            self.result["notes"] += ["killed: " + "; ".join(self.struck), logs[-2000:]]
        return self.result

    def broken(self, promise, note, by=1):
        self.result[promise] += by
        self.result["notes"].append(f"{promise}: {note}")

    # What is submitted.

    def write_sweep(self, work=None):
        """Before the first coordinator starts."""
        self.work = work or Work.by_chance(self.chance, self.on_gpus)
        if not work and self.chance.random() < 0.3:  # the store folds all the time, not from 20,000 events on
            self.home.env["PERGPU_FOLD_FROM"] = "6"
        return self.home.file("sweep.toml", self.work.sweep())

    def submit(self, path, lanes=3):
        """Again until it is accepted: what a person would do.  What has failed by then stays so."""
        args = ["submit", path, "--only-new", *([] if self.on_gpus else ["--lanes", lanes])]
        for _ in range(10):
            shown = self.home.run(*args, code=None)
            if shown.returncode == 0:
                self.result["jobs"] += len(self.work.expected())
                self.accepted = True
                return
            assert shown.returncode == 3, shown.stderr
        raise AssertionError(f"no submit is accepted: {shown.stderr}")

    def stamps(self):
        return stamps(read(self.home.stamps.path, ""))

    def busy(self):
        """Whether a kill now strikes unfinished work."""
        return self.accepted and bool(self.work.unfinished(self.stamps()))

    def use_gpus(self):
        self.on_gpus = True
        self.home.env.update(PERGPU_NVML=harness.FAKE_NVML, FAKE_NVML_GPUS="4")
        world = self.home.file("world.json", '{"gpus": 4}')
        self.home.env["FAKE_NVML_SCENARIO"] = world

    # What is killed.

    def kill(self, *pids):
        """All at once.  An idle keeper, or one of a queue that is done, does not count."""
        victims = [pid for pid in pids if pid]
        busy = self.busy()
        hits = {pid: busy and self.works(pid) for pid in victims}
        for pid in victims:
            program = read(f"/proc/{pid}/cmdline", "").replace("\0", " ")
            if "pergpu-keeper" in program and not self.keepers_die:
                continue  # it was found between fork and exec, when it looked like its parent
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.result["kills" if hits[pid] else "idle"] += 1
                self.struck.append(f"{time.time():.3f} {pid} {program}")

    @staticmethod
    def works(pid):
        is_keeper = "pergpu-keeper" in read(f"/proc/{pid}/cmdline", "")
        return not is_keeper or bool(read(f"/proc/{pid}/task/{pid}/children", ""))

    def pause(self, longest=0.25):
        """A random instant, nothing to wait for; often a short one: what follows a kill is short."""
        time.sleep(self.chance.uniform(0, self.chance.choice([longest, longest / 5])))

    def rounds(self, most):
        """A few random instants, for as long as a job is unfinished."""
        for left in range(self.chance.randint((most + 2) // 3, most) - 1, -1, -1):
            self.pause()
            yield left
            if not self.busy():
                return

    def coordinator(self):
        """A command starts the next one, which is struck when it has answered or while it starts, or
        keepers start it; after the last kill nobody types a command."""
        self.submit(self.write_sweep())
        for left in self.rounds(14):
            self.kill(self.home.coordinator())
            how = self.chance.choice(["ask", "ask", "type", "type", "keepers"]) if left else "keepers"
            if how == "ask":
                self.home.run("ps", code=None)
            elif how == "type":
                self.home.start("ps", stdout=subprocess.DEVNULL)

    def coordinator_with_gpus(self):
        self.use_gpus()
        self.coordinator()

    def keepers(self):
        """All of them or some.  A job is moved five times and then fails (kMaxUnchargedMoves)."""
        self.keepers_die = True
        self.submit(self.write_sweep())
        for _ in self.rounds(5):
            pids = self.home.keepers()
            self.kill(*self.chance.sample(pids, self.chance.randint(min(1, len(pids)), len(pids))))

    def keepers_with_gpus(self):
        self.use_gpus()
        self.keepers()

    def both(self):
        """Of pergpu nothing is left: somebody has to ask for something, once."""
        self.keepers_die = True
        self.submit(self.write_sweep())
        for _ in self.rounds(5):
            self.kill(self.home.coordinator(), *self.home.keepers())
            self.home.run("ps", code=None)

    def probe(self):
        self.use_gpus()
        self.submit(self.write_sweep())
        for _ in self.rounds(8):
            self.kill(*self.home.processes("pergpu probe"))

    def client(self):
        """While it submits: all of the sweep is there or nothing of it; then again, to the end."""
        path = self.write_sweep()
        for _ in range(self.chance.randint(1, 3)):
            client = self.home.start("run", path, "--only-new", "--lanes", 3)
            self.pause(0.1)
            if client.poll() is None:
                client.kill()
                self.result["kills"] += 1
            client.wait()
            there = len(self.home.json("ps", "-a", code=None)["jobs"])
            if there not in (0, len(self.work.expected())):
                self.broken("lost", f"{there} jobs of a submit that was cut off")
        self.submit(path)

    # At a certain system call.

    def traced(self, kind, number):
        """A coordinator that ends before its n-th call, or a keeper of it does."""
        self.keepers_die = kind == "keeper"
        tracer = subprocess.Popen(
            [KILL_AT, kind, str(number), PERGPU, "coordinator", "run", "--foreground"],
            env=self.home.env, cwd=self.home.work, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        with harness.starting:
            harness.started.add(tracer.pid)
        return tracer

    def conclude(self, tracer, early=False):
        self.drain()
        late = tracer.poll() is None
        self.home.run("wait", "--timeout", "60s", code=None)
        self.home.run("coordinator", "stop", code=None)
        said, errors = tracer.communicate(timeout=60)
        self.result["said"] = said.strip()
        assert not errors, errors
        if said.startswith("killed"):
            self.result["idle" if early or late else "kills"] += 1

    def first_coordinator(self, kind):
        tracer = self.traced(kind, self.seed)
        up = lambda: self.home.run("coordinator", "status", code=None).returncode == 0  # noqa: E731
        wait_until(lambda: tracer.poll() is not None or up(), "the coordinator")
        early = tracer.poll() is not None
        self.submit(self.write_sweep(Work.short(self.on_gpus)), lanes=2)
        self.conclude(tracer, early)

    def coordinator_call(self):
        self.first_coordinator("coordinator")

    def keeper_call(self):
        self.first_coordinator("keeper")

    def coordinator_call_with_gpus(self):
        self.use_gpus()
        self.first_coordinator("coordinator")

    def recovery_call(self):
        """The coordinator after one that was killed while jobs ran.  Keepers would start one themselves:
        they are stopped until ours has the home's lock."""
        self.submit(self.write_sweep(Work.lasting()))
        wait_until(lambda: self.home.stamps.count("start") >= 3, "running jobs")
        first, keepers = self.home.coordinator(), self.home.keepers()
        for pid in keepers:
            os.kill(pid, signal.SIGSTOP)
        self.kill(first)
        wait_until(lambda: not self.home_is_locked(), "its end")
        tracer = self.traced("coordinator", self.seed)
        wait_until(lambda: tracer.poll() is not None or self.home_is_locked(), "the next one")
        for pid in keepers:
            os.kill(pid, signal.SIGCONT)
        self.conclude(tracer)

    def home_is_locked(self):
        with open(self.home.path + "/coordinator.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    # The disk.

    def disk(self):
        """The store's writes and syncs fail for a while; then the disk is well again."""
        control = self.home.root + "/disk"
        self.home.env.update(LD_PRELOAD=FAULTY_DISK, FAULTY_DISK=control)
        self.submit(self.write_sweep())
        for _ in self.rounds(5):
            busy = self.busy()
            with open(control, "w") as f:
                f.write(self.chance.choice(["ENOSPC", "EIO", "EROFS"]))
            self.pause(1)
            if self.chance.random() < 0.3:
                self.kill(self.home.coordinator())
            os.unlink(control)
            if os.path.exists(control + ".hit"):
                self.result["kills" if busy else "idle"] += 1
                os.unlink(control + ".hit")

    # What must hold.

    def drain(self):
        """With no further command: every job has said that it ended, and a coordinator knows.  Asking
        for its status starts none."""
        self.drained = True

        def settled():
            if self.busy():
                return False
            shown = self.home.run("coordinator", "status", "--json", code=None)
            if shown.returncode:
                time.sleep(0.1)  # until the next look: each is a process
                return False
            status = json.loads(shown.stdout)
            return status["queued"] == status["live"] == 0

        try:
            wait_until(settled, "the queue", deadline=DRAIN)
        except AssertionError:
            status = self.home.run("coordinator", "status", code=None)
            self.broken(
                "stuck",
                f"unfinished: {self.work.unfinished(self.stamps())}; keepers {self.home.keepers()}; "
                f"status: {status.stdout + status.stderr}",
            )

    def check_history(self):
        if not self.drained:
            self.drain()
        left = self.processes_of_jobs()
        if left:
            self.broken("orphans", f"when no job is live: {left}", len(left))
        self.home.run("wait", "--timeout", "60s", code=None)
        shown = self.home.json("ps", "-a")["jobs"]
        jobs = {(job["step"], str(job["index"]) if job["run"] else "-"): job for job in shown}
        expected = self.work.expected()
        if len(shown) != len(expected) or set(jobs) != set(expected):
            self.broken("lost", f"{len(shown)} jobs of {len(expected)}")
        for key, job in jobs.items():
            if (job["state"], job["exit"]) != (expected[key].state, expected[key].exit):
                self.broken("wrong", str(job))
        self.check_starts()
        self.check_records(jobs)
        self.check_leases()

    def processes_of_jobs(self):
        environments = {pid: read(f"/proc/{pid}/environ", "") for pid in harness.descendants()}
        return [pid for pid, text in environments.items() if "\0PERGPU_JOB=" in text]

    def check_starts(self):
        live, starts, ended = {}, collections.Counter(), set()
        for stamp in self.stamps():
            key = stamp.step, stamp.index
            if stamp.what == "start":
                starts[key] += 1
                if stamp.attempt <= live.get(stamp.job, 0):
                    self.broken("twice", f"started again: {stamp}")
                live[stamp.job] = stamp.attempt
                for need in self.work.needs_of(*key):
                    if (*need, "0") not in ended:
                        self.broken("twice", f"started before {need} was done: {stamp}")
            elif stamp.what in ("beside", "crowded", "unleased"):
                self.broken("twice" if stamp.what == "beside" else "leases", str(stamp))
            elif live.get(stamp.job) != stamp.attempt:
                self.broken("twice", f"has worked beside {live.get(stamp.job)}: {stamp}")
            if stamp.what == "end":
                ended.add((*key, stamp.code))
        # An attempt may have been recorded and never have reached a keeper: the next one starts.
        for key, expected in self.work.expected().items():
            more = self.keepers_die and expected.starts and starts[key] > expected.starts
            if starts[key] != expected.starts and not more:
                self.broken("twice", f"{key} started {starts[key]} times")

    def check_records(self, jobs):
        """The outcome is that of the last attempt; a failure costs a retry, a fault of the machine none."""
        last = {(stamp.step, stamp.index): stamp.attempt for stamp in self.stamps()}
        for key, job in jobs.items():
            if key in last and job["attempt"] != last[key]:
                self.broken("wrong", f"attempt {last[key]} was the last: {job}")
            if key[0] != "train":
                continue
            code = self.work.rows[int(key[1])].code
            left = {"0": [RETRIES], "2": [RETRIES], "1": [0], "once": [RETRIES - 1]}[code]
            if code == "once" and self.keepers_die:  # killed between its failure and the report
                left.append(RETRIES)
            if job["retries_left"] not in left:
                self.broken("wrong", f"retries of code {code}: {job}")

    def check_leases(self):
        """Others can take every GPU as soon as nothing of pergpu is there."""
        if not self.on_gpus:
            return
        self.home.run("coordinator", "stop", code=None)
        wait_until(lambda: not self.home.coordinator(), "the coordinator's end")
        folder = self.home.env["PERGPU_LOCKS"]
        used = {stamp.gpus for stamp in self.stamps() if stamp.gpus != "-"}
        names = os.listdir(folder)
        if not used or not used <= set(names):
            self.broken("leases", f"of {used} there are only {names}")
        for name in names:
            taken = subprocess.run(["flock", "-n", f"{folder}/{name}", "true"], check=False)
            if taken.returncode:
                self.broken("leases", name)
