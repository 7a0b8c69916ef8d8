"""What the build does where something that it needs is missing."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def embed_page(out, page, **options):
    command = ["/usr/bin/cmake", "-P", ROOT / "cmake/embed-page.cmake", ROOT / "web", out, page]
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
