"""`pergpu plan`: the schedule of a file, of what is submitted, and what is refused."""
import json
import os
import re
from datetime import datetime

import pytest

from harness import grid, read, wait_until
from test_gpus import STEP, gpus, world  # noqa: F401 (fixtures)
from test_terminal import Terminal

try:
    import jsonschema
except ImportError:
    jsonschema = None

SCHEMA = os.path.join(os.path.dirname(__file__), "../../docs/schema/plan.json")
STORY = """
name = "thirteen"
[grid]
i = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
[steps.train]
command = ["true"]
expect = "1h"
%s
[steps.evaluate]
needs = ["train"]
command = ["true"]
expect = "830769ms"     # 3 h in all
%s
"""


def plan(home, *args, **options):
    told = home.json("plan", *args, **options)
    if jsonschema:
        jsonschema.validate(told, json.loads(read(SCHEMA)))
    return told


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def check_chart(told):
    """No lane has two jobs at once, and none is longer than the total."""
    by_lane = {}
    for job in told["jobs"]:
        assert job["lanes"] and job["end_s"] <= told["total_s"] + 1e-6
        for lane in job["lanes"]:
            by_lane.setdefault(lane, []).append((job["start_s"], job["end_s"]))
    for spans in by_lane.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-9 for a, b in zip(spans, spans[1:]))
    assert set(by_lane) <= set(told["lanes"])


def test_the_story_takes_four_hours_or_two_and_a_quarter(home):
    for limit, minutes, kind in (("max_parallel = 1", 240, "max_parallel"), ("", 133.8, "lanes")):
        told = plan(home, home.file("story.toml", STORY % ("", limit)), "--lanes", 8)
        assert abs(told["total_s"] / 60 - minutes) < 0.1
        assert told["bound_by"]["kind"] == kind and told["lower_bound_s"] <= told["total_s"]
        assert [one["lanes"] for one in told["with_lanes"]] == list(range(1, 17))
        assert len(told["jobs"]) == 26 and all(job["id"] is None for job in told["jobs"])
        check_chart(told)
    assert home.ps() == {}, "nothing was submitted"


def test_as_text_it_shows_lanes_total_bound_idle_share_and_other_numbers_of_lanes(home):
    path = home.file("story.toml", STORY % ("", "max_parallel = 1"))
    for language in ("C.UTF-8", "C"):
        out = home.run("plan", path, "--lanes", 8, env={"LANG": language}).stdout
        assert out.startswith("thirteen: 26 jobs on 8 lanes, done in 4h (")
        assert len(re.findall(r"^lane\d  ", out, re.M)) == 8
        assert "00 train" in out and "12 train" in out
        for line in ("total        4h", "lower bound  4h", "idle         50 % of 8 lanes"):
            assert line in out
        assert "bottleneck   max_parallel = 1 of step evaluate: 3h of work" in out
        assert "with 1 lane: 16h" in out and re.search("16 lanes: 4h$", out, re.M)
        assert max(map(len, out.splitlines())) <= 100


def test_a_plan_for_gpus_that_this_machine_has_not(home):
    path = home.file("story.toml", STORY % ("gpus = 1", "gpus = 1"))
    refused = home.run("plan", path, code=2).stderr
    assert "asks for a GPU, but this machine has none" in refused and "`pergpu plan FILE --on 1`" in refused
    told = plan(home, path, "--on", 8)
    assert told["lane_kind"] == "GPU" and abs(told["total_s"] / 60 - 133.8) < 0.1
    assert abs(plan(home, path, "--on", 1)["total_s"] / 3600 - 16) < 0.01


def test_missing_durations_are_named_and_can_be_given(home):
    path = home.file("sweep.toml", grid("train", 4, 'command = ["true"]'))
    refused = home.run("plan", path, "--lanes", 2, code=2)
    assert refused.stdout == ""
    assert "can't estimate step train of sweep (4 jobs)" in refused.stderr
    assert "--expect train=1h" in refused.stderr
    told = plan(home, path, "--lanes", 2, "--expect", "train=30min")
    assert told["total_s"] == 3600
    assert told["durations"] == [
        {"sweep": "sweep", "step": "train", "jobs": 4, "mean_s": 1800, "source": "given"}
    ]


def test_on_a_terminal_missing_durations_are_asked_for(home):
    path = home.file("sweep.toml", grid("train", 4, 'command = ["true"]'))
    terminal = Terminal(home, "plan", path, "--lanes", "2")
    terminal.until("How long does a job of step train take (4 of sweep)?")
    terminal.type("30\n")
    terminal.until("durations need a unit")
    terminal.type("30min\n")
    assert terminal.ended() == 0 and "done in 1h (" in terminal.text
    terminal = Terminal(home, "plan", path, "--lanes", "2")
    terminal.until("take (4 of sweep)?")
    terminal.type("\n")
    assert terminal.ended() == 2 and "--expect train=1h" in terminal.text


def test_the_status_view_tells_the_expected_end(home):
    home.close_gate()
    text = grid("train", 3, 'command = ["stamp"]\nexpect = "1h"')
    terminal = Terminal(home, "run", home.file("s.toml", text), "--lanes", "1")
    terminal.until("left (")
    assert "about 3h00m left (" in terminal.text or "about 2h59m left (" in terminal.text
    home.open_gate()
    assert terminal.ended() == 0


@pytest.mark.parametrize(
    "args, words",
    [
        (["--expect", "train"], "expected STEP=DURATION"),
        (["--expect", "train=10"], "durations need a unit"),
        (["--expect", "train=0s"], "expected a duration above 0"),
        (["--expect", "trian=1h"], "did you mean `train`?"),
        (["--on", "0"], "--on"),
        (["--lanes", "2", "--devices", "0"], "pass only one of them"),
        (["other"], "not both"),
    ],
)
def test_wrong_usage_is_refused(home, args, words):
    path = home.file("sweep.toml", grid("train", 4, 'command = ["true"]'))
    refused = home.run("plan", path, *args, code=2)
    assert words in refused.stderr and refused.stdout == ""


def test_a_file_that_is_missing_or_broken_is_no_selector(home):
    assert "nowhere.toml" in home.run("plan", "nowhere.toml", code=2).stderr
    broken = home.file("broken.toml", "[steps.a]\ncomand = ['true']\n")
    assert "did you mean `command`?" in home.run("plan", broken, code=2).stderr
    assert not home.coordinator()
    assert home.run("plan", "nowhere", code=4).stdout == ""
    assert "--lanes needs a sweep file" in home.run("plan", "nowhere", "--lanes", 2, code=2).stderr


def test_what_runs_is_planned_from_what_it_has_learnt_and_ps_tells_the_end(home):
    text = grid("train", 6, 'command = ["stamp", "1.1"]')  # shorter ones teach nothing
    home.submit(text, "--lanes", 2)
    home.wait()
    home.close_gate()
    home.submit(text, "--lanes", 2, "--rerun")
    home.until_running(8)
    told = plan(home, "sweep")
    assert len(told["jobs"]) == 6 and sum(job["live"] for job in told["jobs"]) == 2
    assert plan(home)["jobs"]
    assert plan(home, "sweep/5/train")["jobs"][0]["run"] == "05-i=5"
    ends = lambda: [job["expected_end_at"] for job in home.ps("sweep").values()]  # noqa: E731
    wait_until(lambda: all(ends()), "an expected end of each job")
    home.open_gate()
    home.wait()
    assert ends() == [None] * 6
    told = plan(home, "sweep")
    assert told["jobs"] == [] and told["total_s"] == 0
    assert home.run("plan").stdout == "nothing left to do\n"


def test_done_jobs_of_a_file_are_not_planned_again(home):
    text = '[grid]\ni = %s\n[steps.train]\ncommand = ["true"]\nexpect = "10min"\n'
    home.submit(text % "[0, 1]")
    home.wait()
    path = home.file("sweep.toml", text % "[0, 1, 2]")
    told = plan(home, path, "--lanes", 1)
    assert [job["run"] for job in told["jobs"]] == ["02-i=2"] and told["total_s"] == 600
    assert plan(home, path, "--lanes", 1, "--rerun")["total_s"] == 1800
    assert "nothing left to do" in home.run("plan", home.file("sweep.toml", text % "[0, 1]")).stdout


def test_with_other_lanes_nothing_is_left_of_a_finished_sweep(home):
    text = grid("train", 2, 'command = ["true"]\nexpect = "1h"')
    home.submit(text, "--lanes", 1)
    home.wait()
    path = home.work + "/sweep.toml"
    plain, other = home.run("plan", path), home.run("plan", path, "--on", 4)
    assert other.stdout == plain.stdout and other.stderr == plain.stderr
    assert plan(home, "sweep", "--on", 2)["total_s"] == 0


def test_on_gpus_those_that_others_use_are_left_out_and_said(gpus):  # noqa: F811
    gpus.world.show(2)
    text = grid("train", 4, STEP % 0 + '\nexpect = "1h"')
    told = plan(gpus, gpus.file("sweep.toml", text))
    assert told["lane_kind"] == "GPU" and told["lane_count"] == 2
    assert told["total_s"] == 7200 and told["lanes"] == ["gpu0", "gpu1"]
    assert [one["total_s"] for one in told["with_lanes"]] == [14400, 7200, 7200, 3600]
    one = plan(gpus, gpus.file("sweep.toml", text), "--devices", "1")
    assert one["lanes"] == ["gpu1"] and one["total_s"] == 14400


def test_the_real_end_is_the_foretold_one(home):
    """Over the fake engine, whose jobs take as long as the file says."""
    text = 'name = "fake"\n' + grid("train", 5, 'command = ["true"]\nexpect = "400ms"')
    text += '[steps.evaluate]\nneeds = ["train"]\ncommand = ["true"]\nexpect = "200ms"\nmax_parallel = 1\n'
    path = home.file("fake.toml", text)
    told = plan(home, path, "--lanes", 2)
    home.run("run", path, "--lanes", 2, "--engine", "fake")
    jobs = home.json("ps", "-a", "fake")["jobs"]
    spent = seconds(max(job["ended_at"] for job in jobs)) - seconds(min(job["started_at"] for job in jobs))
    assert told["total_s"] <= spent + 0.01 and spent <= told["total_s"] * 1.5 + 1
