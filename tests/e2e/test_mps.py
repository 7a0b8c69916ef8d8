"""`sharing = "mps"`, with a fake of NVIDIA's daemon (tests/fake_mps) and of NVML (tests/fake_nvml)."""
import json
import os
import signal

import pytest
from pages import ROOT
from test_gpus import gpu_state, gpus, most_on_one_gpu, uuid, world  # noqa: F401: fixtures

from harness import alive, grid, read, wait_until

FAKE = ROOT + "/tests/fake_mps"


@pytest.fixture
def mps(gpus):  # noqa: F811
    gpus.mps_log = gpus.root + "/mps.log"
    gpus.refuse = gpus.root + "/refuse"
    names = {"FAKE_MPS_LOG": gpus.mps_log, "FAKE_MPS_REFUSE": gpus.refuse, "CLAIMS": gpus.env["CLAIMS"]}
    exports = "".join(f"export {name}='{value}'\n" for name, value in names.items())
    gpus.env["PERGPU_MPS_CONTROL"] = gpus.script("mps-control", f'#!/bin/sh\n{exports}exec {FAKE}/control "$@"\n')
    gpus.world.show(1)
    gpus.close_gate()
    return gpus


def step(options="", keys=""):
    return f'gpus = 0.25\nsharing = "mps"\n{keys}command = "{FAKE}/client {options}"'


def events(home, word):
    return [line.split() for line in read(home.mps_log, "").splitlines() if line.split()[0] == word]


def until_clients(home, count):
    home.until_running(count)
    wait_until(lambda: len(events(home, "client")) >= count, f"{count} clients")


def test_jobs_are_clients_of_one_daemon_that_is_there_as_long_as_they_are(mps):
    mps.submit(grid("train", 5, step()))
    until_clients(mps, 4)
    assert len(events(mps, "started")) == 1 and events(mps, "started")[0][1] == uuid(0)
    (gpu,) = mps.json("gpus")["gpus"]
    assert gpu["state"] == "busy" and not [one for one in gpu["holders"] if one.get("foreign")]
    mps.open_gate()
    assert mps.wait() == 0
    wait_until(lambda: events(mps, "ended"), "the daemon's end")
    assert most_on_one_gpu(mps.stamps) == 4 and len(events(mps, "client")) == 5
    wait_until(lambda: gpu_state(mps, 0)["state"] == "free", "a free GPU")


def test_what_a_client_may_use_is_in_its_environment(mps):
    mps.open_gate()
    mps.submit(grid("train", 1, step()))
    assert mps.wait() == 0
    (job,) = mps.ps().values()
    found = json.loads(read(job["out"] + "/attempt.json"))["environment"]["set"]
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"
    assert found["CUDA_MPS_PIPE_DIRECTORY"].endswith("/mps/" + uuid(0)[:12])


def test_a_client_that_is_cancelled_takes_nobody_with_it(mps):
    mps.submit(grid("train", 4, step()))
    until_clients(mps, 4)
    mps.run("cancel", "2")
    wait_until(lambda: mps.only("2")["state"] == "cancelled", "a cancelled job")
    assert len(events(mps, "terminate_client")) == 1 and not events(mps, "broken")
    mps.open_gate()
    assert mps.wait() == 1
    assert sorted(job["state"] for job in mps.ps().values()) == ["cancelled", "done", "done", "done"]
    assert mps.stamps.count("start") == 4


def test_a_client_with_a_handler_keeps_its_gpu_while_it_saves_itself(mps):
    mps.submit(grid("train", 2, step("--checkpoint")))
    until_clients(mps, 2)
    mps.run("cancel", "1")
    wait_until(lambda: mps.only("1")["state"] == "cancelled", "a cancelled job")
    assert mps.stamps.count("saved") == 1 and mps.stamps.count("lost") == 0
    mps.open_gate()
    assert mps.wait() == 1 and not events(mps, "terminate_client") and not events(mps, "broken")


@pytest.mark.parametrize("how", ["after its grace", "at once"])
def test_a_client_is_disconnected_before_it_is_killed(mps, how):
    mps.submit(grid("train", 2, step("--stubborn", 'grace = "4s"\n')))
    until_clients(mps, 2)
    mps.run("cancel", "1", *(["--kill"] if how == "at once" else []))
    wait_until(lambda: mps.only("1")["state"] == "cancelled", "a cancelled job")
    assert len(events(mps, "terminate_client")) == 1 and not events(mps, "broken")
    assert mps.stamps.count("ignored") == (1 if how == "after its grace" else 0), "SIGTERM comes once"
    mps.open_gate()
    mps.wait()
    assert mps.only("2")["state"] == "done"


def test_what_breaks_beside_others_is_tried_again_without_them_and_costs_the_innocent_nothing(mps):
    shell = f"[ $PERGPU_PARAM_I = 2 ] && exec {FAKE}/client --fault || exec {FAKE}/client"
    mps.submit(grid("train", 4, f'gpus = 0.25\nsharing = "mps"\nretries = 0\nshell = "{shell}"'))
    until_clients(mps, 4)
    open(mps.gate + ".fault", "w").close()
    mps.until_running(8)
    wait_until(lambda: mps.only("3")["state"] == "failed", "the guilty one's end")
    mps.open_gate()
    assert mps.wait() == 1
    shown = {int(job["index"]): job for job in mps.json("show", "@")["jobs"]}
    assert {i: job["state"] for i, job in shown.items()} == {0: "done", 1: "done", 2: "failed", 3: "done"}
    assert {job["attempts"][0]["class"] for job in shown.values()} == {"neighbour"}
    assert shown[2]["attempts"][1]["class"] == "exit" and len(shown[2]["attempts"]) == 2
    assert len(events(mps, "client")) == 4, "the second attempts were none"
    assert "another job on its GPU may have caused it" in shown[0]["attempts"][0]["reason"]


def test_a_guilty_one_with_retries_breaks_the_others_once(mps):
    shell = f"[ $PERGPU_PARAM_I = 2 ] && exec {FAKE}/client --fault || exec {FAKE}/client"
    retries = 'retries = { max = 2, delay = "0s" }'
    mps.submit(grid("train", 4, f'gpus = 0.25\nsharing = "mps"\n{retries}\nshell = "{shell}"'))
    until_clients(mps, 4)
    open(mps.gate + ".fault", "w").close()
    wait_until(lambda: mps.only("3")["state"] == "failed", "the guilty one's end")
    mps.open_gate()
    assert mps.wait() == 1
    guilty = mps.json("show", "3")["jobs"][0]["attempts"]
    assert [attempt["class"] for attempt in guilty] == ["neighbour", "exit", "exit", "exit"]
    assert len(events(mps, "broken")) == 1 and len(events(mps, "client")) == 4


def test_what_outlives_the_first_process_is_disconnected_before_it_is_killed(mps):
    mps.submit(grid("train", 2, f'gpus = 0.25\nsharing = "mps"\nshell = "{FAKE}/client --stubborn; true"'))
    until_clients(mps, 2)
    mps.run("cancel", "1")
    wait_until(lambda: mps.only("1")["state"] == "cancelled", "a cancelled job")
    assert len(events(mps, "terminate_client")) == 1 and not events(mps, "broken")
    mps.open_gate()
    mps.wait()
    assert mps.only("2")["state"] == "done"


def test_without_a_daemon_a_job_takes_turns_and_is_warned_of(mps):
    open(mps.refuse, "w").close()
    mps.submit(grid("train", 1, step(keys="rerun = false\n")))
    mps.until_running(1)
    assert "it uses time slicing on its GPU" in mps.run("why", "1").stdout
    assert "a fake refusal" in mps.run("why", "1").stdout
    mps.open_gate()
    assert mps.wait() == 0 and mps.stamps.count("start") == 1


def test_a_job_is_stopped_though_the_control_program_hangs(mps):
    mps.submit(grid("train", 1, step()))
    until_clients(mps, 1)
    mps.script("mps-control", "#!/bin/sh\nexec sleep 1000\n")
    mps.run("cancel", "1", "--kill")
    wait_until(lambda: mps.only()["state"] == "cancelled", "a cancelled job")


def test_a_job_that_passes_the_daemon_by_is_warned_of(mps):
    mps.submit(grid("train", 1, step("--without")))
    mps.until_running(1)
    wait_until(lambda: "none of its processes is an MPS client" in mps.run("why", "1").stdout, "a warning")
    mps.open_gate()
    assert mps.wait() == 0


def test_clients_outlive_the_coordinator_and_the_next_one_ends_the_daemon(mps):
    mps.submit(grid("train", 3, step()))
    until_clients(mps, 3)
    mps.kill_coordinator()
    wait_until(mps.coordinator, "the next coordinator")
    mps.run("cancel", "1")
    wait_until(lambda: mps.only("1")["state"] == "cancelled", "a cancelled job")
    assert not events(mps, "broken") and not events(mps, "ended")
    mps.open_gate()
    assert mps.wait() == 1
    wait_until(lambda: events(mps, "ended"), "the daemon's end")
    assert len(events(mps, "started")) == 1


def test_a_daemon_that_was_left_is_ended_by_the_next_coordinator(mps):
    mps.submit(grid("train", 2, step()))
    until_clients(mps, 2)
    (server,) = [name for name in os.listdir(mps.env["CLAIMS"]) if name.endswith(".server")]
    ours = [mps.coordinator(), *mps.keepers()]
    for pid in ours:
        os.kill(pid, signal.SIGSTOP)  # none of them sees the others' end
    for pid in [*map(int, mps.stamps.of("start", 3)), *ours]:
        os.kill(pid, signal.SIGKILL)
    mps.open_gate()
    assert mps.wait() == 0
    wait_until(lambda: len(events(mps, "ended")) == len(events(mps, "started")), "the daemons' end")
    wait_until(lambda: not alive(int(server.split(".")[1])), "the server's end")


def test_a_machine_without_it_refuses_the_sweep(mps):
    mps.env["PERGPU_MPS_CONTROL"] = ""
    path = mps.file("s.toml", grid("train", 1, step()))
    told = mps.run("submit", path, code=2).stderr
    assert "shares GPUs by MPS" in told and "nvidia-cuda-mps-control" in told and "use time slicing" in told
