"""A real Slurm of one or more nodes, private to a folder: key, ports, state, logs.  No root, nothing in /etc.

Each node is a slurmd on this machine.  Its 8 GPUs are links to /dev/null: Slurm hands them out by number, and no
program can use them.  On demand it keeps its accounting in a database of its own.  All of it listens on the loopback
device only.
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
OF_ACCOUNTING = {
    "slurmdbd": "slurmdbd", "mariadbd": "mariadb-server-core", "my_print_defaults": "mariadb-client-core",
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
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
{accounting}
{settings}
{nodes}
PartitionName=p Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=4000 Gres=gpu:8"
NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none"
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={root}/m/s"""
DATABASE_DAEMON = """\
AuthType=auth/munge
AuthInfo=socket={root}/m/s
DbdHost={host}
DbdAddr=127.0.0.1
CommunicationParameters=NoInAddrAny
DbdPort={port}
SlurmUser={user}
PidFile={root}/slurmdbd.pid
LogFile={root}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
"""
USER_OF_DATABASE = """\
CREATE USER slurm@127.0.0.1 IDENTIFIED BY 'x';
GRANT ALL ON slurm_acct_db.* TO slurm@127.0.0.1;
"""
DEFAULTS = {
    "KillWait": 5, "MinJobAge": 300, "MaxArraySize": 10001, "MaxJobCount": 20000,
    "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1",
}  # fmt: skip


def why_not(accounting=False):
    """Why there can be no Slurm here; None: there can."""
    needed = {**PROGRAMS, **(OF_ACCOUNTING if accounting else {})}
    missing = {package for name, package in needed.items() if not shutil.which(name, path=SEARCHED)}
    if missing:
        what = "Slurm" if missing & {*PROGRAMS.values()} else "Slurm's accounting"
        return f"{what} is not installed (packages {', '.join(sorted(missing))})"
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


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def kill(pids, how=signal.SIGKILL):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)


def private(path, flags):
    return os.open(path, flags, 0o600)


class SlurmCluster:
    def __init__(self, nodes=1, accounting=False, **settings):
        """Its nodes are n0, n1 and so on; settings are those of slurm.conf."""
        self.nodes = [f"n{i}" for i in range(nodes)]
        self.root = tempfile.mkdtemp(prefix="sl", dir="/tmp")
        os.chmod(self.root, 0o755)
        os.mkdir(f"{self.root}/m", 0o711)
        for folder in ("state", "dev", *(f"spool.{node}" for node in self.nodes)):
            os.mkdir(f"{self.root}/{folder}", 0o755)
        for gpu in range(8):
            os.symlink("/dev/null", f"{self.root}/dev/nvidia{gpu}")
        with open(f"{self.root}/m/key", "wb", opener=private) as key:
            key.write(os.urandom(1024))
        here = {"root": self.root, "host": socket.gethostname().split(".")[0], "user": pwd.getpwuid(os.getuid()).pw_name}
        controller_port, self.accounting_port, self.database_port, *node_ports = free_ports(3 + nodes)
        self.accounting = accounting
        self.database = None
        if accounting:
            with open(f"{self.root}/slurmdbd.conf", "w", opener=private) as f:
                f.write(DATABASE_DAEMON.format(**here, port=self.accounting_port, database_port=self.database_port))

        self.configuration = f"{self.root}/slurm.conf"
        with open(self.configuration, "w") as f:
            f.write(CONFIGURATION.format(
                **here, controller_port=controller_port,
                accounting=(ACCOUNTING if accounting else NO_ACCOUNTING).format(**here, port=self.accounting_port),
                nodes="\n".join(NODE.format(**here, name=name, port=port) for name, port in zip(self.nodes, node_ports)),
                names=",".join(self.nodes),
                settings="\n".join(f"{key}={value}" for key, value in {**DEFAULTS, **settings}.items()),
            ))  # fmt: skip
        with open(f"{self.root}/gres.conf", "w") as f:
            f.write("AutoDetect=off\n")
            for node in self.nodes:
                f.write(f"NodeName={node} Name=gpu File={self.root}/dev/nvidia[0-7]\n")
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
        if self.accounting:
            self.start_accounting()
        self.start_controller("-c")
        spared.add(wait_until(lambda: self.pid("m/pid"), "munged"))
        self.start_nodes()
        wait_until(self.is_idle, "idle nodes of Slurm")

    def start_accounting(self):
        folder, user = f"{self.root}/db", f"--user={pwd.getpwuid(os.getuid()).pw_name}"
        self.daemon("mariadb-install-db", "--no-defaults", user, f"--datadir={folder}", "--skip-test-db",
                    "--auth-root-authentication-method=normal")  # fmt: skip
        with open(f"{self.root}/user.sql", "w") as f:
            f.write(USER_OF_DATABASE)
        call = [
            shutil.which("mariadbd", path=SEARCHED), "--no-defaults", user, f"--datadir={folder}",
            f"--socket={self.root}/db.sock", f"--pid-file={self.root}/db.pid", "--bind-address=127.0.0.1",
            f"--port={self.database_port}", "--skip-name-resolve", "--innodb-buffer-pool-size=64M",
            f"--init-file={self.root}/user.sql",
        ]  # fmt: skip
        with open(f"{self.root}/db.log", "w") as log:  # it does not go into the background by itself
            self.database = subprocess.Popen(call, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        spared.add(self.database.pid)
        wait_until(lambda: listens(self.database_port), "the database")
        self.daemon("slurmdbd")
        spared.add(wait_until(lambda: self.pid("slurmdbd.pid"), "the daemon of Slurm's accounting"))
        wait_until(lambda: listens(self.accounting_port), "Slurm's accounting")

    def start_controller(self, *args):
        """Without -c it goes on with what it had."""
        self.daemon("slurmctld", "-f", self.configuration, *args)
        spared.add(wait_until(lambda: self.pid("slurmctld.pid"), "the controller"))

    def start_nodes(self):
        for node in self.nodes:
            self.daemon("slurmd", "-f", self.configuration, "-N", node, "-c")
        for file in self.node_pids():
            spared.add(wait_until(lambda file=file: self.pid(file), file))

    def node_pids(self):
        return [f"slurmd.{node}.pid" for node in self.nodes]

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

    def kill_nodes(self):
        """As if their machines had lost their power: nothing there says another word, and the controller knows."""
        for file in self.node_pids():
            self.end(file, signal.SIGKILL)
        there = self.step_daemons()
        there += [pid for pid, environment in self.users() if any(one.startswith("SLURM_JOB_ID=") for one in environment)]
        kill(there, signal.SIGSTOP)
        kill(there)
        wait_until(lambda: not any(map(alive, there)), "the end of what ran on the nodes")
        self.run("scontrol", "update", f"NodeName={','.join(self.nodes)}", "State=DOWN", "Reason=power")

    def users(self):
        """[(pid, environment)] of what knows this Slurm."""
        found = ((int(pid), read(f"/proc/{pid}/environ", "").split("\0")) for pid in os.listdir("/proc") if pid.isdigit())
        return [(pid, environment) for pid, environment in found if f"SLURM_CONF={self.configuration}" in environment]

    def step_daemons(self):
        return [pid for pid, _ in self.users() if read(f"/proc/{pid}/comm", "") == "slurmstepd\n"]

    def stop(self):
        with contextlib.suppress(Exception):
            if self.pid("slurmctld.pid"):
                self.clear()
        # The nodes first: what they have started retries for ever when there is no controller.
        for file in self.node_pids():
            with contextlib.suppress(AssertionError):
                self.end(file)
        kill(self.step_daemons())
        for file in ("slurmctld.pid", "slurmdbd.pid", "m/pid"):
            with contextlib.suppress(AssertionError):
                self.end(file)
        if self.database:
            self.database.kill()
            self.database.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    # Its commands.

    def run(self, *args, check=True, timeout=60):
        done = subprocess.run([shutil.which(args[0], path=SEARCHED), *map(str, args[1:])], text=True,
                              capture_output=True, timeout=timeout, env={**os.environ, **self.env})  # fmt: skip
        assert not check or done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
        return done.stdout

    def is_idle(self):
        """All its nodes are."""
        return self.run("sinfo", "-h", "-N", "-o", "%T", check=False).split() == ["idle"] * len(self.nodes)

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
        wait_until(self.is_idle, "idle nodes of Slurm", 60)
        self.old.update(self.queue())
