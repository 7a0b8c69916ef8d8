"""GPUs of AMD, by a sysfs and a /proc of the test's own; there is no driver of NVIDIA."""
import os
import subprocess

import pytest

from harness import grid, read, wait_until

MIB = 1 << 20
GIB = 1 << 30
FIRST, SECOND = "GPU-18a4d2a7b0c1e3f5", "GPU-00000000000000b2"
CARDS = {FIRST: (1, "0000:03:00.0"), SECOND: (0, "0000:83:00.0")}
SEEN = """
[steps.train]
gpus = %s
%s
shell = 'echo "$ROCR_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES"; flock -s "$GATE" true'
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(str(text))


class Machine:
    def __init__(self, root):
        self.sysfs, self.proc = root + "/sys", root + "/proc"
        os.mkdir(self.proc)
        for uuid, (card, pci) in CARDS.items():
            device = self.device(uuid)
            for name, text in {
                "vendor": "0x1002",
                "device": "0x744c",
                "unique_id": uuid.removeprefix("GPU-"),
                "mem_info_vram_total": 16 * GIB,
                "mem_info_vram_used": 20 * MIB,
                "gpu_busy_percent": 0,
            }.items():
                write(f"{device}/{name}", f"{text}\n")
            os.makedirs(f"{self.sysfs}/class/drm/card{card}")
            os.symlink(f"../../../bus/pci/devices/{pci}", f"{self.sysfs}/class/drm/card{card}/device")

    def device(self, uuid):
        return f"{self.sysfs}/bus/pci/devices/{CARDS[uuid][1]}"

    def use(self, uuid, pid, size):
        """A process has so much of a GPU's memory."""
        write(
            f"{self.proc}/{pid}/fdinfo/3",
            f"drm-driver:\tamdgpu\ndrm-client-id:\t{pid}\ndrm-pdev:\t{CARDS[uuid][1]}\n"
            f"drm-memory-vram:\t{size >> 10} KiB\n",
        )
        write(f"{self.device(uuid)}/mem_info_vram_used", f"{20 * MIB + size}\n")


@pytest.fixture
def amd(home):
    home.machine = Machine(home.root)
    home.env.update(PERGPU_SYS=home.machine.sysfs, PERGPU_PROC=home.machine.proc)
    return home


def by_uuid(home):
    return {gpu["uuid"]: gpu for gpu in home.json("gpus")["gpus"]}


def test_they_are_found_and_named_by_what_rocr_takes(amd):
    shown = by_uuid(amd)
    assert list(shown) == [FIRST, SECOND]
    assert [gpu["name"] for gpu in shown.values()] == ["AMD GPU 744c"] * 2
    (driver,) = [one for one in amd.json("doctor", code=None)["findings"] if one["check"] == "driver"]
    assert driver["state"] == "ok" and "AMD" in driver["what"]


@pytest.mark.parametrize("keys", ["", 'gpu_env = "index"'])
def test_a_job_sees_its_gpu_alone(amd, keys):
    amd.close_gate()
    amd.submit("[grid]\nseed = [0, 1]\n" + SEEN % (1, keys))
    wait_until(lambda: set(amd.states().values()) == {"running"}, "a job on each GPU")
    assert {gpu["state"] for gpu in by_uuid(amd).values()} == {"busy"}
    amd.open_gate()
    assert amd.wait() == 0
    assert sorted(read(job["log"]).split() for job in amd.ps().values()) == [[SECOND, "0", "0"], [FIRST, "0", "0"]]


def test_a_job_with_both_has_them_numbered(amd):
    amd.submit(SEEN % (2, ""))
    assert amd.wait() == 0
    assert read(amd.only()["log"]).split() == [f"{FIRST},{SECOND}", "0,1", "0,1"]


def test_a_gpu_that_somebody_computes_on_is_left_alone(amd):
    other = subprocess.Popen(["sleep", "1000"])
    try:
        amd.machine.use(FIRST, other.pid, 2 * GIB)
        amd.submit(grid("train", 3, 'gpus = 1\ncommand = ["true"]'))
        assert amd.wait() == 0
        assert {job["gpus"][0] for job in amd.ps().values()} == {SECOND}
        amd.submit(grid("train", 1, 'gpus = 1\ncommand = ["true"]'), "--devices", "0", name="second.toml")
        wait_until(lambda: by_uuid(amd)[FIRST]["state"] == "foreign", "the foreign process")
        assert by_uuid(amd)[FIRST]["holders"][0]["pid"] == other.pid
    finally:
        other.kill()
        other.wait()
