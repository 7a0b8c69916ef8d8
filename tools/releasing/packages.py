"""What users install: a wheel and an archive of each target, from programs that are built."""
import gzip
import shutil
import tarfile
from pathlib import Path

from . import zig
from .source import epoch
from .steps import fresh


def build_wheel(step, target, source, programs, dist):
    """As `pip install` of the sources does, but nothing is compiled, and with the tag of the target."""
    done = fresh(target.folder / "wheel")
    step.run(zig.python(), "-c", "import sys, scikit_build_core.build as b\n"
             "b.build_wheel(sys.argv[1], {'cmake.define.PERGPU_PROGRAMS': sys.argv[2]})", done, programs,
             cwd=source, env={"SOURCE_DATE_EPOCH": epoch(), "_PYTHON_HOST_PLATFORM": target.wheel_platform})
    return Path(shutil.copy(next(done.glob("*.whl")), dist))


def build_archive(step, target, source, programs, version, dist):
    """What `cmake --install` puts below a prefix, and install.sh, which copies it."""
    name = f"pergpu-{version}-linux-{target.arch}"
    folder = fresh(target.folder / "archive") / name
    without_python = fresh(target.folder / "archive-programs")
    shutil.copytree(programs, without_python, dirs_exist_ok=True)
    (without_python / "_share.abi3.so").unlink()  # of use to the package only, which the wheel has
    build = fresh(target.folder / "archive-build")
    step.run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DPERGPU_PROGRAMS={without_python}")
    step.run("cmake", "--install", build, "--prefix", folder)
    shutil.copy(Path(__file__).with_name("install.sh"), folder)
    path = dist / f"{name}.tar.gz"
    pack(folder, path, int(epoch()))
    return path


def pack(folder, path, time):
    """A .tar.gz that has the same bytes whoever makes it, and whenever."""
    def normal(member):
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = time
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=time) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in [folder, *sorted(folder.rglob("*"))]:
            tar.add(member, member.relative_to(folder.parent), recursive=False, filter=normal)
