"""metrics() and best(): the files and the table complete each other."""
import json
import math
import os

import pergpu
import pytest
from pergpu import _reported, _results, _table

NOW = 1_800_000_000_000_000_000  # ns


class Sweep:
    """Jobs as the program tells of them, and what the table has of them."""

    def __init__(self, folder):
        self.folder, self.jobs, self.slots = folder, [], []

    def job(self, text, *, run=None, step="train", state="done", **more):
        number = len(self.jobs) + 1
        run = f"{number:02}" if run is None else run
        out = self.folder / run / step
        out.mkdir(parents=True, exist_ok=True)
        file = out / "metrics.jsonl"
        if text is not None:
            file.write_text(text)
            os.utime(file, ns=(NOW, NOW))
        job = {
            "id": number, "attempt": 1, "run": run, "index": number, "step": step, "state": state, "out": str(out),
            "metrics": str(file), "params": {"seed": number}, "last_metrics": {}, **more,
        }  # fmt: skip
        self.jobs.append(job)
        return file

    def slot(self, job, values, *, after_s=0.0, alive=True):
        place = os.path.relpath(self.jobs[job - 1]["out"], self.folder)
        when = NOW + int(after_s * 1e9)
        self.slots.append(_table.Slot(job, 1, 1000 + job, alive, NOW, when, 1, place, values))


@pytest.fixture(autouse=True)
def sweep(tmp_path, monkeypatch):
    for name in ("PERGPU_JOB", "PERGPU_OUT"):
        monkeypatch.delenv(name, raising=False)
    found = Sweep(tmp_path / "runs" / "s")
    monkeypatch.setattr(_results, "exported", lambda selectors, env=None: found.jobs)
    monkeypatch.setattr(_reported, "slots_of", lambda folder: found.slots if folder == str(found.folder) else [])
    return found


def test_of_a_file_every_name_counts_and_not_its_newest_line_only(sweep):
    sweep.job('{"step": 1, "loss": 3, "val": 0.5, "phase": "a"}\n{"step": 2, "loss": 1.5}\n{"step": 3, "loss": 2, "nested": [1]}\n')
    (job,) = pergpu.metrics()
    assert job == {"step": 3, "loss": 2, "val": 0.5, "phase": "a"}
    assert (job.run, job.step, job.job, job.params, job.alive) == ("01", "train", 1, {"seed": 1}, False)
    assert job.last("loss") == (2, 3) and job.last("val") == (0.5, 1)
    assert job.best("loss") == (1.5, 2) and job.best("loss", "max") == (3, 1)
    with pytest.raises(KeyError, match="accuracy"):
        job.best("accuracy")


def test_what_is_added_to_a_file_is_seen_and_half_a_line_is_none(sweep):
    file = sweep.job('{"loss": 3}\n{"lo')
    assert pergpu.best("loss").value == 3
    with open(file, "a") as more:
        more.write('ss": 2}\nno json\n[1]\n{"loss": 1}')  # its end of line comes later
    assert pergpu.best("loss").value == 1
    with open(file, "a") as more:
        more.write('\n{"loss": 5}\n')
    assert pergpu.metrics()[0] == {"loss": 5} and pergpu.best("loss").value == 1
    file.write_text('{"loss": 9}\n')  # another one
    assert pergpu.best("loss").value == 9
    file.unlink()
    with pytest.raises(LookupError):
        pergpu.best("loss")


def test_the_table_is_ahead_of_the_file(sweep):
    sweep.job('{"step": 1, "loss": 3, "phase": "a"}\n', state="running")
    sweep.slot(1, {"loss": ((2, 9), (0.5, 7), (4, 5)), "new": ((1, None), (1, None), (1, None))}, after_s=0.1)
    (job,) = pergpu.metrics()
    assert job == {"step": 1, "loss": 2, "phase": "a", "new": 1} and job.alive
    assert job.last("loss") == (2, 9) and job.best("loss") == (0.5, 7) and job.best("loss", "max") == (4, 5)


def test_a_file_that_was_written_later_is_ahead_of_the_table(sweep):
    sweep.job('{"step": 1, "loss": 3}\n')
    sweep.slot(1, {"loss": ((2, 9), (0.5, 7), (4, 5))}, after_s=-60)
    (job,) = pergpu.metrics()
    assert job.last("loss") == (3, 1) and job.best("loss") == (0.5, 7)


def test_of_several_processes_of_a_job_the_newest_counts(sweep):
    sweep.job(None)
    sweep.slot(1, {"loss": ((2, 2), (2, 2), (2, 2))}, after_s=5)
    sweep.slot(1, {"loss": ((1, 1), (1, 1), (7, 0)), "rank": ((3, None), None, None)}, after_s=4)
    (job,) = pergpu.metrics()
    assert job == {"loss": 2, "rank": 3} and job.best("loss") == (1, 1) and job.best("loss", "max") == (7, 0)


def test_best_ever_or_best_at_last(sweep):
    sweep.job('{"step": 1, "loss": 1}\n{"step": 2, "loss": 5}\n')
    sweep.job('{"step": 1, "loss": 4}\n{"step": 2, "loss": 3}\n', state="failed")
    best = pergpu.best("loss")
    assert (best.run, best.value, best.at_step, best.params, best.alive) == ("01", 1, 1, {"seed": 1}, False)
    assert best.out == str(sweep.folder / "01" / "train") and best.step == "train" and best.job == 1
    best = pergpu.best("loss", at="last")
    assert (best.run, best.value, best.at_step) == ("02", 3, 2)
    assert pergpu.best("loss", "max", at="last").value == 5


def test_no_number_is_never_best(sweep):
    sweep.job('{"loss": "nan"}\n{"loss": "-inf", "ok": true, "name": "x"}\n{"loss": "nan"}\n')
    sweep.job('{"loss": 2}\n')
    assert pergpu.best("loss").value == -math.inf
    assert pergpu.best("loss", at="last").value == 2
    for name in ("ok", "name", "none"):
        with pytest.raises(LookupError, match=f"no job has reported a number '{name}'; the reported numbers are: loss"):
            pergpu.best(name)


def test_a_name_of_several_steps_asks_which(sweep):
    sweep.job('{"loss": 2}\n', run="a")
    sweep.job('{"loss": 1}\n', run="a", step="evaluate")
    with pytest.raises(ValueError, match="'loss' is reported by the steps evaluate, train: choose one, such as step='evaluate'"):
        pergpu.best("loss")
    assert pergpu.best("loss", step="train").value == 2


def test_jobs_that_do_not_count_are_left_out(sweep):
    sweep.job('{"loss": 1}\n', replaced=True)
    sweep.job('{"loss": 2}\n', listed=False)
    sweep.job('{"loss": 3}\n', run="_once")
    sweep.jobs[-1].update(run=None, index=None)
    sweep.job(None, state="queued", out="", metrics="")
    assert [job.run for job in pergpu.metrics()] == ["04", "_once"]
    assert pergpu.best("loss").value == 3


def test_where_there_is_no_file_what_tensorboard_got_counts(sweep):
    sweep.job(None, last_metrics={"loss": 0.5, "lr": "nan"})
    assert pergpu.best("loss").value == 0.5 and math.isnan(pergpu.metrics()[0]["lr"])


def test_a_job_asks_for_its_own_sweep(sweep, monkeypatch, tmp_path):
    sweep.job('{"loss": 2}\n')
    sweep.job('{"loss": 1}\n')
    sweep.jobs[1]["out"] = str(tmp_path / "elsewhere" / "s" / "02" / "train")  # another sweep of that name
    asked = []
    monkeypatch.setattr(_results, "exported", lambda *what: asked.append(what) or sweep.jobs)
    for name, value in (
        ("JOB", "1"), ("OUT", sweep.jobs[0]["out"]), ("SWEEP", "s"), ("ATTEMPT_ID", "/home/alice/h/1.1"), ("BIN", "p")
    ):  # fmt: skip
        monkeypatch.setenv(f"PERGPU_{name}", value)
    assert pergpu.best("loss").value == 2
    ((selectors, env),) = asked
    assert selectors == ["s"] and env["PERGPU_HOME"] == "/home/alice/h" and "PERGPU_JOB" not in env
    sweep.slot(1, {"loss": ((4, 0), (4, 0), (4, 0))})
    (sweep.folder / "01/train/config.json").write_text(json.dumps({"seed": 7}))
    best = pergpu.best("loss", files=False)
    assert (best.value, best.params, best.run, best.alive) == (4, {"seed": 7}, "01", True)
    assert len(asked) == 1


def test_mistakes_are_told(sweep):
    sweep.job('{"loss": 2}\n')
    with pytest.raises(ValueError, match="mode is 'least'; expected 'min' or 'max'"):
        pergpu.best("loss", "least")
    with pytest.raises(ValueError, match="at is 'first'; expected 'best' or 'last'"):
        pergpu.best("loss", at="first")
    with pytest.raises(pergpu.NotAJob, match="files=False. reads only the job's own sweep, but this process isn't a job"):
        pergpu.metrics(files=False)
    with pytest.raises(pergpu.NotAJob, match="but you named a sweep"):
        pergpu.metrics("s", files=False)
