"""Libraries from Debian: unmodified source packages of those to compile, headers of the rest."""
import hashlib
import shutil
from pathlib import Path

from .steps import WORK, Failed, fresh, output

SOURCES = WORK / "sources"
# Libraries that are nothing but headers, by the -dev packages in tools/packages.txt.
HEADERS = ("libboost1.74-dev", "libcli11-dev", "libtomlplusplus-dev", "libxxhash-dev", "nlohmann-json3-dev")


def pinned():
    """[(name, version, hash)] of sources.txt."""
    lines = Path(__file__).with_name("sources.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


def apt_options():
    """A configuration of apt whose archives are this machine's own, but of sources, and whose files
    are below WORK."""
    targets = output("apt-get", "indextargets", "--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)",
                     "Origin: Debian", "Created-By: Packages")
    if not targets.strip():
        raise Failed("apt knows no archive of Debian: run `sudo apt-get update`")
    place = WORK / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "sources.list").write_text("".join(sorted(set(targets.splitlines(keepends=True)))))
    return ["-q", "-o", f"Dir::Etc::SourceList={place}/sources.list", "-o", "Dir::Etc::SourceParts=-",
            "-o", f"Dir::State::Lists={place}/lists", "-o", f"Dir::Cache={place}/cache", "-o", "APT::Sandbox::User=root"]


def fetch_sources(step):
    """Unpacks the pinned source packages into SOURCES/NAME."""
    missing = [pin for pin in pinned() if not is_unpacked(*pin)]
    if not missing:
        return
    apt = apt_options()
    step.run("apt-get", *apt, "update")
    for name, version, digest in missing:
        folder = fresh(SOURCES / f"{name}.new")
        try:
            step.run("apt-get", *apt, "source", "--download-only", f"{name}={version}", cwd=folder)
        except Failed as error:
            raise Failed(f"{error}\nIf the archive has a newer version of {name}, put it into "
                         "tools/releasing/sources.txt") from error
        described = next(folder.glob("*.dsc"))
        found = hashlib.sha256(described.read_bytes()).hexdigest()
        if found != digest:
            raise Failed(f"{described.name} has the hash {found}, not that of tools/releasing/sources.txt, {digest}")
        step.run("dpkg-source", "--extract", described, folder / "unpacked")
        shutil.rmtree(SOURCES / name, ignore_errors=True)
        (folder / "unpacked").rename(SOURCES / name)
        shutil.rmtree(folder)
        stamp(name).write_text(f"{version} {digest}")


def stamp(name):
    return SOURCES / f"{name}.version"


def is_unpacked(name, version, digest):
    return stamp(name).exists() and stamp(name).read_text() == f"{version} {digest}"


def link_headers(include, package):
    """Links the headers of an installed package into the folder `include`, which has those alone:
    /usr/include as a whole would bring the machine's own C library."""
    include.mkdir(parents=True, exist_ok=True)
    tops = {Path(path).parts[3] for path in output("dpkg-query", "-L", package).splitlines()
            if path.startswith("/usr/include/")}
    if not tops:
        raise Failed(f"{package} has no headers in /usr/include")
    for top in tops:
        link = include / top
        if not link.is_symlink():
            link.symlink_to(f"/usr/include/{top}")


def link_python(include, arch):
    """Links Python's headers.  What pyconfig.h says of this machine holds for each 64-bit Linux."""
    version = output("/usr/bin/python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").strip()
    host = output("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    for name, path in ((version, f"/usr/include/{version}"),
                       (f"{arch}-linux-gnu/{version}", f"/usr/include/{host}/{version}")):
        link = include / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(path)
    return include / version
