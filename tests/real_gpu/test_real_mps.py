"""What NVIDIA's MPS does with pergpu, on a real GPU.  What tests/fake_mps takes for granted is tried here.

    PERGPU_BIN=build/dev/pergpu python3 -m pytest -v -s -p no:cacheprovider tests/real_gpu
"""
import json
import re
import shutil
import subprocess
import sys
import time

import pytest
from test_real_gpu import CUDA, gpu, new_home, show, smi, step  # noqa: F401: a fixture

from harness import read, wait_until

pytestmark = pytest.mark.skipif(not shutil.which("nvidia-cuda-mps-control"), reason="needs an NVIDIA GPU with MPS")

WORK = "spins 16 0.5"  # kernels of half a second: 8 s


@pytest.fixture
def home(new_home):  # noqa: F811
    home = new_home()
    del home.env["PERGPU_MPS_CONTROL"]
    yield home


def daemons():
    found = subprocess.run(["pgrep", "-af", "nvidia-cuda-mps"], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if "pgrep" not in line]


def until_gone(home):
    wait_until(lambda: not daemons(), "the daemon's end")
    wait_until(lambda: gpu(home)["state"] == "free", "a free GPU")


def jobs(*words, share=0.25, **keys):
    """A job for each of them, beside each other."""
    lines = "".join(f"  {number}) exec {CUDA} {word};;\n" for number, word in enumerate(words))
    script = f"case $PERGPU_PARAM_I in\n{lines}esac"
    return f"[grid]\ni = {json.dumps(list(range(len(words))))}\n" + step(script, gpus=share, sharing="mps", **keys)


def all_of(home, selector="@"):
    return home.json("show", selector)["jobs"]


def log_of(home, selector="@"):
    return "".join(read(job["log"], "") for job in all_of(home, selector))


def until_ready(home, count):
    wait_until(lambda: log_of(home).count("ready") >= count, f"{count} programs on the GPU")


def ask(home, *words):
    """The daemon of the first job's GPU, by NVIDIA's program."""
    attempt = json.loads(read(all_of(home)[0]["out"] + "/attempt.json"))
    folder = attempt["environment"]["set"]["CUDA_MPS_PIPE_DIRECTORY"]
    told = subprocess.run(["nvidia-cuda-mps-control"], input=" ".join(words) + "\n", capture_output=True, text=True,
                          env={**home.env, "CUDA_MPS_PIPE_DIRECTORY": folder})
    print(" ".join(words), "->", repr(told.stdout), told.stderr, told.returncode)
    return told.stdout.split()


def states(home):
    return {int(job["index"]): job["state"] for job in all_of(home)}


def test_jobs_are_clients_of_one_daemon_that_goes_with_the_last(home):
    begun = time.monotonic()
    home.submit(jobs(*["1 " + WORK] * 4))
    until_ready(home, 4)
    print("four programs on the GPU after s:", round(time.monotonic() - begun, 2))
    (server,) = ask(home, "get_server_list")
    clients = set(map(int, ask(home, "get_client_list", server)))
    ask(home, "ps")
    assert clients == {job["last_attempt"]["pid"] for job in all_of(home)}
    print(json.dumps(gpu(home)), smi("compute-apps", "pid", "used_memory", "process_name"), log_of(home), sep="\n")
    assert gpu(home)["state"] == "busy" and not [one for one in gpu(home)["holders"] if one.get("foreign")]
    assert not any(job["warnings"] for job in all_of(home))
    assert home.wait() == 0
    begun = time.monotonic()
    until_gone(home)
    print("the daemon has gone after s:", round(time.monotonic() - begun, 2))
    counts = {int(count) for count in re.findall(r"(\d+) multiprocessors", log_of(home))}
    print("multiprocessors of a job with gpus = 0.25:", counts)
    print([(job["started_at"], job["ended_at"]) for job in all_of(home)])


@pytest.mark.parametrize("first, how", [("", ""), ("", "--kill"), ("term", "")])
def test_who_is_cancelled_in_a_kernel_takes_nobody_with_it(home, first, how):
    home.submit(jobs(f"1 {first} spin 1000", "1 " + WORK, "1 " + WORK, grace="4s"))
    until_ready(home, 3)
    time.sleep(1)
    begun = time.monotonic()
    home.run("cancel", *how.split(), "1")
    wait_until(lambda: home.only("1")["state"] == "cancelled", "a cancelled job")
    print("cancelled in s:", round(time.monotonic() - begun, 2))
    home.wait()
    print(log_of(home))
    assert states(home) == {0: "cancelled", 1: "done", 2: "done"}
    assert {len(job["attempts"]) for job in all_of(home)} == {1}
    until_gone(home)


def test_what_breaks_its_context_breaks_the_others_once(home):
    home.submit(jobs("1 sleep 2 bad", "1 " + WORK, "1 " + WORK, retries=0))
    assert home.wait() == 1
    for job in all_of(home):
        print(job["index"], [(one["class"], one["reason"]) for one in job["attempts"]])
    assert states(home) == {0: "failed", 1: "done", 2: "done"}
    assert {job["attempts"][0]["class"] for job in all_of(home)} == {"neighbour"}
    assert show(home, "1")["attempts"][1]["class"] == "exit"
    until_gone(home)


def test_more_memory_than_was_promised_is_not_to_be_had(home):
    line = "import torch; a = torch.empty(3 << 30, dtype=torch.uint8, device='cuda')"
    home.submit(step(f'exec {sys.executable} -c "{line}"', gpus=0.25, sharing="mps", gpu_memory="2GiB", retries=0))
    assert home.wait() == 1
    print(show(home)["reason"])
    assert show(home)["class"] == "oom-gpu"
    until_gone(home)


def test_a_program_that_passes_the_daemon_by_is_told_of(home):
    home.submit(step(f"unset CUDA_MPS_PIPE_DIRECTORY; exec {CUDA} 1 spin 1000", gpus=0.25, sharing="mps"))
    until_ready(home, 1)
    print(wait_until(lambda: "none of its processes is an MPS client" in (text := home.run("why", "@").stdout) and text, "it"))
    home.run("cancel", "@")
    home.wait()
    until_gone(home)


def test_clients_outlive_the_coordinator_and_the_next_one_ends_the_daemon(home):
    home.submit(jobs("1 spin 1000", "1 " + WORK, "1 " + WORK))
    until_ready(home, 3)
    home.kill_coordinator()
    wait_until(home.coordinator, "the next coordinator")
    home.run("cancel", "1")
    home.wait()
    assert states(home) == {0: "cancelled", 1: "done", 2: "done"}
    until_gone(home)


def test_pytorch_and_jax_train_beside_each_other(home):
    torch = ("import torch; x = torch.randn(512, 512, device='cuda', requires_grad=True); o = torch.optim.Adam([x])\n"
             "for _ in range(2000): o.zero_grad(); (x @ x).square().mean().backward(); o.step()\n"
             "print('loss', (x @ x).square().mean().item())")
    jax = ("import jax, jax.numpy as n; x = jax.random.normal(jax.random.key(0), (512, 512))\n"
           "f = jax.jit(jax.grad(lambda x: n.mean((x @ x) ** 2)))\n"
           "for _ in range(2000): x = x - f(x)\n"
           "print('loss', n.mean((x @ x) ** 2))")
    for name, text in (("torch", torch), ("jax", jax)):
        home.file(f"with_{name}.py", text)
    script = f"case $PERGPU_PARAM_I in [01]) exec {sys.executable} with_torch.py;; *) exec {sys.executable} with_jax.py;; esac"
    home.submit("[grid]\ni = [0, 1, 2, 3]\n" + step(script, gpus=0.25, sharing="mps"))
    code = home.wait()
    print(log_of(home), [job["reason"] for job in all_of(home)])
    for job in all_of(home):
        print(job["started_at"], job["ended_at"], job["warnings"])
    assert code == 0
    until_gone(home)
