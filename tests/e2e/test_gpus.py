"""GPUs, by the fake NVML of tests/fake_nvml: one job a GPU, none where somebody else computes."""
import json
import os
import signal
import subprocess
import tempfile
from datetime import datetime

import pytest

from harness import FAKE_NVML, LONG, alive, for_every_user, grid, read, wait_until

GIB = 1 << 30
# Uses its GPU as a compute process does, and refuses to share it.
TRAIN = """#!/bin/sh
mkdir "$TAKEN/$CUDA_VISIBLE_DEVICES" || echo "overlap on $CUDA_VISIBLE_DEVICES" >>"$OVERLAPS"
: >"$CLAIMS/$CUDA_VISIBLE_DEVICES.$$"
stamp "${1:-0}"
rmdir "$TAKEN/$CUDA_VISIBLE_DEVICES"
"""
STEP = 'gpus = 1\ncommand = ["train", "%s"]'


def uuid(index):
    return f"GPU-{str(index) * 8}-0000-0000-0000-{index:012}"


class World:
    """The GPUs that all homes of a test see."""

    def __init__(self, root):
        self.root = root
        self.homes = []
        os.chmod(self.root, 0o755)
        for name in ("locks", "claims", "taken"):
            os.mkdir(f"{self.root}/{name}")
            os.chmod(f"{self.root}/{name}", 0o1777)
        for name in ("stamps", "gate", "overlaps"):
            open(f"{self.root}/{name}", "w").close()
            os.chmod(f"{self.root}/{name}", 0o666)

    def show(self, gpus=8, **scenario):
        scenario = {"gpus": gpus, "claims": self.root + "/claims", **scenario}
        with open(self.root + "/new", "w") as f:
            json.dump(scenario, f)
        os.rename(self.root + "/new", self.root + "/world.json")

    def overlaps(self):
        return read(self.root + "/overlaps")

    def join(self, home):
        home.env.update(
            PERGPU_NVML=FAKE_NVML,
            FAKE_NVML_SCENARIO=self.root + "/world.json",
            PERGPU_LOCKS=self.root + "/locks",
            CLAIMS=self.root + "/claims",
            TAKEN=self.root + "/taken",
            OVERLAPS=self.root + "/overlaps",
        )
        home.script("train", TRAIN)
        home.world = self
        self.homes.append(home)
        return home


def shown(kind):
    """For a fixture: a world of this class.  Its folder goes when nothing makes files in it any more."""
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as root:
        world = kind(root)
        world.show()
        yield world
        for home in world.homes:
            home.stop()


@pytest.fixture
def world():
    yield from shown(World)


@pytest.fixture
def gpus(home, world):
    return world.join(home)


def foreign_process():
    return subprocess.Popen(["sleep", "1000"])


def gpu_state(home, index):
    (gpu,) = [gpu for gpu in home.json("gpus")["gpus"] if gpu["uuid"] == uuid(index)]
    return gpu


def test_every_job_has_one_gpu_and_no_two_live_jobs_the_same(gpus):
    gpus.submit(grid("train", 24, STEP % 0.05))
    assert gpus.wait() == 0
    used = gpus.stamps.of("start", 4)
    assert set(used) <= {uuid(i) for i in range(8)} and len(used) == 24
    assert gpus.stamps.overlaps() == [] and gpus.world.overlaps() == ""
    assert len(set(used)) >= 6


def test_all_eight_gpus_work_at_once_and_a_ninth_job_waits_for_one(gpus):
    gpus.close_gate()
    gpus.submit(grid("train", 9, STEP % 0))
    gpus.until_running(8)
    assert sorted(gpus.stamps.of("start", 4)) == [uuid(i) for i in range(8)]
    job = gpus.only("sweep/8")
    assert job["state"] == "queued" and "GPU" in gpus.run("why", "sweep/8").stdout
    shown = gpus.json("gpus")["gpus"]
    assert [gpu["state"] for gpu in shown] == ["busy"] * 8
    gpus.open_gate()
    assert gpus.wait() == 0 and gpus.world.overlaps() == ""


SEVERAL = """
[grid]
seed = [%s]
[steps.train]
gpus = %d
shell = 'echo "$CUDA_VISIBLE_DEVICES $PERGPU_NUM_GPUS $MASTER_ADDR $MASTER_PORT"; flock -s "$GATE" true'
"""


def test_a_job_with_several_gpus_has_those_that_are_linked(gpus):
    gpus.world.show(4, nvlinks=[[0, 3], [1, 2]])
    gpus.close_gate()
    gpus.submit(SEVERAL % ("0, 1", 2))
    wait_until(lambda: set(gpus.states().values()) == {"running"}, "two jobs on four GPUs")
    assert sorted(job["gpus"] for job in gpus.ps().values()) == [[uuid(0), uuid(3)], [uuid(1), uuid(2)]]
    gpus.open_gate()
    assert gpus.wait() == 0


def test_a_job_with_several_gpus_sees_them_all_and_has_a_port_of_its_own(gpus):
    gpus.close_gate()
    gpus.submit(SEVERAL % ("0, 1, 2, 3, 4", 2))
    running = lambda: [job for job in gpus.ps().values() if job["state"] == "running"]  # noqa: E731
    jobs = wait_until(lambda: len(running()) == 4 and running(), "four jobs on eight GPUs")
    wait_until(lambda: all(read(job["log"], "").endswith("\n") for job in jobs), "what they see")
    seen = [read(job["log"]).split() for job in jobs]
    assert [line[0] for line in seen] == [f"{uuid(2 * i)},{uuid(2 * i + 1)}" for i in range(4)]
    assert [line[1:3] for line in seen] == [["2", "127.0.0.1"]] * 4
    assert len({line[3] for line in seen}) == 4 and all(20000 <= int(line[3]) < 30000 for line in seen)
    assert [(job["lane"], job["lanes"]) for job in jobs][1] == ("gpu2", ["gpu2", "gpu3"])
    assert {gpu["state"] for gpu in gpus.json("gpus")["gpus"]} == {"busy"}
    assert "gpu2,3" in gpus.run("ps").stdout
    assert "runs on gpu2 and gpu3 as process" in gpus.run("why", str(jobs[1]["id"])).stdout
    gpus.kill_coordinator()
    assert {gpu["state"] for gpu in gpus.json("gpus")["gpus"]} == {"busy"}
    gpus.open_gate()
    assert gpus.wait() == 0
    record = json.loads(read(jobs[1]["out"] + "/attempt.json"))
    assert record["gpus"] == jobs[1]["gpus"] and record["lanes"] == ["gpu2", "gpu3"]
    assert record["environment"]["set"]["MASTER_PORT"] == seen[1][3]


def test_a_wide_job_waits_for_the_gpu_of_another_user_and_holds_none_meanwhile(new_home, world):
    world.show(2)
    first, second = world.join(new_home()), world.join(new_home())
    first.close_gate()
    first.submit(grid("train", 1, STEP % 0))
    first.until_running()
    second.submit(SEVERAL % ("0", 2))
    wait_until(lambda: "your other pergpu" in second.run("why", "@").stdout, "the lease that is waited for")
    first.submit(grid("train", 1, STEP % 0), name="more.toml")
    first.until_running(2)
    first.open_gate()
    assert [home.wait() for home in (first, second)] == [0, 0]


def test_a_job_that_wants_more_gpus_than_there_are_is_refused(gpus):
    gpus.file("sweep.toml", SEVERAL % ("0", 9))
    assert "asks for 9 GPUs, but can use 8 of this machine's 8" in gpus.run("run", "sweep.toml", code=2).stderr


def test_many_small_jobs_do_not_keep_a_wide_one_waiting_for_ever(gpus):
    """However many there are, they let it go first at last."""
    gpus.world.show(2)
    gpus.submit(grid("small", 200, STEP % 0.05))
    gpus.until_running()
    gpus.submit(SEVERAL.replace("[grid]", 'name = "wide"\n[grid]') % ("0", 2) + "priority = 1\n")
    assert gpus.run("wait", "wide").returncode == 0
    assert any(job["state"] == "queued" for job in gpus.ps().values())
    assert gpus.wait() == 0 and gpus.world.overlaps() == ""


def test_the_record_and_ps_name_the_gpu(gpus):
    gpus.submit(grid("train", 1, STEP % 0))
    assert gpus.wait() == 0
    job = gpus.only()
    assert job["gpus"] == gpus.stamps.of("start", 4) == json.loads(
        read(job["out"] + "/attempt.json"))["gpus"]  # fmt: skip


def test_a_gpu_with_a_foreign_process_gets_no_job_and_gpus_and_why_say_so(gpus):
    other = foreign_process()
    try:
        used = {"uuid": uuid(0), "processes": [{"pid": other.pid, "memory_bytes": 3 * GIB}]}
        gpus.world.show([used, {"uuid": uuid(1)}])
        gpus.submit(grid("train", 6, STEP % 0.02))
        assert gpus.wait() == 0
        assert set(gpus.stamps.of("start", 4)) == {uuid(1)}
        gpus.submit(grid("train", 1, STEP % 0), "--devices", "0", name="second.toml")
        wait_until(lambda: gpu_state(gpus, 0)["state"] == "foreign", "the foreign process")
        assert str(other.pid) in gpu_state(gpus, 0)["why"]
        assert gpu_state(gpus, 0)["holders"][0]["pid"] == other.pid
        assert str(other.pid) in gpus.run("gpus").stdout
        assert str(other.pid) in gpus.run("why", "second").stdout
    finally:
        other.kill()
        other.wait()
    gpus.world.show([{"uuid": uuid(0)}, {"uuid": uuid(1)}])
    assert gpus.wait("second") == 0


# Holds as much of its GPU's memory as it is told.
EATER = """#!/bin/sh
echo $1 >"$CLAIMS/$CUDA_VISIBLE_DEVICES.$$"
exec sleep ${2:-1000}
"""


def test_a_job_above_its_gpu_memory_is_ended_and_may_have_more(gpus):
    gpus.script("eat", EATER)
    limit = f'gpus = 1\ngpu_memory = "4GiB"\ncommand = ["eat", "{5 * GIB}"]'
    gpus.submit(grid("eat", 1, limit))
    assert gpus.wait() == 1
    job = gpus.only()
    assert (job["state"], job["class"]) == ("failed", "gpu-memory")
    assert job["reason"] == "GPU memory 5 GiB exceeded its limit of 4 GiB"
    limit = f'gpus = 1\ngpu_memory = "4GiB"\ncommand = ["eat", "{5 * GIB}", "3"]\n'
    grow = 'retries = { max = 1, delay = "1ms" }\ngrow = { gpu_memory = 2 }'
    gpus.submit(grid("eat", 1, limit + grow), name="growing.toml")
    assert gpus.wait("growing") == 0
    job = gpus.json("show", "growing")["jobs"][0]
    assert job["attempt"] == 2 and job["limits"]["gpu_memory"] == "8GiB"
    assert job["limits_held"]["gpu_memory"].startswith("checked every second: memory of its")


def test_a_job_fits_beside_others_where_enough_memory_is_free(gpus):
    other = foreign_process()
    try:
        used = {"uuid": uuid(0), "memory_bytes": 80 * GIB, "processes": [{"pid": other.pid, "memory_bytes": 60 * GIB}]}
        gpus.world.show([used])
        step = 'outsiders = "fit"\ngpu_memory = "%sGiB"\n' + STEP % 0
        gpus.submit(grid("train", 1, step % 32))
        said = wait_until(lambda: "needed" in (text := gpus.run("why", "@").stdout) and text, "what is missing")
        assert str(other.pid) in said and "of memory free, 34 GiB needed" in said
        gpus.submit(grid("train", 2, step % 16), name="small.toml")
        assert gpus.wait("small") == 0
        used["processes"][0]["memory_bytes"] = 30 * GIB
        gpus.world.show([used])
        assert gpus.wait() == 0
    finally:
        other.kill()


# Shares its GPU, of whose memory it holds as much as it is told.
PART = """#!/bin/sh
echo "${1:-1}" >"$CLAIMS/$CUDA_VISIBLE_DEVICES.$$"
echo "$PERGPU_GPU_SHARE"
stamp
[ -z "$2" ] || exec sleep "$2"
"""


def most_on_one_gpu(stamps):
    live, most = {}, 0
    for what, _, _, _, gpu, _ in stamps.lines():
        live[gpu] = live.get(gpu, 0) + {"start": 1, "end": -1}.get(what, 0)
        most = max(most, live[gpu])
    return most


def test_jobs_with_a_share_have_a_gpu_together(gpus):
    gpus.script("part", PART)
    gpus.world.show(2)
    gpus.close_gate()
    gpus.submit(grid("train", 5, 'gpus = 0.5\ncommand = ["part"]'))
    gpus.until_running(4)
    assert sorted(gpus.stamps.of("start", 4)) == [uuid(0), uuid(0), uuid(1), uuid(1)]
    shown = gpus.json("gpus")
    assert sorted(lane["name"] for lane in shown["lanes"]) == ["gpu0", "gpu0.1", "gpu1", "gpu1.1"]
    assert {lane["job"] for lane in shown["lanes"]} == {1, 2, 3, 4}
    assert "asks for 0.5 of a GPU, all 2 GPUs are in use" in gpus.run("why", "5").stdout
    gpus.submit(grid("whole", 1, STEP % 0), name="whole.toml")
    assert "all 2 GPUs are in use" in gpus.run("why", "whole").stdout
    gpus.open_gate()
    assert gpus.wait("*") == 0 and most_on_one_gpu(gpus.stamps) == 2
    job = gpus.json("show", "4")["jobs"][0]
    assert job["limits"]["gpus"] == 0.5 and read(job["log"]).split() == ["0.5"]
    with open(job["out"] + "/attempt.json") as file:
        assert json.load(file)["gpu_share"] == 0.5


def test_a_job_that_outgrows_its_share_is_ended_and_its_neighbour_is_not(gpus):
    gpus.script("part", PART)
    gpus.world.show(1)
    gpus.submit(grid("large", 1, f'gpus = 0.25\ncommand = ["part", "{21 * GIB}", "1000"]'), name="large.toml")
    gpus.submit(grid("small", 1, f'gpus = 0.25\ncommand = ["part", "{19 * GIB}", "5"]'), name="small.toml")
    assert gpus.wait("large") == 1 and gpus.wait("small") == 0
    job = gpus.only("large")
    assert job["class"] == "gpu-memory"
    assert job["reason"] == "GPU memory 21 GiB on gpu0 exceeded its share of 20 GiB"


def test_a_job_that_finds_too_little_memory_beside_others_gets_more_of_a_gpu(gpus):
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    script = f'echo "$PERGPU_GPU_SHARE"; [ "$PERGPU_GPU_SHARE" = 1 ] || {{ echo "{words}" >&2; exit 1; }}'
    gpus.submit(f"[steps.train]\ngpus = 0.3\nshell = {json.dumps(script)}\n")
    assert gpus.wait() == 0
    job = gpus.json("show", "@")["jobs"][0]
    assert job["attempt"] == 3 and job["limits"]["gpus"] == 1
    assert "oom-gpu" in [attempt["class"] for attempt in job["attempts"]]


def test_shares_hold_over_kills_of_the_coordinator(gpus):
    gpus.world.show(2)
    gpus.submit(grid("train", 40, 'gpus = 0.3\ncommand = ["stamp", "0.1"]'))
    for started in (1, 10, 20, 30):
        gpus.until_running(started)
        gpus.kill_coordinator()
        gpus.run("ps")
    assert gpus.wait() == 0
    assert gpus.stamps.count("start") == 40 and most_on_one_gpu(gpus.stamps) <= 3


def test_outsiders_can_be_ignored(gpus):
    other = foreign_process()
    used = {"uuid": uuid(0), "processes": [{"pid": other.pid, "memory_bytes": GIB}]}
    gpus.world.show([used])
    gpus.submit(grid("train", 1, 'foreign_processes = "ignore"\n' + STEP % 0))
    assert gpus.wait() == 0
    other.kill()
    other.wait()


def test_a_graphics_process_does_not_count(gpus):
    gpu = {"uuid": uuid(0), "processes": [{"pid": 1, "memory_bytes": GIB, "type": "graphics"}]}
    gpus.world.show([gpu])
    gpus.submit(grid("train", 1, STEP % 0))
    assert gpus.wait() == 0


def test_memory_that_comes_back_late_delays_the_next_job(gpus):
    gone = gpus.root + "/gone"  # 8 GiB from the moment of its change on, for 400 ms
    ramp = {"file": gone, "steps": [[0, 8 * GIB], [400, 0]]}
    gpus.world.show([{"uuid": uuid(0), "ramp": ramp}])
    gpus.submit(grid("train", 2, f'gpus = 1\nshell = "train; : >{gone}"'))
    assert gpus.wait() == 0
    assert seconds_between(*gpus.ps().values()) >= 0.38


def seconds_between(first, second):
    """From the end of one job to the start of the next."""
    times = [datetime.fromisoformat(t.rstrip("Z")) for t in (first["ended_at"], second["started_at"])]
    return (times[1] - times[0]).total_seconds()


def test_a_probe_that_hangs_leaves_the_gpus_unknown_and_pergpu_answers(gpus):
    gpus.world.show(2, hang=["nvmlInit_v2"])
    text = gpus.file("s.toml", grid("train", 1, STEP % 0))
    submit = gpus.start("submit", text)
    assert gpus.json("ps", "-a")["jobs"] == []
    _, err = submit.communicate(timeout=60)
    assert submit.returncode == 2 and "GPU" in err
    assert gpus.stamps.lines() == []


def test_gpus_that_stop_answering_are_unknown_and_get_no_job_until_they_do(gpus):
    gpus.submit(grid("train", 1, STEP % 0))
    assert gpus.wait() == 0
    gpus.world.show(8, hang=["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"])
    gpus.submit(grid("train", 1, STEP % 0), name="second.toml")
    wait_until(lambda: "unknown" in {g["state"] for g in gpus.json("gpus")["gpus"]}, "unknown")
    assert gpus.states("second") == {"00-i=0/train": "queued"} or gpus.states("second")
    assert gpus.stamps.count("start") == 1
    gpus.world.show(8)
    assert gpus.wait("second") == 0


def test_a_lost_gpu_gets_no_job_and_the_others_work(gpus):
    gpus.world.show([{"uuid": uuid(0), "lost": True}, {"uuid": uuid(1)}])
    gpus.submit(grid("train", 4, STEP % 0))
    assert gpus.wait() == 0
    assert set(gpus.stamps.of("start", 4)) == {uuid(1)}


def test_jobs_that_ask_for_no_gpu_see_none(gpus):
    gpus.submit('[steps.a]\ncommand = ["env"]\n')
    assert gpus.wait() == 0
    assert "CUDA_VISIBLE_DEVICES=" in read(gpus.only()["log"]).splitlines()


def test_devices_bound_a_sweep_by_index_or_uuid_or_by_the_shells_variable(gpus):
    for number, (args, env) in enumerate(
        [
            (["--devices", "0,2"], {}),
            (["--devices", f"{uuid(0)},{uuid(2)}"], {}),
            ([], {"CUDA_VISIBLE_DEVICES": "0,2"}),
        ]
    ):
        gpus.submit(grid("train", 6, STEP % 0.01), *args, env=env, name=f"s{number}.toml")
    assert gpus.wait("s*") == 0
    assert set(gpus.stamps.of("start", 4)) == {uuid(0), uuid(2)}
    text = gpus.file("wrong.toml", grid("train", 1, STEP % 0))
    assert "9" in gpus.run("submit", text, "--devices", "9", code=2).stderr


def test_programs_that_parse_numbers_can_get_the_index(gpus):
    text = '[steps.a]\ngpus = 1\ngpu_env = "index"\nshell = "echo $CUDA_VISIBLE_DEVICES"\n'
    gpus.submit(text, "--devices", "5")
    assert gpus.wait() == 0 and read(gpus.only()["log"]) == "5\n"


def instance(number):
    return f"MIG-00000000-0000-0000-0000-00000000000{number}"


def test_instances_of_a_gpu_are_lanes_each_for_one_job(gpus):
    gpus.world.show([{"mig": True, "instances": [{}, None, {"name": "MIG 2g.20gb"}]}, {}])
    gpus.close_gate()
    gpus.submit(grid("train", 4, STEP % 0))
    gpus.until_running(3)
    jobs = [job for job in gpus.ps().values() if job["state"] == "running"]
    assert [(job["lane"], job["gpus"]) for job in jobs] == [
        ("gpu0:0", [instance(0)]), ("gpu0:2", [instance(2)]), ("gpu1", [uuid(1)])]
    shown = gpus.json("gpus")["gpus"]
    assert [(gpu["index"], gpu["instance"], gpu["state"]) for gpu in shown] == [
        (0, 0, "busy"), (0, 2, "busy"), (1, None, "busy")]
    assert "0:2" in gpus.run("gpus").stdout
    gpus.kill_coordinator()
    assert {gpu["state"] for gpu in gpus.json("gpus")["gpus"]} == {"busy"}
    gpus.open_gate()
    assert gpus.wait() == 0 and gpus.world.overlaps() == ""
    assert set(gpus.stamps.of("start", 4)) == {instance(0), instance(2), uuid(1)}


def test_instances_are_chosen_by_number_uuid_and_model_and_never_together(gpus):
    gpus.world.show([{"mig": True, "instances": [{}, None, {"name": "MIG 2g.20gb"}]}])
    show = '[steps.a]\ngpus = 1\n%sshell = "echo $CUDA_VISIBLE_DEVICES"\n'
    for number, (keys, args, seen) in enumerate([
        ("", ["--devices", "0:2"], instance(2)),
        ("", ["--devices", instance(0)], instance(0)),
        ('gpu = "*2g.20gb"\n', [], instance(2)),
        ('gpu_env = "index"\n', ["--devices", "0:2"], instance(2)),  # CUDA numbers none
    ]):
        gpus.submit(show % keys, *args, name=f"s{number}.toml")
        assert gpus.wait(f"s{number}") == 0 and read(gpus.only(f"s{number}")["log"]) == seen + "\n"
    gpus.file("sweep.toml", SEVERAL % ("0", 2))
    refused = gpus.run("run", "sweep.toml", code=2).stderr
    assert "asks for 2 GPUs, but can use 0 of this machine's 2" in refused and "MIG" in refused


def test_a_gpu_that_is_cut_otherwise_has_new_lanes_and_no_old_ones(gpus):
    gpus.world.show([{"mig": True, "instances": [{}, {}]}])
    gpus.submit(grid("train", 2, STEP % 0))
    assert gpus.wait() == 0
    gpus.world.show([{"mig": True, "instances": [{"uuid": instance(7), "memory_bytes": GIB}]}])
    gpus.submit(grid("again", 1, STEP % 0), name="again.toml")
    assert gpus.wait("again") == 0 and gpus.only("again")["gpus"] == [instance(7)]
    assert [gpu["uuid"] for gpu in gpus.json("gpus")["gpus"]] == [instance(7)]
    gpus.file("large.toml", 'name = "large"\n' + grid("train", 1, 'gpu_memory = "2GB"\n' + STEP % 0))
    assert "asks for 1 GPU" in gpus.run("submit", "large.toml", code=2).stderr


def test_a_gpu_that_is_cut_into_nothing_gets_no_job_until_it_is(gpus):
    gpus.world.show([{"mig": True}, {}])
    gpus.submit(grid("train", 2, STEP % 0))
    assert gpus.wait() == 0 and set(gpus.stamps.of("start", 4)) == {uuid(1)}
    assert "it has no instances" in gpu_state(gpus, 0)["why"]


def test_a_model_pattern_chooses_the_gpu(gpus):
    gpus.world.show([{"uuid": uuid(0), "name": "A100"}, {"uuid": uuid(1), "name": "H100 PCIe"}])
    gpus.submit(grid("train", 3, 'gpu = "*H100*"\n' + STEP % 0))
    assert gpus.wait() == 0 and set(gpus.stamps.of("start", 4)) == {uuid(1)}


def test_gpus_stay_exclusive_over_kills_of_the_coordinator(gpus):
    gpus.submit(grid("train", 40, STEP % 0.1))
    for killed in range(3):
        gpus.until_running(8 + 8 * killed)
        gpus.kill_coordinator()
    wait_until(lambda: gpus.stamps.count("end") >= 40, "40 ended jobs")
    assert gpus.wait() == 0
    assert gpus.world.overlaps() == "" and gpus.stamps.overlaps() == []
    assert sorted(gpus.stamps.of("start")) == list(range(1, 41))


def test_a_lease_lasts_as_long_as_the_job_even_when_all_of_pergpu_is_killed(new_home, world):
    world.show(1)
    first, second = world.join(new_home()), world.join(new_home())
    first.close_gate()
    first.submit(grid("train", 1, STEP % 0))
    first.until_running()
    everybody = (first.coordinator(), *first.keepers())
    for end in (signal.SIGSTOP, signal.SIGKILL):  # nobody who still lives is to start another one
        for pid in everybody:
            os.kill(pid, end)
    second.submit(grid("train", 1, STEP % 0))
    wait_until(lambda: gpu_state(second, 0)["state"] in ("leased", "foreign"), "the other's lease")
    assert second.only()["state"] == "queued" and second.stamps.lines() == []
    shown = second.run("gpus").stdout + second.run("why", "@").stdout
    assert "pergpu" in shown and first.path not in shown
    (trained,) = first.stamps.of("start", 3)
    os.rmdir(f"{world.root}/taken/{uuid(0)}")  # what the killed one cannot do
    first.run("ps")  # its new coordinator ends what the killed keeper left
    wait_until(lambda: not alive(trained), "the end of the lost attempt")
    first.open_gate()
    assert [home.wait() for home in (first, second)] == [0, 0]
    assert world.overlaps() == "" and first.only()["attempt"] == 2


@pytest.mark.skipif(not LONG, reason="takes 15 s; set PERGPU_LONG=1")
def test_a_gpu_whose_memory_does_not_come_back_is_dirty_and_named(gpus):
    gone = gpus.root + "/gone"
    gpus.world.show([{"uuid": uuid(0), "ramp": {"file": gone, "steps": [[0, 8 * GIB]]}}])
    gpus.submit(grid("train", 2, f'gpus = 1\nshell = "train; : >{gone}"'))
    wait_until(lambda: gpu_state(gpus, 0)["state"] == "dirty", "the verdict")
    assert "GiB" in gpu_state(gpus, 0)["why"] and gpus.stamps.count("start") == 1
    gpus.world.show([{"uuid": uuid(0)}])
    assert gpus.wait() == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
def test_two_users_share_eight_gpus_without_an_overlap_and_both_get_at_least_six(new_home, world):
    count = 500 if LONG else 60
    users = []
    for uid in (61001, 61002):
        home = world.join(new_home())
        home.become(uid)
        home.env.update(PERGPU_NVML=for_every_user() + "/" + os.path.basename(FAKE_NVML))
        home.env.update(STAMPS=world.root + f"/stamps.{uid}", GATE=world.root + "/gate")
        home.stamps.path = home.env["STAMPS"]
        for folder, _, names in os.walk(home.root):
            for name in [folder, *(os.path.join(folder, n) for n in names)]:
                os.chown(name, uid, uid)
        open(home.stamps.path, "w").close()
        os.chown(home.stamps.path, uid, uid)
        users.append(home)
    for home in users:
        path = home.file("s.toml", grid("train", count, STEP % 0.003))
        home.submitted = home.start("submit", path)
    for home in users:
        assert home.submitted.wait(60) == 0, home.submitted.stderr.read()
    assert [home.wait() for home in users] == [0, 0]
    assert world.overlaps() == ""
    for home in users:
        assert home.stamps.count("start") == count
        assert len(set(home.stamps.of("start", 4))) >= 6


def test_a_gpu_whose_job_cannot_be_killed_stays_closed_and_says_who_holds_it(gpus, freeze):
    gpus.world.show(1)
    gpus.submit('[steps.a]\ngpus = 1\ncommand = ["sleep", "1000"]\n', name="stuck.toml")
    wait_until(lambda: gpus.only("stuck")["state"] == "running", "its start")
    pid = int(gpus.json("show", "stuck")["jobs"][0]["last_attempt"]["pid"])
    freeze(pid)
    gpus.run("cancel", "--kill", "stuck")
    words = f"process {pid} (sleep) cannot be killed: uninterruptible sleep"
    gpu = wait_until(lambda: [g for g in gpus.json("gpus")["gpus"] if g["why"] == words], "the words")
    assert gpu[0]["state"] == "dirty"
    gpus.submit('[steps.b]\ngpus = 1\ncommand = ["true"]\n', name="next.toml")
    assert f"is held by job 1: {words}" in gpus.run("why", "next").stdout
    freeze.thaw()
    assert gpus.wait("next") == 0 and gpus.only("stuck")["state"] == "cancelled"


def test_a_silent_job_stalls_only_where_its_gpu_does_nothing(gpus):
    gpus.world.show(gpus=[{"utilization": 40}])
    gpus.submit('[steps.a]\ngpus = 1\nstall = "400ms"\ncommand = ["sleep", "1000"]')
    wait_until(lambda: (gpus.only()["duration_s"] or 0) > 2, "time to be taken for a stall")
    assert gpus.only()["state"] == "running"
    gpus.world.show(gpus=[{"utilization": 0}])
    assert gpus.wait() == 1
    job = gpus.only()
    assert job["class"] == "stall" and "no work on its GPU" in job["reason"]
