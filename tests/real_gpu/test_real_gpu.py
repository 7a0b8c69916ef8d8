"""What a real GPU and its driver do with pergpu.  Needs an NVIDIA GPU that nobody else uses; no other test needs one.

    PERGPU_BIN=build/dev/pergpu python3 -m pytest -v -s -p no:cacheprovider tests/real_gpu

What was read is printed (-s): it belongs into docs/measurements.md, with date and hardware.
"""
import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402
from harness import read, wait_until  # noqa: E402

CUDA = f"{sys.executable} {HERE}/cuda.py"
GIB = 1 << 30

pytestmark = pytest.mark.skipif(not shutil.which("nvidia-smi"), reason="needs an NVIDIA GPU")


def smi(what, *fields):
    out = subprocess.run(["nvidia-smi", f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True).stdout
    return [dict(zip(fields, row)) for row in csv.reader(out.splitlines(), skipinitialspace=True)]


def quiet():
    """Nothing of an earlier test is on the GPU."""
    wait_until(lambda: not smi("compute-apps", "pid"), "an idle GPU")


@pytest.fixture
def new_home():
    homes = []

    def make():
        home = harness.Home()
        del home.env["PERGPU_NVML"], home.env["PERGPU_SYS"]
        for name in ("LD_LIBRARY_PATH", "PATH"):
            if name in os.environ:
                home.env[name] = os.environ[name]
        home.env["PATH"] = home.work + ":" + home.env["PATH"]
        if homes:
            home.env["PERGPU_LOCKS"] = homes[0].env["PERGPU_LOCKS"]
        homes.append(home)
        return home

    yield make
    left, bugs, logs = harness.close(homes)
    if bugs:
        print(logs)
    assert not left and not bugs, (left, bugs)
    quiet()


@pytest.fixture
def home(new_home):
    return new_home()


def step(command, **keys):
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {"gpus": 1, **keys}.items())
    return f"[steps.a]\n{lines}shell = {json.dumps(command)}\n"


def log_of(home, selector="@"):
    return home.run("logs", selector, code=None).stdout


def ready(home, selector="@"):
    wait_until(lambda: "ready" in log_of(home, selector), "a program on the GPU")


def gpu(home):
    return home.json("gpus")["gpus"][0]


def show(home, selector="@"):
    return home.json("show", selector)["jobs"][0]


def failed(home, text):
    """The job of a sweep that fails."""
    home.submit(text)
    assert home.wait() == 1
    job = home.only()
    print(job["class"], job["reason"])
    return job


def close_to(ours, theirs, most):
    assert ours is not None and abs(ours - float(theirs)) <= most, (ours, theirs)


def test_the_probe_reads_what_nvidia_smi_reads(home):
    home.submit(step(f"{CUDA} 2 spin 20"))
    ready(home)
    wait_until(lambda: (gpu(home)["busy_percent"] or 0) > 90, "a reading")
    time.sleep(2)  # both read the last moments: at the same load
    ours = gpu(home)
    (theirs,) = smi("gpu", "uuid", "name", "pci.bus_id", "index", "memory.total", "memory.used", "memory.reserved",
                    "driver_version", "persistence_mode", "mig.mode.current", "compute_mode", "power.draw",
                    "temperature.gpu", "clocks.sm", "utilization.gpu", "clocks_event_reasons.active")
    apps = smi("compute-apps", "pid", "used_memory", "process_name")
    print(json.dumps(ours), json.dumps(theirs), json.dumps(apps), sep="\n")
    doctor = home.json("doctor", code=None)
    for finding in doctor["findings"]:
        print(json.dumps(finding))
    assert (ours["uuid"], ours["name"], ours["index"]) == (theirs["uuid"], theirs["name"], int(theirs["index"]))
    assert ours["pci"].lower() == theirs["pci.bus_id"].lower()[-12:]
    close_to(ours["memory_bytes"] / 2**20, theirs["memory.total"], 1)
    close_to(ours["busy_percent"], theirs["utilization.gpu"], 5)
    close_to(ours["power_w"], theirs["power.draw"], 30)
    close_to(ours["temperature_c"], theirs["temperature.gpu"], 3)
    close_to(ours["clock_mhz"], theirs["clocks.sm"], 100)
    assert ours["state"] == "busy"
    pid = show(home)["last_attempt"]["pid"]
    print("job", pid, "holders", ours["holders"])
    home.run("cancel", "--kill", "@")
    home.wait()


def test_a_job_sees_its_gpu_by_uuid_and_by_index_in_pytorch_and_jax(home):
    look = ("import os,torch; p=torch.cuda.get_device_properties(0);"
            "print('torch', torch.__version__, torch.cuda.device_count(), 'GPU-'+str(p.uuid), os.environ['CUDA_VISIBLE_DEVICES'])")
    jax = "import jax, os; print('jax', jax.__version__, jax.devices(), os.environ['CUDA_VISIBLE_DEVICES'])"
    for number, keys in enumerate(({}, {"gpu_env": "index"})):
        home.submit(step(f'{sys.executable} -c "{look}" && {sys.executable} -c "{jax}"', **keys), name=f"s{number}.toml")
        code = home.wait(f"s{number}")
        said = log_of(home, f"s{number}")
        print(said)
        uuid = gpu(home)["uuid"]
        assert code == 0 and f"1 {uuid}" in said and "cuda" in said.lower()


def test_two_homes_take_turns(new_home):
    first, second = new_home(), new_home()
    script = 'echo "start $(date +%s.%N)" >>{0}; ' + CUDA + ' 1 sleep 0.1; echo "end $(date +%s.%N)" >>{0}'
    text = "[grid]\ni = [0, 1, 2, 3]\n" + step(script.format(first.root + "/turns"))
    os.chmod(first.root, 0o777)
    for home in (first, second):
        home.submit(text)
    assert [home.wait() for home in (first, second)] == [0, 0]
    words = [line.split() for line in read(first.root + "/turns").splitlines()]
    assert len(words) == 16 and [line[0] for line in words] == ["start", "end"] * 8
    gaps = [float(b[-1]) - float(a[-1]) for a, b in zip(words[1::2], words[2::2])]
    print("from end to start, two homes in turn, ms:", [round(gap * 1000) for gap in gaps])


def test_from_the_end_of_a_job_to_the_start_of_the_next(home):
    script = 'echo "start $(date +%s.%N)" >>{0}; ' + CUDA + ' {1}; echo "end $(date +%s.%N)" >>{0}'
    for memory in (1, 40):
        turns = f"{home.root}/turns{memory}"
        home.submit("[grid]\ni = [0, 1, 2, 3, 4, 5]\n" + step(script.format(turns, memory)), name=f"m{memory}.toml")
        assert home.wait(f"m{memory}") == 0
        times = [float(line.split()[1]) for line in read(turns).splitlines()]
        print(f"{memory} GiB: from end to start, ms:", [round((b - a) * 1000) for a, b in zip(times[1::2], times[2::2])],
              "jobs of, s:", [round(b - a, 2) for a, b in zip(times[::2], times[1::2])])


def test_a_job_above_its_gpu_memory_is_ended(home):
    assert failed(home, step(f"{CUDA} 6 sleep 30", gpu_memory="4GiB"))["class"] == "gpu-memory"


def test_the_memory_of_a_job_is_measured(home):
    home.submit(step(f"{CUDA} 3 sleep 4"))
    assert home.wait() == 0
    usage = show(home)["usage"]
    print(json.dumps(usage))
    # With the context, 0.5 GiB or so.
    assert 3 * GIB < usage["most"]["gpu_memory_bytes"] < 4 * GIB


def test_memory_that_is_not_there_is_oom_gpu(home):
    line = "import torch; a = [torch.empty(16 << 30, dtype=torch.uint8, device='cuda') for _ in range(20)]"
    assert failed(home, step(f'{sys.executable} -c "{line}"'))["class"] == "oom-gpu"


def test_a_kernel_that_writes_where_nothing_is(home):
    job = failed(home, step(f"{CUDA} 1 bad"))
    assert job["class"] == "exit" and "Xid 31" in job["reason"]
    home.submit(step(f"{CUDA} 1"), name="next.toml")
    assert home.wait("next") == 0


def test_a_kernel_without_an_end_looks_busy_and_a_deadlock_stalls(home):
    home.submit(step(f"{CUDA} 1 spin 1000", stall="5s"), name="spin.toml")
    ready(home, "spin")
    time.sleep(12)
    job = home.only("spin")
    assert job["state"] == "running" and gpu(home)["busy_percent"] > 90
    begun = time.monotonic()
    home.run("cancel", "spin")
    home.wait("spin")
    print("cancelled in s:", round(time.monotonic() - begun, 2))
    assert home.only("spin")["state"] == "cancelled"
    home.submit(step(f"{CUDA} 1 sleep 1000", stall="5s"), name="hang.toml")
    assert home.wait("hang") == 1
    print(home.only("hang")["reason"])
    assert home.only("hang")["class"] == "stall"


def test_a_program_of_others_is_seen_and_avoided(home):
    other = subprocess.Popen([*CUDA.split(), "10", "sleep", "1000"], stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        home.submit(step("true"))
        why = wait_until(lambda: "GPU" in (text := home.run("why", "@").stdout) and text, "why")
        print(why, json.dumps(gpu(home)))
        assert gpu(home)["state"] == "foreign" and str(other.pid) in gpu(home)["why"] + json.dumps(gpu(home)["holders"])
        home.submit(step(f"{CUDA} 4", outsiders="fit", gpu_memory="8GiB"), name="fits.toml")
        assert home.wait("fits") == 0
        total = gpu(home)["memory_bytes"] // GIB
        home.submit(step("true", outsiders="fit", gpu_memory=f"{total - 10}GiB"), name="large.toml")
        print(wait_until(lambda: "needed" in (text := home.run("why", "large").stdout) and text, "what is missing"))
    finally:
        other.kill()
        other.wait()
    assert home.wait() == 0 and home.wait("large") == 0


def files_of(pid):
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return sorted(name for name in found if "nvidia" in name)


def test_what_a_job_leaves_is_ended_with_it(home):
    path = home.root + "/orphan"
    home.submit(step(f"{CUDA} 2 orphan {path}"))
    assert home.wait() == 0
    pid = int(read(path))
    assert not harness.alive(pid)
    home.submit(step("true"), name="next.toml")
    assert home.wait("next") == 0


@pytest.mark.parametrize("how", ["", "exec"])
def test_an_orphan_of_somebody_else_is_named(home, how):
    """Forked from a program that used the GPU and has ended, whose pid the driver goes on listing."""
    path = home.root + "/orphan"
    program = subprocess.Popen([*CUDA.split(), "2", "orphan", path, *how.split()])
    assert program.wait(60) == 0
    pid = int(read(path))
    try:
        time.sleep(1)
        print("program", program.pid, "left", pid, how or "fork", "keeps", files_of(pid),
              smi("gpu", "memory.used"), smi("compute-apps", "pid", "used_memory", "process_name"))
        home.submit(step("true"))
        if how:  # what a program opened for CUDA does not outlive an exec
            assert home.wait() == 0
            return
        words = f"(pid {program.pid}, 2.5 GiB); its device file is open in python3, pid {pid}"
        print(wait_until(lambda: words in (text := home.run("why", "@").stdout) and text, "why it waits"))
    finally:
        os.kill(pid, signal.SIGKILL)
    assert home.wait() == 0
