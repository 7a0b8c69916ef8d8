"""One experiment: a real sweep of short jobs in a home of its own, something of pergpu is killed or
its disk fails, and afterwards the history is read.

The jobs say themselves what they did (harness.STAMP).  What must hold, whatever was killed:
  lost     every accepted job has ended, and did its work
  twice    no attempt has started twice, none beside another of its job; and where no keeper was
           killed, every job has started exactly once
  wrong    the exit status that is recorded is the one that the job had
  orphans  no process is left when all have left
  leases   no lease is left
  stuck    the queue drained without a further command
"""
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))

import harness  # noqa: E402
from harness import PERGPU, grid, wait_until  # noqa: E402

KILL_AT = os.environ.get("KILL_AT", "")
FAULTY_DISK = os.environ.get("FAULTY_DISK", "")
KEEP = os.environ.get("KEEP_BROKEN", "")  # a folder for the homes of experiments that broke something
DRAIN = 120  # seconds: keepers wait up to a minute before they start yet another coordinator
BROKEN = ("lost", "twice", "wrong", "orphans", "leases", "stuck")


def keep(root, folder):
    """Copies files and folders; sockets, pipes and what goes meanwhile are left out."""

    def others(parent, names):
        paths = {name: f"{parent}/{name}" for name in names}
        return [name for name, path in paths.items() if not (os.path.isdir(path) or os.path.isfile(path))]

    with contextlib.suppress(shutil.Error):
        shutil.copytree(root, folder, symlinks=True, ignore=others)


class Experiment:
    """`kind` is a method's name, `seed` all of its chance."""

    def __init__(self, kind, seed):
        self.kind, self.seed = kind, seed
        self.chance = random.Random(f"{kind} {seed}")
        self.home = harness.Home()
        del self.home.env["PERGPU_TURN_LIMIT_MS"]  # a tracer stops it between two instructions
        self.result = {"kind": kind, "seed": seed, "kills": 0, "jobs": 0, "notes": []}
        self.result.update({name: 0 for name in BROKEN})
        self.keepers_die = False
        self.count = 0
        self.on_gpus = False

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
            self.result["notes"].append(logs[-2000:])
        return self.result

    def broken(self, promise, note, by=1):
        self.result[promise] += by
        self.result["notes"].append(f"{promise}: {note}")

    # What is submitted.

    def sweep(self, count, seconds=0.02):
        """Job i exits with i % 3, in two steps where that is 0."""
        self.count = count
        gpus = "gpus = 1\n" if self.on_gpus else ""
        work = f'command = ["sh", "-c", "exec stamp {seconds} $(({{i}} % 3))"]\n'
        return self.home.file("sweep.toml", grid("train", count, gpus + work))

    def submit(self, count=6, seconds=0.02, lanes=3):
        """Again until it is accepted: what a person would do.  What has failed by then stays so."""
        path = self.sweep(count, seconds)
        args = ["submit", path, "--only-new", *([] if self.on_gpus else ["--lanes", lanes])]
        for _ in range(10):
            shown = self.home.run(*args, code=None)
            if shown.returncode == 0:
                self.result["jobs"] += count
                return
            assert shown.returncode == 3, shown.stderr
        raise AssertionError(f"no submit is accepted: {shown.stderr}")

    def use_gpus(self):
        self.on_gpus = True
        self.home.env.update(PERGPU_NVML=harness.FAKE_NVML, FAKE_NVML_GPUS="4")
        world = self.home.file("world.json", '{"gpus": 4}')
        self.home.env["FAKE_NVML_SCENARIO"] = world

    # What is killed.

    def kill(self, pids):
        for pid in filter(None, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.result["kills"] += 1

    def pause(self, longest=0.25):
        time.sleep(self.chance.uniform(0, longest))  # a random instant: nothing to wait for

    def coordinator(self):
        """Killed once to four times; the last time nobody types a command."""
        self.submit(self.chance.randint(4, 12))
        for last in range(self.chance.randint(0, 3), -1, -1):
            self.pause()
            self.kill([self.home.coordinator()])
            if last:
                self.home.run("ps", code=None)

    def coordinator_with_gpus(self):
        self.use_gpus()
        self.coordinator()

    def keepers(self):
        self.keepers_die = True
        self.submit(self.chance.randint(4, 12))
        for _ in range(self.chance.randint(1, 3)):
            self.pause()
            self.kill(self.home.keepers())

    def keepers_with_gpus(self):
        self.use_gpus()
        self.keepers()

    def both(self):
        """Of pergpu nothing is left: somebody has to ask for something, once."""
        self.keepers_die = True
        self.submit(self.chance.randint(4, 12))
        for _ in range(self.chance.randint(1, 2)):
            self.pause()
            self.kill([self.home.coordinator(), *self.home.keepers()])
            self.home.run("ps", code=None)

    def probe(self):
        self.use_gpus()
        self.submit(self.chance.randint(4, 12))
        for _ in range(self.chance.randint(1, 4)):
            self.pause()
            self.kill(self.home.processes("pergpu probe"))

    def client(self):
        """While it submits: all of the sweep is there or nothing of it; then again, to the end."""
        path = self.sweep(self.chance.randint(4, 12))
        client = self.home.start("run", path, "--lanes", 3)
        self.pause(0.1)
        self.kill([client.pid])
        client.wait()
        there = len(self.home.json("ps", "-a", code=None)["jobs"])
        if there not in (0, self.count):
            self.broken("lost", f"{there} of {self.count} jobs of a submit that was cut off")
        self.submit(self.count)

    # At a certain system call.

    def at_call(self, kind, number):
        """A coordinator that ends before its n-th call, or a keeper of it does."""
        self.keepers_die = kind == "keeper"
        tracer = subprocess.Popen(
            [KILL_AT, kind, str(number), PERGPU, "coordinator", "run", "--foreground"],
            env=self.home.env, cwd=self.home.work, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        with harness.starting:
            harness.started.add(tracer.pid)
        up = lambda: self.home.run("coordinator", "status", code=None).returncode == 0  # noqa: E731
        wait_until(lambda: tracer.poll() is not None or up(), "the coordinator")
        self.submit(3, seconds=0, lanes=2)
        self.drain()
        self.home.run("wait", "--timeout", "60s", code=None)
        self.home.run("coordinator", "stop", code=None)
        said, errors = tracer.communicate(timeout=60)
        self.result["said"] = said.strip()
        assert not errors, errors
        self.result["kills"] += said.startswith("killed")

    def coordinator_call(self):
        self.at_call("coordinator", self.seed)

    def keeper_call(self):
        self.at_call("keeper", self.seed)

    def coordinator_call_with_gpus(self):
        self.use_gpus()
        self.at_call("coordinator", self.seed)

    # The disk.

    def disk(self):
        """The store's writes and syncs fail for a while; then the disk is well again."""
        control = self.home.root + "/disk"
        self.home.env.update(LD_PRELOAD=FAULTY_DISK, FAULTY_DISK=control)
        self.submit(self.chance.randint(4, 12))
        for _ in range(self.chance.randint(1, 3)):
            self.pause()
            with open(control, "w") as f:
                f.write(self.chance.choice(["ENOSPC", "EIO", "EROFS"]))
            self.pause(1)
            if self.chance.random() < 0.3:
                self.kill([self.home.coordinator()])
            os.unlink(control)
            if os.path.exists(control + ".hit"):
                self.result["kills"] += 1
                os.unlink(control + ".hit")

    # What must hold.

    def drain(self):
        """With no further command: every job has said that it ended."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: len(set(self.home.stamps.of("end"))) >= self.count, deadline=DRAIN)

    def check_history(self):
        self.drain()
        ended = set(self.home.stamps.of("end"))
        if len(ended) < self.count:
            self.broken("stuck", f"{len(ended)} of {self.count} jobs have ended")
        self.home.run("wait", "--timeout", "60s", code=None)
        jobs = self.home.ps()
        if len(jobs) != self.count:
            self.broken("lost", f"{len(jobs)} jobs of {self.count}")
        for job in jobs.values():
            code = job["index"] % 3
            if (job["state"], job["exit"]) != ("failed" if code else "done", code):
                self.broken("wrong", str(job))
        self.check_starts()
        self.check_leases()

    def check_starts(self):
        live = {}
        starts = []
        for what, job, attempt, *_ in self.home.stamps.lines():
            if what == "start":
                starts.append((job, attempt))
                if attempt <= live.get(job, 0):
                    self.broken("twice", f"attempt {job}.{attempt}")
                live[job] = attempt
            elif live.get(job) != attempt:
                self.broken("twice", f"{job}.{attempt} has worked beside {job}.{live.get(job)}")
        # An attempt may have been recorded and never have reached a keeper: the next one starts.
        if not self.keepers_die and sorted(job for job, _ in starts) != list(
            range(1, self.count + 1)
        ):
            self.broken("twice", f"starts without a keeper's death: {starts}")

    def check_leases(self):
        """Others can take every GPU as soon as nothing of pergpu is there."""
        if not self.on_gpus:
            return
        self.home.run("coordinator", "stop", code=None)
        wait_until(lambda: not self.home.coordinator(), "the coordinator's end")
        folder = self.home.env["PERGPU_LOCKS"]
        for name in os.listdir(folder):
            taken = subprocess.run(["flock", "-n", f"{folder}/{name}", "true"], check=False)
            if taken.returncode:
                self.broken("leases", name)
