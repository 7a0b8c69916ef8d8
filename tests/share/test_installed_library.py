"""libpergpu_share as its users have it: installed below a prefix, found by pkg-config and CMake, used
by a program in C and one in C++ that share a channel.  PERGPU_BUILD: the folder of the build."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = os.environ["PERGPU_BUILD"]
OF_THE_SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libgcc_s.so.1"}


def run(*command, **options):
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=250, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """A prefix that was moved after the installation: nothing in it may name its old place."""
    folder = tmp_path_factory.mktemp("share")
    run("cmake", "--install", BUILD, "--component", "share", "--prefix", folder / "before")
    return (folder / "before").rename(folder / "prefix")


def flags(prefix, *which):
    path = prefix / "lib/pkgconfig"
    return run("pkg-config", *which, "pergpu_share", env={**os.environ, "PKG_CONFIG_PATH": str(path)}).split()


def declared():
    text = (HERE / "../../include/pergpu_share.h").read_text()
    return set(re.findall(r"^PERGPU_SHARE_API [^;(]*?\b(pergpu_share_\w+)\(", text, re.M))


def test_the_component_is_the_library_and_nothing_else(prefix):
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    configurations = {name for name in files if re.fullmatch(r"lib/cmake/pergpu_share/pergpu_share-targets-\w+\.cmake", name)}
    assert len(configurations) == 1
    version = run("pkg-config", "--modversion", prefix / "lib/pkgconfig/pergpu_share.pc").strip()
    package = {"lib/cmake/pergpu_share/pergpu_share-" + name for name in ("config.cmake", "config-version.cmake", "targets.cmake")}
    assert files - configurations - package == {
        "include/pergpu_share.h",
        "include/pergpu_share.hpp",
        "lib/libpergpu_share.so",
        "lib/libpergpu_share.so.1",
        f"lib/libpergpu_share.so.{version}",
        "lib/pkgconfig/pergpu_share.pc",
    }


def test_it_exports_what_the_header_declares_and_needs_nothing_of_pergpu(prefix):
    library = prefix / "lib/libpergpu_share.so.1"
    defined = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert declared() and defined - {"PERGPU_SHARE_1"} == declared()
    undefined = run("nm", "-D", "--undefined-only", "--demangle", library)
    assert "malloc" in undefined and "pergpu" not in undefined and "std::" not in undefined
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library)))
    assert {name for name in needed if not name.startswith("ld-linux")} <= OF_THE_SYSTEM


@pytest.fixture(scope="module")
def programs(prefix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    strict = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion"]
    run("cc", *strict, HERE / "installed/producer.c", "-o", folder / "producer", *flags(prefix, "--cflags", "--libs"), f"-Wl,-rpath,{prefix}/lib")
    run("cmake", "-G", "Ninja", "-S", HERE / "installed", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder / "build")
    return folder / "producer", folder / "build/consumer"


def test_a_program_in_c_and_one_in_cpp_share_a_channel(programs):
    assert re.fullmatch(r"sum 500500\npergpu \d+\.\d+\.\d+, interface 1: sent 1000\n", run(*programs))


def test_the_header_is_c_of_1999_and_cpp_of_2011(prefix, tmp_path):
    """For programs that are older than ours; the second header is C++20, by both compilers."""
    source = tmp_path / "one.c"
    source.write_text("#include <pergpu_share.h>\nint main(void) { return pergpu_share_abi() != PERGPU_SHARE_ABI; }\n")
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", *flags(prefix, "--cflags"), "-fsyntax-only"]
    run("cc", "-std=c99", *strict, source)
    run("c++", "-std=c++11", "-x", "c++", *strict, source)
    source.write_text("#include <pergpu_share.hpp>\nint main() { return pergpu_share::Memory(\"one\", 1).size() != 1; }\n")
    for compiler in filter(shutil.which, ("c++", "clang++")):
        run(compiler, "-std=c++20", "-x", "c++", *strict, source)
