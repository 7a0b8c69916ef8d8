"""What the build does where something that it needs is missing, and what it says of itself."""
import os
import pathlib
import re
import subprocess

import pytest

FACTS = """
cmake_minimum_required(VERSION 3.25)
project(facts LANGUAGES CXX)
add_executable(pergpu main.cc)
target_include_directories(pergpu PRIVATE {root}/src)
include({root}/cmake/build-facts.cmake)
"""
MAIN = """
#include <cstdio>
#include "cli/build_facts.h"
int main() { std::printf("%s, %s", pergpu::cli::kBuildCommit, pergpu::cli::kBuildTarget); }
"""
ROOT = pathlib.Path(__file__).resolve().parents[2]


def embed_page(out, page, web=ROOT / "web", **options):
    command = ["/usr/bin/cmake", "-P", ROOT / "cmake/embed-page.cmake", web, out, page]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **options)


def test_without_npm_the_build_fails_and_says_how_to_leave_the_page_out(tmp_path):
    done = embed_page(tmp_path / "page.cc", "ON", env={"PATH": str(tmp_path)})
    assert done.returncode != 0 and not (tmp_path / "page.cc").exists()
    told = " ".join(done.stderr.split())
    assert "npm is not installed" in told and "-DPERGPU_PAGE=OFF" in told


def test_a_build_without_the_page_needs_no_npm(tmp_path):
    done = embed_page(tmp_path / "page.cc", "OFF", env={"PATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "none" in (tmp_path / "page.cc").read_text()


def test_a_source_distribution_has_the_page_and_needs_no_npm(tmp_path):
    web = tmp_path / "web"
    (web / "page").mkdir(parents=True)
    for name in ("index.html", "app.js", "app.css", "icon.svg"):
        (web / "page" / (name + ".gz")).write_bytes(b"\x1f\x8b" + name.encode())
    done = embed_page(tmp_path / "page.cc", "ON", web=web, env={"PATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert '.path = "/app.js"' in (tmp_path / "page.cc").read_text()


def test_a_page_that_cannot_be_built_fails_the_build(tmp_path):
    web = tmp_path / "web"
    (web / "node_modules").mkdir(parents=True)
    (web / "node_modules/.package-lock.json").touch()
    (web / "package-lock.json").touch()
    os.utime(web / "package-lock.json", (0, 0))  # what is installed is what is locked
    (web / "build.mjs").write_text("throw new Error('no such component')")
    done = embed_page(tmp_path / "page.cc", "ON", web=web)
    assert done.returncode != 0 and not (tmp_path / "page.cc").exists()
    assert "no such component" in done.stderr and "-DPERGPU_PAGE=OFF" in done.stderr


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def git(tmp_path):
    """git(WORD…) in the folder of a test, which is a repository with one commit."""
    def git(*words):
        return run("git", "-c", "user.name=a", "-c", "user.email=a@b", *words, cwd=tmp_path).strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    return git


def commit_of(folder, given=""):
    """That of these sources."""
    out = folder / "build_facts.cc"
    run("/usr/bin/cmake", f"-DSOURCES={folder}", f"-DOUT={out}", "-DTARGET=x86_64-linux-gnu", f"-DCOMMIT={given}",
        "-P", ROOT / "cmake/write-build-facts.cmake")
    return re.search('kBuildCommit = "(.*)"', out.read_text())[1]


def test_a_build_says_which_commit_it_is_of(tmp_path, git):
    head = git("rev-parse", "--short=12", "HEAD")
    assert commit_of(tmp_path) == head
    (tmp_path / "known").touch()
    assert commit_of(tmp_path) == head
    git("add", "known")
    assert commit_of(tmp_path) == head + "-dirty"
    # An archive, although it lies in a repository.
    (tmp_path / "archive").mkdir()
    assert commit_of(tmp_path / "archive") == "unknown"
    (tmp_path / "archive/COMMIT").write_text("0123456789ab\n")
    assert commit_of(tmp_path / "archive") == "0123456789ab"
    assert commit_of(tmp_path / "archive", "abc") == "abc"


def test_a_new_commit_compiles_one_file_again_and_nothing_does_without(tmp_path, git):
    (tmp_path / "CMakeLists.txt").write_text(FACTS.format(root=ROOT))
    (tmp_path / "main.cc").write_text(MAIN)
    folder = tmp_path / "build"

    def build():
        run("/usr/bin/cmake", "--build", folder)
        made = {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.suffix in (".o", "")}
        return run(folder / "pergpu"), {name: made[name] for name in ("main.cc.o", "build_facts.cc.o", "pergpu")}

    run("/usr/bin/cmake", "-S", tmp_path, "-B", folder, "-G", "Ninja", "-DPERGPU_TARGET=vax-linux")
    told, before = build()
    assert told == git("rev-parse", "--short=12", "HEAD") + ", vax-linux"
    assert build() == (told, before)
    git("commit", "-q", "--allow-empty", "-m", "second")
    told, after = build()
    assert told == git("rev-parse", "--short=12", "HEAD") + ", vax-linux"
    assert {name for name in after if after[name] != before[name]} == {"build_facts.cc.o", "pergpu"}
