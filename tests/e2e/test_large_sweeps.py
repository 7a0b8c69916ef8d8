"""What is told of a sweep of thousands of jobs takes many turns of the coordinator's loop, none of them a long one
(the harness looks at that), and is whole."""
import json

from test_archive import header
from test_security import connect

RUNS = 4000


def submit(home):
    """@1: jobs 1 to RUNS."""
    home.run("ps")
    wanted = header("many", RUNS)
    wanted["sweep"]["steps"][0]["fake_duration"] = "1000s"
    wanted["context"]["env"] = ["A=1"]
    wanted["sweep"].update(folder="/", out=home.path + "/out", columns=["i"])
    lines = [json.dumps(wanted), *(json.dumps({"json": {"i": i}}) for i in range(RUNS))]
    with connect(home, hello=True) as stream:
        stream.settimeout(60)
        stream.sendall(("\n".join(lines) + "\n").encode())
        with stream.makefile() as answers:
            assert json.loads(answers.readline())["data"]["new"] == RUNS


def events(home, request):
    """Of a stream, up to its end."""
    with connect(home, hello=True) as stream:
        stream.settimeout(60)
        stream.sendall((json.dumps(request) + "\n").encode())
        with stream.makefile() as answers:
            for answer in answers:
                event = json.loads(answer)
                yield event
                if event["event"] == "end":
                    return


def test_a_watch_begins_with_all_jobs_and_goes_on_with_what_changed_meanwhile(home):
    submit(home)
    state = {}
    for number, event in enumerate(events(home, {"op": "watch", "sweep_id": 1})):
        assert (event["event"] == "snapshot") == (number == 0)
        if number == 0:
            assert [job["id"] for job in event["jobs"]] == list(range(1, RUNS + 1))
            assert event["sweep"]["rows"] == [[str(i)] for i in range(RUNS)] and len(event["sweep"]["runs"]) == RUNS
            assert sum(event["sweep"]["counts"].values()) == RUNS
            state = {job["id"]: job["state"] for job in event["jobs"]}
            home.run("cancel", "many")
        elif event["event"] == "job":
            state[event["job"]["id"]] = event["job"]["state"]
    assert set(state.values()) == {"cancelled"} and len(state) == RUNS


def test_a_watch_of_more_jobs_than_can_be_shown_is_refused(home):
    submit(home)
    watch = {"op": "watch", "sweep_id": 1}
    with connect(home, hello=True) as stream:
        stream.settimeout(60)
        stream.sendall((json.dumps({**watch, "most": RUNS - 1}) + "\n" + json.dumps({**watch, "most": RUNS}) + "\n").encode())
        with stream.makefile() as answers:
            refused = json.loads(answers.readline())
            assert refused["code"] == 2 and f"limited to {RUNS - 1} jobs, but there are {RUNS}" in refused["error"]
            assert json.loads(answers.readline())["event"] == "snapshot"


def test_of_one_job_the_rest_of_the_sweep_need_not_be_told(home):
    submit(home)
    told = next(events(home, {"op": "watch", "sel": ["7"], "without_runs": True}))
    assert [job["id"] for job in told["jobs"]] == [7]
    assert told["sweep"]["rows"] == told["sweep"]["runs"] == [] and sum(told["sweep"]["counts"].values()) == RUNS


def test_who_waits_is_told_of_all_jobs(home):
    submit(home)
    home.run("cancel", "many")
    jobs = home.json("wait", "many", code=1)["jobs"]
    assert [job["id"] for job in jobs] == list(range(1, RUNS + 1))
    assert {job["state"] for job in jobs} == {"cancelled"}
