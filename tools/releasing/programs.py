"""The programs and the extension of Python for one target, in the form that -DPERGPU_PROGRAMS takes."""
import json
import shutil

from . import debian, libraries, zig
from .debian import SOURCES
from .source import commit
from .steps import WORK, fresh, output
from .zig import Target

# The keeper is static, for which glibc isn't made.
KEEPER_LIBC = "musl"


def build(step, target, source, jobs):
    """Compiles them and gives their folder."""
    prefix = libraries.prefix_of(target)
    keeper = Target(target.arch, KEEPER_LIBC)
    compile_in(step, target, prefix, source, jobs, "pergpu", "pergpu_python")
    compile_in(step, keeper, prefix, source, jobs, "pergpu-keeper")

    folder = fresh(target.folder / "programs")
    for built in (target.folder / "build/pergpu", target.folder / "build/_share.abi3.so", keeper.folder / "build/pergpu-keeper"):
        shutil.copy(built, folder)
    copy_licenses(folder / "licenses")
    return folder


def compile_in(step, target, prefix, source, jobs, *names):
    toolchain = target.write_tools(prefix)
    folder = target.folder / "build"
    python = next((prefix / "include").glob("python3*"))
    step.run("cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
             "-DCMAKE_BUILD_TYPE=Release", "-DCCACHE=", "-DPERGPU_TESTS=OFF", "-DPERGPU_BENCH=OFF",
             "-DPython_EXECUTABLE=/usr/bin/python3", f"-DPython_INCLUDE_DIR={python}",
             f"-DPERGPU_COMMIT={commit()}", f"-DPERGPU_TARGET={target.triple}")
    step.run("cmake", "--build", folder, "-j", jobs, "--target", *names)


def write_completions(step, source, program, folders):
    """Puts completions into the folders; `program` is that of this machine."""
    for folder in folders:
        step.run("cmake", "-P", source / "cmake/completions.cmake", program, folder / "completions")


def copy_licenses(folder):
    """Licenses of pergpu and of all that is in its programs, and a list of them with versions."""
    lib = zig.home() / "lib"
    modules = WORK / "page/web/node_modules"
    zig_version = output(zig.home() / "zig", "version").strip()
    files = {
        "pergpu": ("", WORK / "source/LICENSE"),
        "preact": (module_version(modules / "preact"), modules / "preact/LICENSE"),
        "uplot": (module_version(modules / "uplot"), modules / "uplot/LICENSE"),
        "libc++": (f"of zig {zig_version}", lib / "libcxx/LICENSE.TXT"),
        "libc++abi": (f"of zig {zig_version}", lib / "libcxxabi/LICENSE.TXT"),
        "libunwind": (f"of zig {zig_version}", lib / "libunwind/LICENSE.TXT"),
        "compiler-rt": (f"of zig {zig_version}", zig.home() / "LICENSE"),
        "glibc-start-files": (f"of zig {zig_version}", lib / "libc/glibc/LICENSES"),
        "musl": (f"of zig {zig_version}, in pergpu-keeper", lib / "libc/musl/COPYRIGHT"),
    }
    for name, version, _ in debian.pinned():
        files[name] = (version, SOURCES / name / "debian/copyright")
    for package in debian.HEADERS:
        version = output("dpkg-query", "-W", "-f", "${Version}", package)
        files[package.removeprefix("lib").removesuffix("-dev")] = (version, f"/usr/share/doc/{package}/copyright")
    folder.mkdir()
    for name, (_, path) in files.items():
        shutil.copyfile(path, folder / f"{name}.txt")
    keep_license(folder / "boost1.74.txt", "BSL-1.0")
    (folder / "README").write_text("What is in the programs of this release, each with its license:\n\n" + "".join(
        f"{name} {version}".rstrip() + "\n" for name, (version, _) in sorted(files.items())))


def keep_license(path, name):
    """Leaves one license in a copyright file of Debian that has those of thousands of files."""
    stanzas = path.read_text().split("\n\n")
    path.write_text(next(stanza for stanza in stanzas if stanza.startswith(f"License: {name}\n")) + "\n")


def module_version(folder):
    return json.loads((folder / "package.json").read_text())["version"]
