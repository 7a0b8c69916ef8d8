"""Warnings of calls that are held: which of them are told, and how often."""
import warnings

import pytest

import pergpu
from pergpu._held import HeldJobs


class Backend:
    broken = None

    def break_down(self, why, cause=None):
        self.broken = why, cause


@pytest.fixture
def see():
    """How often it warned of jobs: (id, state, reason)."""
    held = HeldJobs()

    def told(*jobs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for job, state, reason in jobs:
                held.see({"id": job, "sweep": "s", "state": state, "reason": reason}, "call f()", Backend())
        assert all(one.category is pergpu.HeldWarning for one in caught)
        return [str(one.message) for one in caught]

    return told


def test_what_why_and_how_to_let_it_go_on_are_told(see):
    (words,) = see((3, "held", "held by hand"))
    assert words == ("call f() (job 3) is held: held by hand; `pergpu release 3` releases it, "
                     "`pergpu release s` all jobs that are held with it")  # fmt: skip


def test_a_hold_of_many_is_told_once_and_another_reason_is_told(see):
    assert len(see((1, "held", "by hand"), (2, "held", "by hand"), (1, "held", "by hand"), (3, "held", "refused"))) == 2
    assert len(see((2, "queued", ""), (2, "held", "by hand"))) == 0, "of 1 it was told"


def test_the_same_is_not_told_twice_of_the_same_job(see):
    assert len(see((1, "held", "by hand"), (1, "held", "by hand"))) == 1


def test_a_second_hold_is_told_again(see):
    jobs = [(1, "held", "by hand"), (2, "held", "by hand"), (1, "queued", ""), (2, "cancelled", ""), (1, "held", "by hand")]
    assert len(see(*jobs)) == 2


def test_where_a_warning_is_an_error_all_of_it_fails():
    backend = Backend()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pergpu.HeldWarning)
        HeldJobs().see({"id": 1, "sweep": "s", "state": "held", "reason": "by hand"}, "call f()", backend)
    why, cause = backend.broken
    assert "call f() (job 1) is held" in why and isinstance(cause, pergpu.HeldWarning)
