"""Homes for tests; their end is part of every test: nothing may be left running."""
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
