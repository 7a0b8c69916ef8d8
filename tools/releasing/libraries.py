"""Libraries that a release is linked with, compiled for one target into one folder."""
from . import debian
from .debian import SOURCES
from .steps import WORK, fresh, write

# As in Debian, with which pergpu is tested; but extensions can't be loaded.
SQLITE = """-O2 -fPIC -fno-strict-aliasing -DNDEBUG -DSQLITE_THREADSAFE=1 -DSQLITE_SECURE_DELETE
 -DSQLITE_MAX_VARIABLE_NUMBER=250000 -DSQLITE_OMIT_LOOKASIDE=1 -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_USE_URI=1
 -DSQLITE_MAX_SCHEMA_RETRY=25 -DSQLITE_OMIT_LOAD_EXTENSION -DHAVE_FDATASYNC=1 -DHAVE_USLEEP=1 -DHAVE_GMTIME_R=1
 -DHAVE_LOCALTIME_R=1 -DHAVE_PREAD=1 -DHAVE_PWRITE=1""".split()
# Terminals that `pergpu top` knows on machines without terminfo.
TERMINALS = """alacritty ansi dumb foot kitty linux rxvt screen screen-256color tmux tmux-256color vt100 vt220 xterm
 xterm-256color""".split()
TERMINFO = "/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo:/usr/local/share/terminfo"


def prefix_of(target):
    return target.folder / "prefix"


def build(step, target, jobs):
    """Builds all of them, unless they are built from these sources."""
    prefix = prefix_of(target)
    toolchain = target.write_tools(prefix)
    recipe = repr((debian.pinned(), SQLITE, TERMINALS, TERMINFO))
    done = target.folder / "libraries-done"
    if done.exists() and done.read_text() == recipe:
        return
    done.unlink(missing_ok=True)
    fresh(prefix)
    for package in debian.HEADERS:
        debian.link_headers(prefix / "include", package)
    debian.link_python(prefix / "include", target.arch)
    build_with_cmake(step, target, toolchain, jobs, "fmtlib", "-DFMT_TEST=OFF", "-DFMT_DOC=OFF")
    build_with_cmake(step, target, toolchain, jobs, "yaml-cpp", "-DYAML_CPP_BUILD_TESTS=OFF", "-DYAML_CPP_BUILD_TOOLS=OFF",
                     "-DYAML_BUILD_SHARED_LIBS=OFF")
    build_sqlite(step, target)
    build_ncurses(step, target, jobs)
    done.write_text(recipe)


def build_with_cmake(step, target, toolchain, jobs, name, *options):
    folder = fresh(target.folder / name)
    step.run("cmake", "-S", SOURCES / name, "-B", folder, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
             "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
             f"-DCMAKE_INSTALL_PREFIX={prefix_of(target)}", "-DCMAKE_INSTALL_LIBDIR=lib", *options)
    step.run("cmake", "--build", folder, "-j", jobs)
    step.run("cmake", "--install", folder)


def amalgamate_sqlite(step):
    """SQLite as one source, which its own scripts make of its sources, the same for every target."""
    folder = WORK / "sqlite"
    done = folder / "done"
    version = debian.stamp("sqlite3").read_text()
    if not done.exists() or done.read_text() != version:
        fresh(folder)
        step.run(SOURCES / "sqlite3/configure", "--disable-tcl", "--disable-readline", cwd=folder)
        step.run("make", "sqlite3.c", "sqlite3.h", cwd=folder)
        done.write_text(version)
    return folder


def build_sqlite(step, target):
    source = amalgamate_sqlite(step)
    prefix = prefix_of(target)
    folder = fresh(target.folder / "sqlite3")
    step.run(target.tool("cc"), *SQLITE, "-c", source / "sqlite3.c", "-o", folder / "sqlite3.o")
    step.run(target.tool("ar"), "rcs", prefix / "lib/libsqlite3.a", folder / "sqlite3.o")
    (prefix / "include/sqlite3.h").write_bytes((source / "sqlite3.h").read_bytes())
    version = (SOURCES / "sqlite3/VERSION").read_text().strip()
    write(prefix / "lib/pkgconfig/sqlite3.pc",
          f"Name: SQLite\nDescription: SQL database engine\nVersion: {version}\n"
          f"Cflags: -I{prefix}/include\nLibs: -L{prefix}/lib -lsqlite3 -lpthread -ldl -lm\n")


def build_ncurses(step, target, jobs):
    prefix = prefix_of(target)
    folder = fresh(target.folder / "ncurses")
    step.run(SOURCES / "ncurses/configure", "--build=x86_64-linux-gnu", f"--host={target.arch}-linux-gnu",
             f"--prefix={prefix}", f"--with-pkg-config-libdir={prefix}/lib/pkgconfig", "--enable-pc-files",
             "--enable-widec", "--enable-overwrite", "--without-shared", "--with-normal", "--without-debug", "--without-ada",
             "--without-cxx", "--without-cxx-binding", "--without-progs", "--without-tests", "--without-manpages",
             "--without-gpm", "--without-dlsym", "--disable-db-install", "--disable-stripping", "--disable-home-terminfo",
             "--with-default-terminfo-dir=/usr/share/terminfo", f"--with-terminfo-dirs={TERMINFO}",
             f"--with-fallbacks={','.join(TERMINALS)}", "--with-build-cc=cc", cwd=folder,
             env={"CC": str(target.tool("cc")), "AR": str(target.tool("ar")), "RANLIB": str(target.tool("ranlib")),
                  "CFLAGS": "-O2 -fPIC", "CPPFLAGS": "", "LDFLAGS": ""})
    step.run("make", "-j", jobs, "libs", cwd=folder)
    step.run("make", "install.libs", "install.includes", cwd=folder)
