"""The source distribution: the committed files, the page, built, and the commit."""
import filecmp
import functools
import os
import shutil
import tarfile

from . import zig
from .steps import ROOT, WORK, fresh, output


@functools.cache
def commit():
    """The commit that is released, also if another is checked out meanwhile."""
    return output("git", "rev-parse", "--short=12", "HEAD").strip()


def epoch():
    """When the commit was made: the date of all that a release has in it."""
    return output("git", "log", "-1", "--format=%ct", commit()).strip()


def is_dirty():
    return bool(output("git", "status", "--porcelain").strip())


def export(step):
    """The committed files, in a folder of their own."""
    folder = fresh(WORK / "checkout")
    archive = WORK / "checkout.tar"
    step.run("git", "-c", "tar.umask=0022", "archive", "-o", archive, commit(), cwd=ROOT)
    step.run("tar", "-xf", archive, "-C", folder)
    archive.unlink()
    return folder


def build_page(step, checkout):
    """Builds the page with npm, into web/page of the checkout."""
    build = fresh(WORK / "page")
    shutil.copytree(checkout / "web", build / "web")
    step.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=build / "web")
    step.run("node", "build.mjs", checkout / "web/page", cwd=build / "web")


def build_sdist(step, checkout, dist):
    """Makes the source distribution of a checkout with its page; gives its path."""
    (checkout / "COMMIT").write_text(commit() + "\n")
    step.run(zig.python(), "-c", "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])", dist,
             cwd=checkout, env={"SOURCE_DATE_EPOCH": epoch()})
    return max(dist.glob("pergpu-*.tar.gz"), key=lambda path: path.stat().st_mtime_ns)


def unpack(sdist):
    """The folder WORK/source with what a source distribution has in it.  What is there already keeps
    its time, so that nothing is compiled again for it."""
    new = fresh(WORK / "source.new")
    with tarfile.open(sdist) as tar:
        tar.extractall(new)
    unpacked = next(new.iterdir())
    source = WORK / "source"
    source.mkdir(exist_ok=True)
    wanted = {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()}
    for path in [path for path in source.rglob("*") if path.is_file()]:
        if path.relative_to(source) not in wanted:
            path.unlink()
    for name in wanted:
        target = source / name
        if target.exists() and filecmp.cmp(unpacked / name, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(unpacked / name, target)
        os.utime(target)
    shutil.rmtree(new)
    return source
