"""Homes for tests; their end is part of every test: nothing may be left running."""
import os

import pytest

import harness


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
