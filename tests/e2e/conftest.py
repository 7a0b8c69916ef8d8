"""Homes for tests; their end is part of every test: nothing may be left running."""
import os
import shutil

import pytest
from pages import ROOT

import harness
import slurm_cluster


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.failed = outcome.get_result().failed


@pytest.fixture
def new_home(request):
    """Makes a home at each call."""
    homes = []

    def make():
        homes.append(harness.Home())
        return homes[-1]

    yield make
    remains, bugs, logs = harness.close(homes)
    if getattr(request.node, "failed", True):
        print(logs)
    assert not remains, "processes were left behind"
    assert not bugs, bugs


@pytest.fixture
def home(new_home):
    return new_home()


@pytest.fixture
def package(home):
    """Jobs of the home import pergpu with its compiled part, and share memory with those of no other home."""
    folder = os.path.dirname(harness.PERGPU)
    if not os.path.exists(folder + "/_share.abi3.so"):
        pytest.skip("the compiled part of the package is not built")
    os.mkdir(home.root + "/runtime", 0o700)
    home.env["XDG_RUNTIME_DIR"] = home.root + "/runtime"
    home.env["PATH"] = f"{folder}:{home.env['PATH']}"  # where jobs find pergpu, and so its compiled part
    home.env["PYTHONPATH"] = ROOT + "/python"
    home.env["PYTHONDONTWRITEBYTECODE"] = "1"


@pytest.fixture
def example(home, package):
    """example(NAME) brings an example of that name into the home's folder."""
    return lambda name: shutil.copytree(f"{ROOT}/examples/{name}", home.work, dirs_exist_ok=True,
                                        ignore=shutil.ignore_patterns("runs"))  # fmt: skip


def start_slurm(accounting=False, **settings):
    reason = slurm_cluster.why_not(accounting)
    if reason:
        pytest.skip(reason)
    cluster = slurm_cluster.SlurmCluster(accounting=accounting, **settings)
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    return cluster


@pytest.fixture(scope="module")
def slurm_of_module():
    cluster = start_slurm()
    yield cluster
    cluster.stop()


@pytest.fixture
def slurm(slurm_of_module, home):
    """A Slurm, empty, that the home can use."""
    slurm_of_module.clear()
    home.env.update(slurm_of_module.env)
    yield slurm_of_module
    home.stop()
    slurm_of_module.clear()


@pytest.fixture
def new_slurm():
    """Makes one that the test may break; how many nodes, whether with accounting, settings of slurm.conf as keywords."""
    made = []

    def make(**settings):
        made.append(start_slurm(**settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def freeze():
    """Puts a process to sleep uninterruptibly, by the freezer of cgroup v1."""
    folder = f"/sys/fs/cgroup/freezer/pergpu-test-{os.getpid()}"
    try:
        os.mkdir(folder)
    except OSError as error:
        pytest.skip(f"no freezer of cgroup v1 that we may use: {error}")

    def write(name, value):
        with open(f"{folder}/{name}", "w") as f:
            f.write(str(value))

    def freeze(pid):
        write("cgroup.procs", pid)
        write("freezer.state", "FROZEN")
        harness.wait_until(lambda: harness.read(folder + "/freezer.state") == "FROZEN\n", "the freezer")

    freeze.thaw = lambda: write("freezer.state", "THAWED")
    yield freeze
    freeze.thaw()
    harness.wait_until(lambda: not os.path.exists(folder) or remove(folder), "the freezer's end")


def remove(folder):
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True
