"""The steps of tools/release, which installs what they need and then runs this package."""
import argparse
import hashlib
import os
import re
import sys

from . import debian, libraries, packages, programs, source, zig
from .steps import ROOT, WORK, Failed, Step, fresh

# RHEL 7 and later; Python's tag for it is manylinux_2_17.
TARGETS = {arch: zig.Target(arch, "gnu.2.17") for arch in ("x86_64", "aarch64")}


def main():
    parser = argparse.ArgumentParser(prog="tools/release", add_help=False)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    machine = os.uname().machine
    targets = [TARGETS[machine]] if arguments.native else list(TARGETS.values())
    try:
        if source.is_dirty():
            print("release: what isn't committed is left out", file=sys.stderr)
        release(targets, arguments.jobs)
    except Failed as failed:
        print(f"\nrelease: {failed}", file=sys.stderr)
        return 1
    return 0


def release(targets, jobs):
    WORK.mkdir(parents=True, exist_ok=True)
    dist = fresh(ROOT / "dist")
    with Step("compiler") as step:
        zig.install(step)
    with Step("page") as step:
        checkout = source.export(step)
        source.build_page(step, checkout)
    with Step("source") as step:
        sdist = source.build_sdist(step, checkout, dist)
        sources = source.unpack(sdist)
    version = re.fullmatch(r"pergpu-(.+)\.tar\.gz", sdist.name)[1]
    with Step("libraries-sources") as step:
        debian.fetch_sources(step)
    built = {}
    for target in targets:
        with Step(f"libraries-{target.arch}") as step:
            libraries.build(step, target, jobs)
        with Step(f"programs-{target.arch}") as step:
            built[target] = programs.build(step, target, sources, jobs)
    with Step("completions") as step:
        # Those of one program that runs here are those of all.
        programs.write_completions(step, sources, built[TARGETS[os.uname().machine]] / "pergpu", built.values())
    for target, folder in built.items():
        with Step(f"packages-{target.arch}") as step:
            packages.build_wheel(step, target, sources, folder, dist)
            packages.build_archive(step, target, sources, folder, version, dist)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")


if __name__ == "__main__":
    sys.exit(main())
