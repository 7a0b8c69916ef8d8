"""A real Slurm of one node, private to a folder: key, ports, state, logs.  No root, nothing in /etc.

Its 8 GPUs are links to /dev/null: Slurm hands them out by number, and no program can use them.  All of it listens
on the loopback device only.
"""
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

from harness import alive, read, spared, wait_until

PROGRAMS = {
    "munged": "munge", "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm", "squeue": "slurm-wlm", "scontrol": "slurm-wlm",
}  # fmt: skip
SEARCHED = "/usr/sbin:/usr/bin:/sbin:/bin"

CONFIGURATION = """\
ClusterName=pergpu
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/m/s
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
AccountingStorageType=accounting_storage/none
{settings}
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=16 RealMemory=4000 Gres=gpu:8
PartitionName=p Nodes=n0 Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
DEFAULTS = {"KillWait": 5, "MinJobAge": 300, "MaxArraySize": 10001, "MaxJobCount": 20000}


def why_not():
    """Why there can be no Slurm here; None: there can."""
    missing = {package for name, package in PROGRAMS.items() if not shutil.which(name, path=SEARCHED)}
    if missing:
        return f"Slurm is not installed (packages {', '.join(sorted(missing))})"
    host = socket.gethostname().split(".")[0]
    with contextlib.suppress(OSError):
        if socket.gethostbyname(host).startswith("127."):
            return None
    return f"the name of this machine, {host}, does not lead to it (/etc/hosts)"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class SlurmCluster:
    def __init__(self, **settings):
        self.root = tempfile.mkdtemp(prefix="sl", dir="/tmp")
        os.chmod(self.root, 0o755)
        for folder in ("m", "state", "spool", "dev"):
            os.mkdir(f"{self.root}/{folder}", 0o711 if folder == "m" else 0o755)
        for gpu in range(8):
            os.symlink("/dev/null", f"{self.root}/dev/nvidia{gpu}")
        with open(f"{self.root}/m/key", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as key:
            key.write(os.urandom(1024))
        controller_port, node_port = free_ports(2)

        self.configuration = f"{self.root}/slurm.conf"
        with open(self.configuration, "w") as f:
            f.write(CONFIGURATION.format(
                root=self.root, host=socket.gethostname().split(".")[0], user=pwd.getpwuid(os.getuid()).pw_name,
                controller_port=controller_port, node_port=node_port,
                settings="\n".join(f"{key}={value}" for key, value in {**DEFAULTS, **settings}.items()),
            ))  # fmt: skip
        with open(f"{self.root}/gres.conf", "w") as f:
            f.write(f"AutoDetect=off\nNodeName=n0 Name=gpu File={self.root}/dev/nvidia[0-7]\n")
        self.env = {"SLURM_CONF": self.configuration}
        self.old = set()

    # Daemons.  Each goes into the background by itself.

    def daemon(self, name, *args):
        program = shutil.which(name, path=SEARCHED)
        subprocess.run([program, *args], check=True, timeout=60, env={**os.environ, **self.env},
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip

    def start(self):
        folder = f"{self.root}/m"
        force = ["--force"] if os.getuid() != 0 else []
        self.daemon("munged", f"--key-file={folder}/key", f"--socket={folder}/s", f"--pid-file={folder}/pid",
                    f"--log-file={folder}/log", f"--seed-file={folder}/seed", *force)  # fmt: skip
        self.start_controller("-c")
        self.daemon("slurmd", "-f", self.configuration, "-N", "n0", "-c")
        for file in ("m/pid", "slurmd.pid"):
            spared.add(wait_until(lambda file=file: self.pid(file), file))
        wait_until(self.is_idle, "an idle node of Slurm")

    def start_controller(self, *args):
        """Without -c it goes on with what it had."""
        self.daemon("slurmctld", "-f", self.configuration, *args)
        spared.add(wait_until(lambda: self.pid("slurmctld.pid"), "the controller"))

    def pid(self, file):
        text = read(f"{self.root}/{file}", "").strip()
        return int(text) if text.isdigit() and alive(int(text)) else None

    def end(self, file, how=signal.SIGTERM):
        pid = self.pid(file)
        if pid is None:
            return
        os.kill(pid, how)
        wait_until(lambda: not alive(pid), f"the end of {file}", 30)

    def kill_controller(self):
        self.end("slurmctld.pid", signal.SIGKILL)

    def stop(self):
        with contextlib.suppress(Exception):
            if self.pid("slurmctld.pid"):
                self.clear()
        # The node first: what it has started retries for ever when there is no controller.
        with contextlib.suppress(AssertionError):
            self.end("slurmd.pid")
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if read(f"/proc/{pid}/comm", "").strip() != "slurmstepd":
                continue
            if f"SLURM_CONF={self.configuration}" in read(f"/proc/{pid}/environ", "").split("\0"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for file in ("slurmctld.pid", "m/pid"):
            with contextlib.suppress(AssertionError):
                self.end(file)
        shutil.rmtree(self.root, ignore_errors=True)

    # Its commands.

    def run(self, *args, check=True, timeout=60):
        done = subprocess.run([shutil.which(args[0], path=SEARCHED), *map(str, args[1:])], text=True,
                              capture_output=True, timeout=timeout, env={**os.environ, **self.env})  # fmt: skip
        assert not check or done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
        return done.stdout

    def is_idle(self):
        return self.run("sinfo", "-h", "-o", "%T", check=False).strip() == "idle"

    def queue(self):
        """{"12_3": state} of everything since clear(), ended jobs, too."""
        lines = self.run("squeue", "-h", "-r", "-t", "all", "-o", "%i %T").splitlines()
        return {task: state for task, state in map(str.split, lines) if task not in self.old}

    def open(self):
        """What has not ended."""
        return self.run("squeue", "-h", "-r", "-o", "%i").split()

    def clear(self):
        """Nothing of it runs any more."""
        self.run("scancel", "--full", "--quiet", "--user", str(os.getuid()), check=False)
        self.run("scancel", "--quiet", "--user", str(os.getuid()), check=False)
        wait_until(lambda: not self.open(), "the end of Slurm's jobs", 60)
        wait_until(self.is_idle, "an idle node of Slurm", 60)
        self.old.update(self.queue())
