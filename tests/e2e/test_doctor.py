"""`pergpu doctor`: what it sees of machines made of the fake NVML and of a folder of files."""
import fcntl
import json
import os
import re
import resource
import subprocess

import pytest

from harness import PERGPU, alive, read, wait_until
from test_documents import page
from test_gpu_health import STEP, gpus, world  # noqa: F401: fixtures
from test_gpus import grid, uuid

STATES = ("problem", "warning", "unknown", "note", "ok")


class Machine:
    """Files that stand in for those of the machine."""

    def __init__(self, home):
        self.root = home.root + "/machine"
        os.mkdir(self.root)
        home.env["PERGPU_ROOT"] = self.root

    def file(self, path, text):
        path = f"{self.root}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)


@pytest.fixture
def machine(home):
    return Machine(home)


def doctor(home, **options):
    done = home.run("doctor", "--json", code=None, **options)
    reply = json.loads(done.stdout)
    found = {state: sum(f["state"] == state for f in reply["findings"]) for state in STATES}
    assert reply["schema"] == 1 and reply["counts"] == found
    assert reply["fine"] == (found["problem"] + found["warning"] == 0)
    assert done.returncode == (0 if reply["fine"] else 1) and done.stderr == ""
    return reply["findings"]


def of(findings, check):
    return [finding for finding in findings if finding["check"] == check]


def only(findings, check, state):
    (finding,) = of(findings, check)
    assert finding["state"] == state, finding
    return finding


def test_without_a_gpu_it_says_so_and_starts_no_coordinator(home, machine):
    findings = doctor(home)
    assert only(findings, "driver", "note")["what"] == "no NVIDIA GPU"
    assert of(findings, "gpu") == [] and only(findings, "coordinator", "ok")
    assert home.path in only(findings, "home", of(findings, "home")[0]["state"])["what"]
    assert not home.coordinator() and not os.path.exists(home.path + "/pergpu.db")


def test_a_test_job_runs_outside_the_home(home, machine):
    temporary = home.root + "/tmp"
    os.mkdir(temporary)
    home.env["TMPDIR"] = temporary
    assert "a test job took" in only(doctor(home), "job", "ok")["what"]
    assert os.listdir(temporary) == [] and not os.path.exists(home.path + "/pergpu.db")
    home.env["TMPDIR"] = home.root + "/none"
    assert home.root + "/none" in only(doctor(home), "job", "problem")["what"]


def test_the_package_of_another_version_is_named(home, machine):
    package = home.root + "/packages/pergpu"
    os.makedirs(package)
    with open(package + "/__init__.py", "w") as f:
        f.write("__version__ = '0.0.9'\n")
    home.env["PYTHONPATH"] = home.root + "/packages"
    finding = only(doctor(home), "python", "warning")
    assert "has the package of pergpu 0.0.9" in finding["what"] and "pip install" in finding["mend"]


def test_a_gpu_on_the_bus_without_a_driver_is_a_problem(home, machine):
    machine.file("sys/bus/pci/devices/0000:65:00.0/vendor", "0x10de\n")
    machine.file("sys/bus/pci/devices/0000:65:00.0/class", "0x030200\n")
    finding = only(doctor(home), "driver", "problem")
    assert "1 NVIDIA GPU" in finding["what"] and "modprobe nvidia" in finding["mend"]


def test_healthy_gpus_and_versions_are_told(gpus, machine):
    gpus.world.show(8, driver="570.1.2", cuda=12080)
    machine.file("dev/kmsg", "")
    findings = doctor(gpus)
    assert only(findings, "driver", "ok")["what"] == "NVIDIA driver 570.1.2, CUDA up to 12.8"
    assert only(findings, "gpu", "ok")["what"] == "8 GPUs: 8 × Fake GPU (80.0 GiB), all healthy"
    assert only(findings, "xid", "ok") and only(findings, "persistence", "ok")
    assert only(findings, "leases", of(findings, "leases")[0]["state"])
    assert not gpus.coordinator()


def test_a_driver_update_names_both_versions(gpus, machine):
    gpus.world.show(errors={"nvmlInit_v2": 18}, library="550.90.07")
    machine.file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n")
    finding = only(doctor(gpus), "driver", "problem")
    assert "library is 550.90.07, the loaded kernel module 550.54.15" in finding["what"]
    assert "reboot" in finding["mend"]


def test_a_lost_gpu_and_one_that_waits_for_a_reset_are_named(gpus, machine):
    gpus.world.show([{}, {"lost": True}, {"repair_pending": True}])
    lost, waiting = of(doctor(gpus), "gpu")
    assert lost["state"] == "problem" and lost["what"].startswith("gpu1: the GPU is lost")
    assert waiting["state"] == "warning" and "--gpu-reset -i 2" in waiting["mend"]


def test_xids_in_the_kernels_log_are_told_with_their_gpu(gpus, machine):
    gpus.world.show([{}, {"pci": "00000000:65:00.0"}])
    line = "4,{0},{0},-;NVRM: Xid (PCI:0000:65:00): {1}, pid=4711, name=python3\n"
    machine.file("dev/kmsg", line.format(1, 79) + line.format(2, 31))
    program, broken = of(doctor(gpus), "xid")
    assert program["state"] == "note" and program["what"].startswith("gpu1: Xid 31: ")
    assert broken["state"] == "warning" and broken["what"].startswith("gpu1: Xid 79: ")
    assert "reboot" in broken["mend"]


def test_settings_of_gpus_are_told(gpus, machine):
    gpus.world.show([{"mig": True}, {"persistent": False}, {"compute_mode": 2}])
    findings = doctor(gpus)
    assert "nvidia-smi -i 0 -mig 0" in only(findings, "mig", "warning")["mend"]
    assert "gpu1" in only(findings, "persistence", "note")["what"]
    assert "nvidia-smi -i 2 -c DEFAULT" in only(findings, "compute-mode", "problem")["mend"]


def test_a_driver_that_hangs_does_not_hang_it(gpus, machine):
    gpus.world.show(hang=["nvmlInit_v2"])
    assert "did not answer" in only(doctor(gpus), "driver", "problem")["what"]


def test_a_quarantine_is_told_by_the_coordinator_which_stays_as_it_is(gpus, machine):
    gpus.env["XID"] = "79"
    gpus.submit(grid("train", 1, STEP + "\nretries = 1"))
    assert gpus.wait() == 0
    pid = gpus.json("coordinator", "status")["pid"]
    findings = doctor(gpus)
    finding = only(findings, "gpu", "warning")
    assert finding["what"].startswith("gpu0: quarantined: ") and "Xid 79" in finding["what"]
    assert finding["mend"] == "pergpu gpus --release 0"
    assert f"running (pid {pid})" == only(findings, "coordinator", "ok")["what"]
    assert alive(pid) and gpus.json("coordinator", "status")["pid"] == pid


def test_a_lease_of_ours_is_fine(gpus, machine):
    with open(f"{gpus.world.root}/locks/{uuid(1)}", "w") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        leases = of(doctor(gpus), "leases")
    # PERGPU_LOCKS of the tests is worth a note; there is none about the GPU.
    assert [finding["state"] for finding in leases] == ["note"] and "gpu1" not in leases[0]["what"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_another_program_of_another_user_that_has_a_lease_is_named(gpus, machine):
    path = f"{gpus.world.root}/locks/{uuid(1)}"
    with open(path, "w"):
        os.chmod(path, 0o644)
    other = subprocess.Popen(["flock", path, "sleep", "1000"], user=12345, group=12345, extra_groups=[])
    try:
        inode = f":{os.stat(path).st_ino} "
        wait_until(lambda: inode in read("/proc/locks"), "the lock")
        words = [finding["what"] for finding in of(doctor(gpus), "leases")]
        assert f"gpu1: locked by flock, process {other.pid} of uid 12345, which isn't pergpu" in words
    finally:
        subprocess.run(["pkill", "-P", str(other.pid)], check=True)
        other.wait()


def test_a_foreign_process_is_named(gpus, machine):
    other = subprocess.Popen(["sleep", "1000"])
    try:
        gpus.world.show([{}, {"processes": [{"pid": other.pid, "memory_bytes": 1 << 30}]}])
        (finding,) = [f for f in of(doctor(gpus), "outsiders") if f["what"].startswith("gpu1")]
        assert finding["state"] == "note"
    finally:
        other.kill()
        other.wait()


def test_limits_of_the_shell_that_end_jobs_are_told(home, machine):
    def limit():
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, hard))

    words = [finding["what"] for finding in of(doctor(home, preexec_fn=limit), "limits")]
    assert "files of at most 1.0 GiB (ulimit -f)" in words


def test_a_logout_that_ends_jobs_is_told_and_lingering_alone_does_not_help(home, machine):
    machine.file("run/systemd/system/x", "")
    machine.file("etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n")
    machine.file("proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n")
    finding = only(doctor(home), "logout", "warning")
    assert "coordinator enable" in finding["mend"] and "enable-linger" in finding["mend"]
    machine.file("proc/self/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/x.service\n")
    assert "enable-linger" in only(doctor(home), "logout", "warning")["mend"]


def test_what_coordinator_enable_wrote_is_found_and_looked_at(home, machine):
    machine.file("run/systemd/system/x", "")
    places = {"XDG_RUNTIME_DIR": home.root + "/run", "XDG_CONFIG_HOME": home.root + "/config"}
    machine.file("../run/systemd/private", "")
    assert "nothing starts" in only(doctor(home, env=places), "reboot", "note")["what"]
    home.run("coordinator", "enable", env=places)
    assert "is not enabled" in only(doctor(home, env=places), "reboot", "note")["what"]
    unit = home.root + "/config/systemd/user/pergpu.service"
    text = read(unit)
    with open(unit, "w") as f:
        f.write(text.replace(os.path.realpath(PERGPU), "/gone/pergpu"))
    assert "/gone/pergpu" in only(doctor(home, env=places), "reboot", "warning")["what"]


def test_the_list_of_gpus_of_the_shell_is_judged(gpus, machine):
    finding = only(doctor(gpus, env={"CUDA_VISIBLE_DEVICES": "1"}), "devices", "note")
    assert "1 of 2 GPUs" in finding["what"]
    assert only(doctor(gpus, env={"CUDA_VISIBLE_DEVICES": "7"}), "devices", "problem")


def test_people_read_the_same_and_nothing_raw(gpus, machine):
    gpus.world.show([{"name": "Evil\x1b]0;title\x07"}])
    text = gpus.run("doctor", code=None).stdout
    assert "\x1b" not in text and "Evil\\x1b]0;title\\x07" in text
    gpus.world.show([{}, {"lost": True}])
    text = gpus.run("doctor", code=1).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("problem  gpu ")]
    assert "gpu1: the GPU is lost" in line
    assert re.search(r"^ +why +no job starts on it", text, re.M)
    assert re.search(r"^ +fix +sudo reboot", text, re.M)
    assert re.search(r"^\d+ problems?, ", text.splitlines()[-1])
    assert "\x1b[" in gpus.run("doctor", "--color=always", code=1).stdout


def test_its_json_is_what_its_schema_says(gpus, machine):
    pytest.importorskip("jsonschema")
    from schemas import validator as validator_of

    validator = validator_of("doctor")
    validator.check_schema(validator.schema)
    gpus.world.show([{}, {"lost": True}, {"mig": True}])
    validator.validate(json.loads(gpus.run("doctor", "--json", code=1).stdout))
    gpus.env["PERGPU_NVML"] = gpus.root + "/none.so"
    reply = json.loads(gpus.run("doctor", "--json", code=None).stdout)
    validator.validate(reply)
    reply["findings"][0]["state"] = "perhaps"
    assert not validator.is_valid(reply)


def test_every_check_is_in_its_table(gpus, machine):
    tables = page("docs/doctor.md").partition("\n## GPUs\n")[2]
    listed = re.findall(r"^\| `([a-z-]+)` \|", tables, re.M)
    source = "".join(page(f"src/cli/doctor/doctor_{part}_checks.cc") for part in ("gpu", "machine", "own"))
    checks = [name for table in re.findall(r"Check k\w+Checks\[\] = \{(.*?)\n\};", source, re.S)
              for name in re.findall(r'\{"([a-z-]+)"', table)]
    assert listed == checks and len(set(checks)) == len(checks) > 20
    assert {finding["check"] for finding in doctor(gpus)} <= set(checks)
