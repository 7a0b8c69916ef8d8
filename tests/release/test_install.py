"""Installing what a release has, on this machine: by pip, by install.sh, and for aarch64 by qemu."""
import os
import platform
import shutil
import subprocess

import pytest
from conftest import ARCHIVES, DIST, VERSION, WHEELS, run

BINFMT = "/usr/lib/binfmt.d/qemu-aarch64.conf"  # what the kernel has to be told of programs for aarch64
LIBRARIES = "/usr/aarch64-linux-gnu"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="for x86-64")


@pytest.fixture
def venv(user):
    """An environment with the wheel, from no index; cloudpickle is not in it."""
    run("/usr/bin/python3", "-m", "venv", user.home / "venv")
    run(user.home / "venv/bin/pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", DIST / WHEELS["x86_64"])
    return user.home / "venv"


@pytest.fixture
def archive(user, unpacked):
    return next(unpacked(ARCHIVES["x86_64"]).iterdir())


def below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_wheel_runs_a_sweep_and_shares_memory(user, venv):
    assert user.run(venv / "bin/pergpu", "--version").startswith(f"pergpu {VERSION} (")
    user.sweep(venv / "bin/pergpu", 20)
    text = "import pergpu._share as n; print(n.__file__, memoryview(n.Array(n.Memory.create('w', 8).map('cow'), 0, (2,), 'float32')).tolist())"
    assert user.run(venv / "bin/python", "-c", text).split(maxsplit=1) == [
        str(next(venv.glob("lib/python3*/site-packages"))) + "/pergpu/_share.abi3.so", "[0.0, 0.0]\n"]


def test_uninstalling_a_wheel_leaves_nothing(user):
    run("/usr/bin/python3", "-m", "venv", user.home / "venv")
    before = [path for path in below(user.home / "venv") if "__pycache__" not in path]
    pip = [user.home / "venv/bin/pip", "--disable-pip-version-check"]
    run(*pip, "install", "-q", "--no-index", "--no-deps", DIST / WHEELS["x86_64"])
    run(*pip, "uninstall", "-q", "-y", "pergpu")
    left = set(below(user.home / "venv")) - set(before)
    assert not [path for path in left if "__pycache__" not in path and not (user.home / "venv" / path).is_dir()]


def test_install_sh_runs_a_sweep_and_names_what_is_missing_in_path(user, archive):
    told = user.run(archive / "install.sh")
    assert f"pergpu {VERSION} (" in told and f'export PATH="{user.home}/.local/bin:$PATH"' in told
    user.env["PATH"] = f"{user.home}/.local/bin:/usr/bin:/bin"
    assert "export PATH" not in user.run(archive / "install.sh")
    user.sweep(user.home / ".local/bin/pergpu", 20)


def test_install_sh_removes_exactly_what_it_installed(user, archive):
    local = user.home / ".local"
    (local / "bin").mkdir(parents=True)
    (local / "bin/other").touch()
    before = below(user.home)
    user.run(archive / "install.sh")
    user.run(archive / "install.sh")
    (local / "share/man/man1/other.1").touch()
    # Where it was unpacked may be gone.
    told = user.run(local / "share/pergpu/install.sh", "--uninstall")
    assert "queue and history in " + user.env["PERGPU_HOME"] in told
    assert below(user.home) == sorted([*before, ".local/share", ".local/share/man", ".local/share/man/man1", ".local/share/man/man1/other.1"])


def test_install_sh_removes_what_an_earlier_version_had(user, archive, tmp_path):
    shutil.copytree(archive, tmp_path / "old")
    (tmp_path / "old/share/pergpu/schema/gone").mkdir()
    (tmp_path / "old/share/pergpu/schema/gone/gone.json").touch()
    place = tmp_path / "place with a space"
    user.run(tmp_path / "old/install.sh", place)
    assert (place / "share/pergpu/schema/gone/gone.json").exists()
    user.run(archive / "install.sh", place)
    assert not (place / "share/pergpu/schema/gone/gone.json").exists()
    user.run(archive / "install.sh", "--uninstall", place)
    assert not place.exists() or not below(place)


def test_install_sh_overwrites_nothing_of_others(user, archive):
    place = user.home / ".local"
    (place / "bin").mkdir(parents=True)
    (place / "bin/pergpu").write_text("of pip")
    done = subprocess.run([archive / "install.sh"], env=user.env, capture_output=True, text=True)
    assert done.returncode == 1 and f"{place}/bin/pergpu exists" in done.stderr
    assert below(place) == ["bin", "bin/pergpu"] and (place / "bin/pergpu").read_text() == "of pip"


def test_install_sh_removes_nothing_while_a_coordinator_runs(user, archive):
    user.run(archive / "install.sh")
    user.pergpu = user.home / ".local/bin/pergpu"
    user.run(user.pergpu, "submit", "--lanes", "1", "--", "sleep", "100")
    done = subprocess.run([archive / "install.sh", "--uninstall"], env=user.env, capture_output=True, text=True)
    assert done.returncode == 1 and "coordinator stop" in done.stderr and user.pergpu.exists()
    user.run(user.pergpu, "coordinator", "stop", "--kill")
    user.run(archive / "install.sh", "--uninstall")
    assert not user.pergpu.exists()


def test_programs_for_aarch64_run_a_sweep(user, unpacked):
    if not os.path.exists(BINFMT) or not os.path.exists(LIBRARIES):
        pytest.skip("no qemu-user-static or libc6-arm64-cross (tools/install-packages release)")
    pergpu = next(unpacked(ARCHIVES["aarch64"]).rglob("bin/pergpu"))
    user.env["QEMU_LD_PREFIX"] = LIBRARIES
    # In a namespace: nothing changes for the rest of the machine.
    emulated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                f'mount -t binfmt_misc b /proc/sys/fs/binfmt_misc && cat {BINFMT} >/proc/sys/fs/binfmt_misc/register && exec "$@"', "-"]
    if subprocess.run([*emulated, "true"], env=user.env, capture_output=True).returncode != 0:
        pytest.skip("no binfmt_misc for a namespace, which is from Linux 6.7 on")
    assert "aarch64-linux-gnu.2.17" in user.run(*emulated, pergpu, "--version")
    jobs = '"$1" run --lanes 2 --name s -g i=1..5 -- sh -c "echo {i} >{out}/n"; "$1" coordinator stop --kill'
    told = user.run(*emulated, "sh", "-c", jobs, "-", pergpu)
    assert sorted(path.read_text() for path in user.home.glob("runs/s/**/n")) == [f"{i}\n" for i in range(1, 6)], told
