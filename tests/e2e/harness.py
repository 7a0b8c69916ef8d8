"""A private pergpu for each test, and what tests of the whole program share.

A Home has a PERGPU_HOME, a work folder and a lease folder of its own under a short path (socket
paths are limited to 107 bytes).  This process is a child sub-reaper: whatever a test leaves behind
stays its descendant, so close() sees every process, however it detached itself, and fails the test
when one is left.

As init would, it takes the ended processes that it inherits, for pergpu and the fake NVML look for
processes in /proc.

Jobs tell what they did by lines appended to one file ("stamps"): one write of a short line with
O_APPEND is atomic, so the order of the lines is an order of events and no clock is needed.  Jobs
that must live until the test has looked wait at a gate: a shared flock on a file that the test
holds exclusively.
"""
import atexit
import contextlib
import ctypes
import fcntl
import functools
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

PERGPU = os.environ.get("PERGPU_BIN", "")
FAKE_NVML = os.environ.get("FAKE_NVML", "")
LONG = os.environ.get("PERGPU_LONG") == "1"
DEADLINE = 60  # seconds: only a hanging test needs it

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

spared = set()  # pids of daemons that outlive homes: neither they nor what is below them is looked at
started = set()  # pids of what tests start themselves: subprocess waits for them
starting = threading.Lock()


def reap_orphans():
    """As init.  What subprocess starts outside of Home.start() stays in our session."""
    ours = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with starting:
            for pid in map(int, read(ours).split()):
                stat = read(f"/proc/{pid}/stat", "").rpartition(")")[2].split()
                inherited = pid not in started and stat and int(stat[3]) != os.getsid(0)
                if inherited and stat[0] == "Z":
                    os.waitpid(pid, 0)
        time.sleep(0.02)


# $1: seconds it works, $2: exit code; first it waits at the gate.
STAMP = """#!/bin/sh
echo "start $PERGPU_JOB $PERGPU_ATTEMPT $$ ${CUDA_VISIBLE_DEVICES:--} $PERGPU_STEP" >>"$STAMPS"
flock -s "$GATE" true
[ "${1:-0}" = 0 ] || sleep "$1"
echo "end $PERGPU_JOB $PERGPU_ATTEMPT $$ ${CUDA_VISIBLE_DEVICES:--} $PERGPU_STEP" >>"$STAMPS"
exit "${2:-0}"
"""


def wait_until(happened, what="it", deadline=DEADLINE):
    """For what no event tells: looks every 10 ms until `happened()` is true, and returns that."""
    end = time.monotonic() + deadline
    while True:
        value = happened()
        if value:
            return value
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def read(path, otherwise=None):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        if otherwise is None:
            raise
        return otherwise


@functools.cache
def for_every_user():
    """A folder with the programs and the fake NVML: the build may lie where others cannot go."""
    folder = tempfile.mkdtemp(prefix="pg", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    for path in [*glob.glob(PERGPU + "*"), FAKE_NVML]:
        if os.path.isfile(path):
            shutil.copy(path, folder)
    return folder


def stat_of(pid):
    """(state, parent, command) of a process; None: there is none."""
    text = read(f"/proc/{pid}/stat", "")
    if not text:
        return None
    name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    return rest[0], int(rest[1]), name


def alive(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def descendants(root=None):
    """Living processes below `root` (this process): {pid: command line}."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := stat_of(entry)):
            parents[int(entry)] = stat
    found, work = {}, [root or os.getpid()]
    while work:
        parent = work.pop()
        for pid, (state, its_parent, name) in parents.items():
            if its_parent == parent and pid not in found and pid not in spared:
                work.append(pid)
                if state not in "ZX":
                    found[pid] = read(f"/proc/{pid}/cmdline", "").replace("\0", " ") or name
    return found


def fill(folder):
    """Takes all the room of its file system, by a file "filler"."""
    with open(folder + "/filler", "wb", buffering=0) as f:
        try:
            while f.write(b"\0" * 4096):
                pass
        except OSError:
            pass


class Stamps:
    def __init__(self, path):
        self.path = path

    def lines(self):
        """[(what, job, attempt, pid, gpus, step)] in the order in which they happened.  Of whole lines:
        one that crosses a page may be seen when only its begin is there."""
        out = []
        text = read(self.path, "")
        for line in text[: text.rfind("\n") + 1].splitlines():
            what, job, attempt, pid, gpus, step = (line.split() + ["-"] * 6)[:6]
            out.append((what, int(job), int(attempt), int(pid), gpus, step))
        return out

    def count(self, what):
        return sum(line[0] == what for line in self.lines())

    def of(self, what, field=1):
        return [line[field] for line in self.lines() if line[0] == what]

    def most_at_once(self, step=None):
        live = most = 0
        for line in self.lines():
            if step in (None, line[5]):
                live += {"start": 1, "end": -1}.get(line[0], 0)
            most = max(most, live)
        return most

    def overlaps(self, field=4):
        """Pairs of attempts that lived at once and had the same value in a field (the GPU)."""
        holder, found = {}, []
        for line in self.lines():
            if line[0] == "start":
                if line[field] in holder:
                    found.append((holder[line[field]], line))
                holder[line[field]] = line
            elif line[0] == "end":
                holder.pop(line[field], None)
        return found


class Home:
    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="pg", dir="/tmp")
        os.chmod(self.root, 0o755)
        self.path, self.work = self.root + "/h", self.root + "/w"
        for folder in (self.path, self.work, self.root + "/l"):
            os.mkdir(folder, 0o700 if folder == self.path else 0o755)
        os.chmod(self.root + "/l", 0o1777)
        self.stamps = Stamps(self.root + "/stamps")
        self.gate = self.root + "/gate"
        open(self.gate, "w").close()
        self.gate_holder = None
        self.script("stamp", STAMP)
        self.env = {
            "PATH": self.work + ":/usr/bin:/bin",
            "HOME": self.root,
            "LANG": "C.UTF-8",
            "PERGPU_HOME": self.path,
            "PERGPU_LOCKS": self.root + "/l",
            "PERGPU_NVML": self.root + "/no-such-nvml.so",
            "PERGPU_SYS": self.root + "/no-such-sys",  # the machine may have GPUs of AMD
            "PERGPU_MPS_CONTROL": "",  # the machine may have one
            "STAMPS": self.stamps.path,
            "GATE": self.gate,
            # The deciding thread never waits for the disk.  There is room for builds without optimization
            # on a busy machine, where a turn that starts a process waits until the child has had a core.
            "PERGPU_TURN_LIMIT_MS": "1000" if "ASAN_OPTIONS" in os.environ else "250",
        }
        # Where pergpu was built with a sanitizer: what coordinator and keepers say must be seen, too.
        os.mkdir(self.root + "/sanitizer", 0o777)
        os.chmod(self.root + "/sanitizer", 0o777)
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            where = f"log_path={self.root}/sanitizer/{name}"
            self.env[name] = ":".join(filter(None, [os.environ.get(name), where]))
        self.started = []
        self.program = PERGPU
        self.user = {}  # uid and gid for subprocess: another user

    # Files and gates.

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def script(self, name, text):
        return self.file(name, text, 0o755)

    def close_gate(self):
        self.gate_holder = open(self.gate, "w")
        fcntl.flock(self.gate_holder, fcntl.LOCK_EX)

    def open_gate(self):
        if self.gate_holder:
            self.gate_holder.close()
        self.gate_holder = None

    # Running pergpu.

    def become(self, uid):
        """From here on everything is asked by this user."""
        self.program = for_every_user() + "/pergpu"
        self.user = {"user": uid, "group": uid, "extra_groups": []}

    def start(self, *args, env=None, cwd=None, **options):
        """A running pergpu, ended with the home."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with starting:
            process = subprocess.Popen(
                [self.program, *map(str, args)],
                env={**self.env, **(env or {})},
                cwd=cwd or self.work,
                text=True,
                errors="replace",
                **{**pipes, **self.user, **options},
            )
            started.add(process.pid)
        self.started.append(process)
        return process

    def run(self, *args, code=0, **options):
        """pergpu to its end, which must have this exit code (None: any)."""
        process = self.start(*args, **options)
        out, err = process.communicate(timeout=4 * DEADLINE)
        shown = f"pergpu {' '.join(map(str, args))}: exit {process.returncode}\n{out}{err}"
        assert code is None or process.returncode == code, shown
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def json(self, *args, **options):
        reply = json.loads(self.run(*args, "--json", **options).stdout)
        assert reply["schema"] == 1
        return reply

    def submit(self, text, *args, name="sweep.toml", **options):
        """The submit's reply for a sweep of this text."""
        return self.json("submit", self.file(name, text), *args, **options)

    def ps(self, *selectors):
        """{"RUN/STEP": job} of these or of all jobs; once-steps are "_once/STEP"."""
        jobs = self.json("ps", "-a", *selectors)["jobs"]
        return {f"{job['run'] or '_once'}/{job['step']}": job for job in jobs if not job["replaced"]}

    def only(self, selector="@"):
        (job,) = self.ps(selector).values()
        return job

    def states(self, *selectors):
        return {name: job["state"] for name, job in self.ps(*selectors).items()}

    def wait(self, *selectors, code=None):
        return self.run("wait", *selectors, code=code).returncode

    def until_running(self, count=1):
        wait_until(lambda: self.stamps.count("start") >= count, f"{count} started jobs")

    # The processes behind it.

    def processes(self, words):
        """Pids of our descendants whose command line has these words and that know this home."""
        found = {pid: stat_of(pid) for pid, line in descendants().items() if words in line}
        # Between fork and exec a child looks like its parent: it is another program in a moment.
        found = [pid for pid, stat in found.items() if stat and stat[1] not in found]
        return [pid for pid in found if self.path in read(f"/proc/{pid}/environ", "")]

    def coordinator(self):
        """Its pid, or None."""
        return next(iter(self.processes("coordinator run")), None)

    def keepers(self):
        return self.processes("pergpu-keeper --listen-fd")

    def kill_coordinator(self):
        pid = wait_until(self.coordinator, "a coordinator")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "its end")
        return pid

    def coordinator_log(self):
        return read(self.path + "/coordinator.log", "")

    def stop(self):
        """Ends what the test started."""
        self.open_gate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.coordinator():
                self.run("coordinator", "stop", "--kill", code=None)
        ended, self.started = self.started, []
        for process in ended:
            if process.poll() is None:
                process.kill()
            process.communicate()


def groups_of(home):
    """Folders of the control groups of this home (src/os/process/cgroup.h)."""
    hashed = 14695981039346656037
    for byte in home.path.encode():
        hashed = (hashed ^ byte) * 1099511628211 % (1 << 64)
    found = []
    for line in read("/proc/self/mountinfo").splitlines():
        if " - cgroup" in line:
            found += glob.glob(f"{line.split()[4]}/**/pergpu-{hashed:016x}-k*", recursive=True)
    return found


def close(homes):
    """Ends the homes; returns what is left running {pid: command line}, bugs found, and the logs."""
    for home in homes:
        home.stop()
    left = {}

    def all_gone():
        left.clear()
        left.update(descendants())
        return not left

    for deadline in (5, 15):
        with contextlib.suppress(AssertionError):
            wait_until(all_gone, deadline=deadline)
        for home in homes if left else ():  # one that keepers have revived waited for the lock until now
            home.stop()
    remains = dict(left) if not all_gone() else {}
    while not all_gone():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for folder in (folder for home in homes for folder in groups_of(home)):
        with contextlib.suppress(OSError):  # of keepers that the test killed
            os.rmdir(folder)
    logs = "".join(home.coordinator_log() for home in homes)
    folders = [home.root + "/sanitizer" for home in homes]
    reports = [f"{folder}/{name}" for folder in folders for name in os.listdir(folder)]
    bugs = "".join(map(read, reports)) + "".join(re.findall("(?m)^pergpu: bug.*", logs))
    for home in homes:
        shutil.rmtree(home.root, ignore_errors=True)
    return remains, bugs, logs


def grid(step, count, extra="", header=""):
    """A sweep of `count` runs (parameter i) of one step."""
    return f"{header}\n[grid]\ni = {list(range(count))}\n[steps.{step}]\n{extra}\n"


def strip_colours(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


threading.Thread(target=reap_orphans, daemon=True).start()
