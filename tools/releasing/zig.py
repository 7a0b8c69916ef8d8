"""The compiler of a release: zig, which is clang with the C and C++ libraries of every target.

What is compiled for a glibc needs no newer one, whatever this machine has.  A static program can't
have glibc: the keeper has musl.
"""
from dataclasses import dataclass
from pathlib import Path

from .steps import ROOT, WORK, write

TOOLBOX = WORK / "toolbox"  # a virtual environment with requirements.txt


def install(step):
    """Makes TOOLBOX and gives its Python."""
    wanted = Path(__file__).with_name("requirements.txt")
    done = TOOLBOX / "requirements.txt"
    if not done.exists() or done.read_text() != wanted.read_text():
        step.run("/usr/bin/python3", "-m", "venv", "--clear", TOOLBOX)
        step.run(python(), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--require-hashes",
                 "--only-binary=:all:", "-r", wanted)
        done.write_text(wanted.read_text())


def python():
    return TOOLBOX / "bin/python"


def home():
    """The folder of zig: the program and the libraries."""
    return next(TOOLBOX.glob("lib/python3*/site-packages/ziglang"))


@dataclass(frozen=True)
class Target:
    arch: str  # x86_64, aarch64
    libc: str  # gnu.2.17, musl

    @property
    def triple(self):
        return f"{self.arch}-linux-{self.libc}"

    @property
    def folder(self):
        return WORK / self.triple

    @property
    def wheel_platform(self):
        return f"manylinux_{self.libc.removeprefix('gnu.').replace('.', '_')}_{self.arch}"

    def tool(self, name):
        return self.folder / "bin" / name

    def write_tools(self, prefix):
        """Writes cc, c++, ar and ranlib of this target, and toolchain.cmake, which finds libraries in
        `prefix` alone."""
        # Nothing of where it was built gets into what is built.  -O2: the C++ library is compiled as the
        # program is that CMake tries the compiler with, so once is enough.
        compile_for = (f"-target {self.triple} -ffile-prefix-map={WORK}/source=. -ffile-prefix-map={WORK}=. "
                       f"-ffile-prefix-map={ROOT}=. -g0 -O2")
        for name, words in (("cc", f"cc {compile_for}"), ("c++", f"c++ {compile_for}"), ("ar", "ar"), ("ranlib", "ranlib")):
            write(self.tool(name), "#!/bin/sh\n"
                  f"export ZIG_GLOBAL_CACHE_DIR='{WORK}/zig-cache' ZIG_LOCAL_CACHE_DIR='{WORK}/zig-cache'\n"
                  f"exec '{home()}/zig' {words} \"$@\"\n", 0o755)
        write(self.folder / "toolchain.cmake", f"""
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR {self.arch})
set(CMAKE_C_COMPILER {self.tool('cc')})
set(CMAKE_CXX_COMPILER {self.tool('c++')})
set(CMAKE_AR {self.tool('ar')})
set(CMAKE_RANLIB {self.tool('ranlib')})
set(CMAKE_C_FLAGS_INIT "-isystem {prefix}/include")
set(CMAKE_CXX_FLAGS_INIT "-isystem {prefix}/include")
set(CMAKE_EXE_LINKER_FLAGS_INIT -s)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)
set(CMAKE_FIND_ROOT_PATH {prefix})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{{PKG_CONFIG_LIBDIR}} {prefix}/lib/pkgconfig)
set(ENV{{PKG_CONFIG_PATH}} "")
""".lstrip())
        return self.folder / "toolchain.cmake"


