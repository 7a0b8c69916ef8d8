"""What the build does where something that it needs is missing, and what it says of itself."""
import os
import pathlib
import subprocess

FACTS = """
cmake_minimum_required(VERSION 3.25)
project(facts LANGUAGES NONE)
include({root}/cmake/build-facts.cmake)
get_source_file_property(facts src/cli/main.cc COMPILE_DEFINITIONS)
message(STATUS "facts: ${{facts}}")
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


def build_facts(folder, *options):
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(FACTS.format(root=ROOT))
    command = ["/usr/bin/cmake", "-S", folder, "-B", folder / "build", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if "facts: " in line)


def test_a_build_says_which_commit_it_is_of(tmp_path):
    def git(*words):
        names = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    commit = git("rev-parse", "--short=12", "HEAD").strip()
    assert f'PERGPU_COMMIT="{commit}"' in build_facts(tmp_path)
    # An archive, although it lies in a repository.
    assert 'PERGPU_COMMIT="unknown"' in build_facts(tmp_path / "archive")
    (tmp_path / "archive/COMMIT").write_text("0123456789ab\n")
    assert 'PERGPU_COMMIT="0123456789ab"' in build_facts(tmp_path / "archive")
    given = build_facts(tmp_path / "archive", "-DPERGPU_COMMIT=abc", "-DPERGPU_TARGET=x86_64-linux-gnu.2.17")
    assert 'PERGPU_COMMIT="abc"' in given and 'PERGPU_TARGET="x86_64-linux-gnu.2.17"' in given
