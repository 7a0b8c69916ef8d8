"""The homes of tests/e2e, and one whose results lie in a folder of two users."""
import importlib.util
import os
import sys

import pytest

END_TO_END = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e")
sys.path.insert(0, END_TO_END)

spec = importlib.util.spec_from_file_location("conftest_of_end_to_end", END_TO_END + "/conftest.py")
end_to_end = importlib.util.module_from_spec(spec)
spec.loader.exec_module(end_to_end)
home, new_home = end_to_end.home, end_to_end.new_home
pytest_runtest_makereport = end_to_end.pytest_runtest_makereport


@pytest.fixture
def lab(home):
    """Two users who share a results folder; all commands are those of the first one."""
    if os.geteuid() != 0:
        pytest.skip("needs root or newuidmap, to be other users (tests/security/start)")
    import two_users

    return two_users.Lab(home)
