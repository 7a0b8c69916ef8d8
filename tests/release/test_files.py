"""What a release has in it, and what its programs need of the machine that they run on."""
import base64
import csv
import hashlib
import os
import re
import stat
import subprocess
import tarfile

import pytest
from conftest import ARCHIVES, DIST, ROOT, SDIST, WHEELS, run, sha256

BOTH = {**{f"wheel-{arch}": name for arch, name in WHEELS.items()}, **{f"archive-{arch}": name for arch, name in ARCHIVES.items()}}
OF_GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
NEWEST = (2, 17)


def programs(folder):
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.open("rb").read(4) == b"\x7fELF":
            found[path.name] = path
    return found


def test_all_files_are_there_with_their_hashes():
    names = {*WHEELS.values(), *ARCHIVES.values(), SDIST}
    assert {path.name for path in DIST.iterdir()} == names | {"SHA256SUMS"}
    told = dict(reversed(line.split()) for line in (DIST / "SHA256SUMS").read_text().splitlines())
    assert told == {name: sha256(DIST / name) for name in names}


@pytest.mark.parametrize("name", BOTH.values(), ids=BOTH)
def test_programs_need_glibc_alone_and_none_that_is_newer_than_the_tag(name, unpacked):
    arch = next(arch for arch in MACHINES if arch in name)
    found = programs(unpacked(name))
    assert set(found) == {"pergpu", "pergpu-keeper"} | ({"_share.abi3.so"} if name.endswith(".whl") else set())
    for path in found.values():
        assert MACHINES[arch] in run("readelf", "-h", path)
        dynamic = run("readelf", "-d", path)
        assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic)) <= OF_GLIBC
        assert "RPATH" not in dynamic and "RUNPATH" not in dynamic
        versions = re.findall(r"Name: (\S+)", run("readelf", "-V", path))
        for version in versions:
            number = re.fullmatch(r"GLIBC_([0-9.]+)", version)
            assert number and tuple(map(int, number[1].split("."))) <= NEWEST, f"{path.name} needs {version}"
        if path.name != "pergpu-keeper":
            assert versions, f"{path.name} has no versioned symbols: glibc isn't what it's for"


@pytest.mark.parametrize("name", BOTH.values(), ids=BOTH)
def test_the_keeper_is_static_and_runs_with_any_c_library(name, unpacked):
    keeper = programs(unpacked(name))["pergpu-keeper"]
    assert "NEEDED" not in run("readelf", "-d", keeper) and "INTERP" not in run("readelf", "-l", keeper)


@pytest.mark.parametrize("name", WHEELS.values(), ids=WHEELS)
def test_the_extension_shows_its_entry_alone(name, unpacked):
    symbols = run("readelf", "-W", "--dyn-syms", programs(unpacked(name))["_share.abi3.so"])
    defined = [line.split()[7] for line in symbols.splitlines()
               if re.search(r" (GLOBAL|WEAK) ", line) and " UND " not in line and len(line.split()) > 7]
    assert defined == ["PyInit__share"]


@pytest.mark.parametrize("name", [*BOTH.values(), SDIST], ids=[*BOTH, "source"])
def test_nothing_tells_where_it_was_built(name, unpacked):
    for path in unpacked(name).rglob("*"):
        if path.is_file():
            assert os.fsencode(ROOT / "build") not in path.read_bytes(), path


@pytest.mark.parametrize("name", BOTH.values(), ids=BOTH)
def test_man_page_completions_schema_and_licenses_are_there(name, unpacked):
    share = next(unpacked(name).rglob("share/pergpu/schema")).parent.parent
    for path in ("man/man1/pergpu.1", "bash-completion/completions/pergpu", "zsh/site-functions/_pergpu",
                 "fish/vendor_completions.d/pergpu.fish", "pergpu/schema/sweep.json"):
        assert (share / path).stat().st_size > 0, path
    licenses = share / "doc/pergpu/licenses"
    listed = {line.split()[0] for line in (licenses / "README").read_text().splitlines()[2:]}
    assert listed == {path.stem for path in licenses.glob("*.txt")}
    assert {"boost1.74", "cli11", "fmtlib", "libc++", "musl", "ncurses", "nlohmann-json3", "pergpu", "preact", "sqlite3",
            "tomlplusplus", "uplot", "xxhash", "yaml-cpp"} <= listed


@pytest.mark.parametrize("name", WHEELS.values(), ids=WHEELS)
def test_a_wheel_is_what_its_name_says(name, unpacked):
    info = next(unpacked(name).glob("*.dist-info"))
    tag = name.removesuffix(".whl").split("-", 2)[2]
    assert re.findall("^Tag: (.*)", (info / "WHEEL").read_text(), re.M) == [tag]
    recorded = {row[0]: row for row in csv.reader((info / "RECORD").read_text().splitlines())}
    files = {str(path.relative_to(unpacked(name))): path for path in unpacked(name).rglob("*") if path.is_file()}
    assert set(recorded) == set(files)
    for path, digest, size in recorded.values():
        if digest:
            data = files[path].read_bytes()
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == ("sha256=" + expected, len(data)), path


@pytest.mark.parametrize("name", WHEELS.values(), ids=WHEELS)
def test_auditwheel_accepts_the_tag(name, tmp_path):
    run("/usr/bin/python3", "-m", "venv", tmp_path / "venv")
    got = subprocess.run([tmp_path / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", "auditwheel"],
                         capture_output=True, text=True)
    if got.returncode != 0:
        pytest.skip("no package index to fetch auditwheel from: " + got.stderr[-300:])
    platform = name.removesuffix(".whl").rpartition("-")[2]
    told = " ".join(run(tmp_path / "venv/bin/auditwheel", "show", DIST / name).split())
    assert f'consistent with the following platform tag: "{platform}"' in told, told


@pytest.mark.parametrize("name", ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_is_one_folder_of_nobody(name):
    with tarfile.open(DIST / name) as archive:
        members = archive.getmembers()
    assert {member.name.split("/")[0] for member in members} == {name.removesuffix(".tar.gz")}
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    assert all(member.isfile() or member.isdir() for member in members)
    executable = {member.name.split("/")[-1] for member in members if member.isfile() and member.mode & stat.S_IXUSR}
    assert executable == {"pergpu", "pergpu-keeper", "install.sh"}


def test_the_source_distribution_has_the_page_and_its_commit(unpacked):
    source = next(unpacked(SDIST).iterdir())
    assert {path.name for path in (source / "web/page").glob("*.gz")} == {"index.html.gz", "app.js.gz", "app.css.gz", "icon.svg.gz"}
    assert not (source / "web/node_modules").exists()
    assert re.fullmatch("[0-9a-f]{12}\n", (source / "COMMIT").read_text())
    assert (source / "PKG-INFO").exists() and os.access(source / "test", os.X_OK)
