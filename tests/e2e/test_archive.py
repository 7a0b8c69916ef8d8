"""Sweeps whose jobs had all ended before a restart are not read by it, and answer as before."""
import contextlib
import json
import os
import shutil
import socket
import sqlite3

import pytest
from harness import grid, read, wait_until
from test_security import connect

EXITS = 'command = ["sh", "-c", "echo says {i}; exit {i}"]'


def restart(home):
    home.run("coordinator", "stop")
    wait_until(lambda: home.coordinator() is None, "its end")


def three_sweeps(home):
    """`first` (jobs 1 to 3: done, failed, failed) and `second` (4 to 5: done) have ended, `third` has a held job."""
    home.submit(grid("train", 3, EXITS, header='name = "first"'), name="first.toml")
    home.submit(grid("train", 2, 'command = ["true"]', header='name = "second"'), name="second.toml")
    home.run("wait", "first", code=1)
    home.run("wait", "second")
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]', header='name = "third"'), "--lanes", 1, name="third.toml")
    home.until_running(1)
    home.run("hold", "third/1")
    home.open_gate()
    home.run("wait", "third", code=None)


def sql(home, text):
    with contextlib.closing(sqlite3.connect(home.path + "/pergpu.db")) as store, store:
        return store.execute(text).fetchall()


def test_every_command_answers_as_before(home):
    three_sweeps(home)
    asked = [
        ("ps", "-a", "--json"), ("ps", "first", "--json"), ("ps", "2", "5", "--json"), ("ps", "1", "2"),
        ("show", "2", "first"), ("ps", "first/0", "first/1", "*"), ("ps", "@3/1", "--json"),
        ("ps", "*/0", "--json"), ("ps", "--json"), ("show", "3", "--json"), ("show", "first/2"), ("why", "first"),
        ("why", "2.1"), ("logs", "first/1/train"), ("wait", "second"), ("wait", "first", "third/0"), ("ps", "7.2"),
        ("ps", "99"), ("ps", "fourth"), ("ps", "@4"), ("cancel", "second"), ("release", "1"),
    ]

    def answers():
        for words in asked:
            done = home.run(*words, code=None)
            yield words, (done.returncode, done.stdout, done.stderr)

    before = dict(answers())
    assert before[("wait", "second")][0] == 0 and before[("ps", "99")][0] == 4
    for words in asked:
        restart(home)
        done = home.run(*words, code=None)
        assert (done.returncode, done.stdout, done.stderr) == before[words], words


def test_it_is_submitted_again_retried_and_followed(home):
    three_sweeps(home)
    restart(home)
    again = home.json("submit", "first.toml")
    assert [again["sweep_id"], again["new"], again["kept"], again["requeued"]] == [1, 0, 1, 2]
    home.run("wait", "first", code=1)
    assert home.only("first/2")["attempt"] == 2
    restart(home)
    assert home.json("retry", "--failed", "first")["changed"] == [2, 3]
    home.run("wait", "first", code=1)
    restart(home)
    assert home.run("run", "second.toml").returncode == 0
    restart(home)
    home.run("ps")  # without a coordinator a dry run starts none, and estimates
    assert home.json("run", "--dry-run", "first.toml")["kept"] == 1
    assert [home.only("first/2")["attempt"], home.only("second/1")["attempt"]] == [3, 1]


def test_a_name_of_an_ended_sweep_stays_taken(home):
    assert home.run("run", "--lanes", "1", "--", "true").returncode == 0
    first = home.json("ps", "-a")["jobs"][0]["sweep"]
    restart(home)
    home.run("run", "--lanes", "1", "--", "true")
    jobs = home.json("ps", "-a")["jobs"]
    assert [job["id"] for job in jobs] == [1, 2] and [job["sweep"] for job in jobs] == [first, first + "-2"]


def test_a_start_holds_only_what_is_open(home):
    three_sweeps(home)
    restart(home)
    assert [job["id"] for job in home.json("ps")["jobs"]] == [7]
    told = home.json("coordinator", "status")
    assert told["sweeps"] == 3 and told["jobs"] == 7
    restart(home)
    assert sql(home, "SELECT sweep FROM archive ORDER BY sweep") == [(1,), (2,)]
    home.run("release", "third")
    home.run("wait", "third")
    restart(home)
    assert sql(home, "SELECT sweep FROM archive ORDER BY sweep") == [(1,), (2,), (3,)]
    assert "fine" in home.run("store", "check").stdout


def test_an_end_whose_record_was_not_written_is_written_by_the_next_coordinator(home):
    """Killed when the end is durable and its keeper does not know: whatever instant that hits, the record is whole."""
    for number in range(1, 6):
        home.submit(grid("train", 1, 'command = ["true"]', header=f'name = "s{number}"'), name=f"s{number}.toml")
        wait_until(lambda: home.only(f"s{number}")["state"] == "done", "its end")
        home.kill_coordinator()
        home.run("ps")
        record = home.only(f"s{number}")["out"] + "/attempt.json"
        wait_until(lambda: json.loads(read(record))["state"] == "done", "its record")


def test_requests_of_one_connection_are_answered_in_order(home):
    three_sweeps(home)
    restart(home)
    home.run("ps")
    asked = [
        {"op": "ps", "sel": ["1"]}, {"op": "status"}, {"op": "cancel", "sel": ["7"]}, {"op": "ps", "sel": ["7"]},
        {"op": "ps", "sel": ["second"]}, {"op": "why", "sel": ["99"]}, {"op": "status"},
    ]
    with connect(home) as stream:
        stream.settimeout(60)
        lines = [json.dumps(line) for line in [{"hello": 1, "version": "0"}, *asked]]
        stream.sendall(("\n".join(lines) + "\n").encode())
        with stream.makefile() as answers:
            hello, first, status, cancelled, seventh, second, nobody, last = (
                json.loads(answers.readline()) for _ in lines)
    assert hello["data"]["protocol"] == 1
    assert [job["id"] for job in first["data"]["jobs"]] == [1]
    assert status["data"]["sweeps"] == 3 and last["data"]["sweeps"] == 3
    assert cancelled["data"]["changed"] == [7]
    assert [(job["id"], job["state"]) for job in seventh["data"]["jobs"]] == [(7, "cancelled")]
    assert [job["id"] for job in second["data"]["jobs"]] == [4, 5]
    assert nobody["code"] == 4


def pipelined(home, *lines):
    """What is answered when all of it is sent at once, up to the end of the connection or an unanswered wait."""
    with connect(home, hello=True) as stream:
        stream.settimeout(60)
        stream.sendall(("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n").encode())
        stream.shutdown(socket.SHUT_WR)
        with stream.makefile() as answers:
            return [json.loads(line) for line in answers]


def header(name, runs):
    step = {"name": "train", "command": ["true"]}
    return {"op": "submit", "sweep": {"name": name, "folder": "/nowhere", "out": "/nowhere", "steps": [step]},
            "context": {"cwd": "/", "lanes": 1, "engine": "fake"}, "runs": runs}


def test_a_submit_behind_a_request_that_waits_is_whole_or_refused(home):
    three_sweeps(home)
    restart(home)
    home.run("ps")
    runs = [json.dumps({"json": {"i": i}}) for i in range(1500)]
    answers = pipelined(home, {"op": "ps", "sel": ["1"]}, header("many", len(runs)), *runs, {"op": "status"})
    waited, accepted, shown = answers
    assert waited["ok"] and accepted["data"]["new"] == 1500 and shown["data"]["jobs"] == 1507
    restart(home)
    home.run("ps")
    answers = pipelined(
        home, {"op": "ps", "sel": ["1"]}, header("refused", 2), runs[0], '{"bad"', runs[1], runs[2], {"op": "cancel", "sel": ["7"]})
    assert [answer["ok"] for answer in answers] == [True, False] and answers[1]["code"] == 2
    told = home.json("coordinator", "status")
    assert told["jobs"] == 1507 and told["sweeps"] == 4 and home.only("third/1")["state"] == "held"


def test_what_was_asked_is_done_although_who_asked_has_left(home):
    three_sweeps(home)
    restart(home)
    home.run("ps")
    stream = connect(home, hello=True)
    stream.sendall(b'{"op":"ps","sel":["4"]}\n{"op":"retry","sel":["2"]}\n{"op":"cancel","sel":["7"]}\n')
    stream.close()
    wait_until(lambda: home.only("third/1")["state"] == "cancelled", "the cancel")
    home.run("wait", "first/1", code=1)
    assert home.only("first/1")["attempt"] == 2


def test_who_has_left_is_answered_in_order_too(home):
    """`@` is the sweep that was submitted before it, although nobody waits for the submit's answer."""
    three_sweeps(home)
    stream = connect(home, hello=True)
    run = json.dumps({"json": {"i": 1}})
    fourth = header("fourth", 1)
    fourth["context"]["env"] = ["A=1"]
    fourth["sweep"]["steps"][0]["fake_duration"] = "1000s"  # it may start before the cancel
    lines = [json.dumps(fourth), run, json.dumps({"op": "cancel", "sel": ["@"]})]
    stream.sendall(("\n".join(lines) + "\n").encode())
    stream.close()
    wait_until(lambda: home.json("coordinator", "status")["jobs"] == 8, "the submit")
    home.run("wait", "fourth", code=None)
    assert home.only("fourth/0")["state"] == "cancelled"
    assert home.only("third/1")["state"] == "held"


def test_an_archived_sweep_can_be_watched_by_its_number(home):
    """What a follower asks whose coordinator was killed at the sweep's end."""
    three_sweeps(home)
    restart(home)
    home.run("ps")
    with connect(home, hello=True) as stream:
        stream.settimeout(60)
        stream.sendall(b'{"op":"watch","sweep_id":2}\n')
        with stream.makefile() as answers:
            told = json.loads(answers.readline())
            assert any(json.loads(line) == {"event": "end"} for line in answers)
    assert [job["state"] for job in told["jobs"]] == ["done", "done"]


@pytest.mark.parametrize("tables, lacks", [
    (("sweeps WHERE id", "archive WHERE sweep"), "table runs has sweep 3, but table sweeps doesn't"),
    (("sweeps WHERE id", "archive WHERE sweep", "runs WHERE sweep"), "table jobs has sweep 3, but table sweeps doesn't"),
])
def test_a_store_without_its_last_sweep_is_refused_as_it_was(home, tables, lacks):
    three_sweeps(home)
    home.run("cancel", "third")
    restart(home)
    for table in tables:
        sql(home, f"DELETE FROM {table} = 3")
    before = open(home.path + "/pergpu.db", "rb").read()
    assert lacks in home.run("ps", code=3).stderr
    assert open(home.path + "/pergpu.db", "rb").read() == before


def test_a_store_without_one_of_its_jobs_is_refused_as_it_was(home):
    shutil.copy(os.path.dirname(__file__) + "/../data/store/v2.db", home.path + "/pergpu.db")
    os.chmod(home.path + "/pergpu.db", 0o600)
    for table, column in (("events", "job"), ("folded", "job"), ("jobs", "id")):
        sql(home, f"DELETE FROM {table} WHERE {column} = 14")
    before = open(home.path + "/pergpu.db", "rb").read()
    said = home.run("ps", code=3).stderr
    assert "15 jobs" in said and "number 16" in said and "pergpu.db-wal away" in said
    assert open(home.path + "/pergpu.db", "rb").read() == before


def test_damage_in_an_ended_sweep_is_said_when_it_is_asked_for(home):
    three_sweeps(home)
    restart(home)
    sql(home, "UPDATE events SET kind = 'exploded' WHERE job = 2")
    assert [job["id"] for job in home.json("ps")["jobs"]] == [7]
    refused = home.run("ps", "first", code=3).stderr
    assert "job 2" in refused and "exploded" in refused and "pergpu.db" in refused
    assert "Stop the coordinator before" in refused
    assert "exploded" in home.run("submit", "first.toml", code=3).stderr
    home.run("release", "third")
    assert home.run("wait", "third").returncode == 0
    assert home.run("ps", "second").returncode == 0
