"""pergpu.tqdm: a bar that is told of beside the job."""
import importlib
import sys

import pytest

pytest.importorskip("tqdm")

from pergpu import _notify  # noqa: E402
from pergpu import tqdm as module  # noqa: E402


@pytest.fixture
def told(monkeypatch):
    """What a job has told of, all of it."""
    lines = []
    monkeypatch.setenv("PERGPU_JOB", "1")
    monkeypatch.setattr(_notify, "_tell", lines.append)
    monkeypatch.setattr(_notify, "_PAUSE_S", 0)
    importlib.reload(module)
    return lines


def test_the_bar_of_a_job_is_told_and_not_drawn(told, capfd):
    with module.tqdm(total=3, desc="epoch", mininterval=0, miniters=1) as bar:
        for loss in (0.5, 0.25, 0.125):
            bar.set_postfix(loss=loss, refresh=False)
            bar.update()
    assert [line for line in told if "PROGRESS" in line][-1] == "PROGRESS=3/3"
    words = [line for line in told if "STATUS" in line][-1]
    assert words.startswith("STATUS=epoch, loss=0.125, ") and words.endswith("/s")
    assert capfd.readouterr() == ("", "")


def test_of_bars_in_bars_the_outermost_is_told(told):
    for _ in module.trange(2, desc="outer", mininterval=0, miniters=1):
        for _ in module.trange(5, desc="inner", mininterval=0, miniters=1):
            pass
    assert not [line for line in told if "/5" in line or "inner" in line]
    assert "PROGRESS=2/2" in told


def test_what_goes_through_it_is_unchanged(told):
    assert list(module.tqdm("abc")) == ["a", "b", "c"]
    assert list(module.tqdm(iter("ab"), disable=None)) == ["a", "b"]
    assert list(module.tqdm("abc", None, 3, True, sys.stderr)) == ["a", "b", "c"]
    assert isinstance(module.tqdm("abc"), module.tqdm) and callable(module.tqdm.write)
    before = len(told)
    assert list(module.tqdm("abc", disable=True)) == ["a", "b", "c"] and len(told) == before


def test_outside_of_a_job_it_is_that_of_tqdm(monkeypatch, capfd):
    monkeypatch.delenv("PERGPU_JOB", raising=False)
    importlib.reload(module)
    assert module.tqdm is module.plain
    list(module.tqdm("abc", mininterval=0))
    assert "3/3" in capfd.readouterr().err
