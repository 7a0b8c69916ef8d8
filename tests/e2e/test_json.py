"""What `--json` prints is what docs/schema/ says, for every command and in every state of a job."""
import json
import re
import sqlite3

from jsonschema import Draft202012Validator

from harness import grid, read, wait_until
from schemas import ROOT, check, mistakes, schemas
from test_gpu_health import world as breakable  # noqa: F401 (fixture)
from test_gpus import STEP, foreign_process, gpu_state, gpus, uuid, world  # noqa: F401 (fixtures)

OTHERS = {"common", "sweep"}  # printed by no --json
OPEN = "/$defs/job_fields"  # its users close it

# Says that it works, then does as `stamp`.
TELLS = """#!/usr/bin/env python3
import os, socket
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    s.sendto(b"STATUS=warm\\nREADY=1\\nPROGRESS=1/2", os.environ["PERGPU_NOTIFY"])
os.execlp("stamp", "stamp")
"""
# Does not end by SIGTERM.
STUBBORN = '#!/bin/sh\ntrap "" TERM\necho "start $PERGPU_JOB $PERGPU_ATTEMPT $$" >>"$STAMPS"\nwhile :; do sleep 0.01; done\n'


def printed(home, *args, name=None, **options):
    """The one value that a command prints, held against the schema of its name."""
    out = home.run(*args, "--json", **options).stdout
    assert out.count("\n") == 1 and out.endswith("\n"), out
    return check(name or args[0], json.loads(out))


def look(home):
    """All that can be asked without naming anything; the jobs of all sweeps by state."""
    printed(home, "ps")
    printed(home, "why")
    printed(home, "gpus")
    printed(home, "coordinator", "status", name="coordinator-status")
    printed(home, "coordinator", "start", name="coordinator-start")
    printed(home, "store", "check", name="store-check")
    printed(home, "share", "list", name="share-list")
    jobs = printed(home, "ps", "-a")["jobs"]
    states = {}
    for job in jobs:
        states.setdefault(job["state"], []).append(job)
    if jobs:
        whole = printed(home, "show", "*")["jobs"]
        assert [job["id"] for job in whole] == [job["id"] for job in jobs]
        assert len(printed(home, "why", "*")["jobs"]) == len(jobs)
    return states


def commands(home, *words):
    """{"coordinator-status": its help, …} of all commands that `--help` lists below these words."""
    shown = home.run(*words, "--help").stdout
    listed = shown.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  ([a-z]+) ", listed, re.M)
    if not names:
        return {"-".join(words): shown}
    return {key: text for name in names for key, text in commands(home, *words, name).items()}


def parts_of(schema, path=""):
    """(path, schema) of a schema and of all schemas in it."""
    yield path, schema
    for word in ("properties", "$defs"):
        for name, part in schema.get(word, {}).items():
            yield from parts_of(part, f"{path}/{word}/{name}")
    if isinstance(schema.get("items"), dict):
        yield from parts_of(schema["items"], path + "/items")
    for i, part in enumerate(schema.get("anyOf", [])):
        yield from parts_of(part, f"{path}/anyOf/{i}")


def test_every_command_with_json_has_a_schema_and_no_schema_is_left_over(home):
    found = commands(home)
    assert len(found) > 15
    with_json = {name for name, text in found.items() if re.search(r"^ +--json\b", text, re.M)}
    assert with_json == set(schemas()) - OTHERS
    assert set(re.findall(r"\(schema/([\w-]+)\.json\)", read(ROOT + "/docs/json.md"))) == set(schemas()) - {"sweep"}


def test_the_schemas_are_schemas_describe_every_field_and_are_closed():
    for name, schema in schemas().items():
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema", name
        assert schema["$id"].endswith(f"/{name}.json") and schema["title"] and schema["description"], name
        for path, part in parts_of(schema):
            closed = {"additionalProperties", "unevaluatedProperties"} & set(part)
            assert closed or "properties" not in part or path == OPEN, name + path
            for field, value in part.get("properties", {}).items():
                assert "description" in value or "$ref" in value, f"{name}{path}: {field}"


def test_a_field_that_is_not_documented_or_changes_its_type_does_not_fit(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    for args in (["ps", "-a"], ["show", "@"], ["run", "--", "true"]):
        value = printed(home, *args) if args[0] != "run" else run_json(home, "--", "true")
        job = value["jobs"][0] if "jobs" in value else value
        for changed in ({"news": 1}, {"id": "1"}, {"state": "well"}, {"started_at": 5}):
            before = dict(job)
            job.update(changed)
            assert mistakes(args[0], value), (args, changed)
            job.clear()
            job.update(before)
        assert not mistakes(args[0], value)
        del job["reason"]
        assert mistakes(args[0], value)


def run_json(home, *args, **options):
    """`run --json …`: what follows `--` is not ours."""
    return check("run", json.loads(home.run("run", "--json", *args, **options).stdout))


def test_an_empty_home(home):
    home.run("ps")
    assert look(home) == {}


def test_jobs_that_wait_run_and_have_ended_in_every_way(home):
    home.script("tells", TELLS)
    home.script("stubborn", STUBBORN)
    home.close_gate()
    text = '[grid]\ni = [0, 1]\n[constants]\napi_token = "s"\n[steps.train]\ncommand = ["tells"]\nexpect = "1h"\n'
    text += 'retries = { max = 2, delay = "1ms" }\nsignal = "USR1@1m"\ntimeout = "2h"\nidle_timeout = "1h"\n'
    text += 'stall = true\ngrace = "1s"\nmemory = "64MiB"\ngrow = { memory = 1.5 }\ncpus = 1\n'
    text += '[steps.evaluate]\nneeds = ["train"]\nshell = "true"\n[steps.all]\nonce = true\nneeds = ["train:all"]\ncommand = ["true"]\n'
    home.submit(text, "--lanes", 1, name="waits.toml")
    wait_until(lambda: home.only("waits/0/train")["progress"] == "1/2", "its words")
    printed(home, "hold", "waits/1/train", "waits/0")
    printed(home, "set", "waits", "priority=-3", "max_parallel=2")
    ends = {
        "done": 'command = ["true"]',
        "exit": 'retries = { max = 2, delay = "1ms" }\ncommand = ["sh", "-c", "exit 4"]',
        "signal": 'shell = "kill -SEGV $$"',
        "user": 'command = ["no-such-program"]',
        "outputs": 'command = ["true"]\noutputs = ["{out}/model.pt"]',
        "slow": 'command = ["sleep", "1000"]\ntimeout = "50ms"\ngrace = "50ms"',
        "skip": 'needs = ["exit"]\ncommand = ["true"]',
        "stuck": 'command = ["stubborn"]\ngrace = "1h"',
    }
    home.submit("".join(f"[steps.{name}]\n{keys}\n" for name, keys in ends.items()), "--lanes", 4, name="ends.toml")
    job = lambda step: home.only(f"ends/0/{step}")  # noqa: E731
    wait_until(lambda: home.stamps.count("start") >= 2, "the stubborn one")
    printed(home, "cancel", "ends/0/stuck")
    for step in ends:
        if step != "stuck":
            wait_until(lambda: job(step)["ended_at"] or job(step)["state"] == "skipped", step)
    states = look(home)
    assert set(states) == {"queued", "held", "running", "stopping", "done", "failed", "timeout", "skipped"}
    assert {job["class"] for job in states["failed"]} == {"exit", "signal", "user-error", "output-missing"}
    assert job("exit")["attempt"] == 3 and len(printed(home, "show", "ends/0/exit")["jobs"][0]["attempts"]) == 3
    printed(home, "show", f"{job('exit')['id']}.2")
    first = printed(home, "show", "waits/0/train")["jobs"][0]
    assert (first["limits"].pop("priority"), first["limits"].pop("max_parallel")) == (-3, 2)
    asked = {"timeout", "idle_timeout", "stall", "signal", "memory", "cpus"}
    assert asked < set(first["limits"]) and asked == set(first["limits_held"])
    assert first["params"]["api_token"] == "***" and (first["status"], first["expected_s"]) == ("warm", 3600)
    printed(home, "cancel", "--kill", "ends/0/stuck")
    printed(home, "release", "waits", "ends")
    printed(home, "retry", "--failed", "ends")
    home.open_gate()
    assert printed(home, "wait", "ends", code=1)["jobs"]
    printed(home, "wait", "waits")
    assert {"cancelled", "skipped", "done"} < set(look(home))
    assert printed(home, "clean", "ends", "--results")["sweeps"][0]["files"] > 10
    # The job under a new definition replaces that one.
    home.submit(text.replace('needs = ["train"]\nshell = "true"', 'needs = ["train"]\nshell = ": true"'),
                "--lanes", 1, name="waits.toml")  # fmt: skip
    home.wait("waits")
    ids = [job["id"] for job in printed(home, "ps", "-a")["jobs"]]
    whole = printed(home, "show", *ids)["jobs"]
    older = {job["replaced_by"]: job["id"] for job in whole if job["replaced"]}
    assert older == {job["id"]: job["replaces"] for job in whole if "replaces" in job} and len(older) == 2


def test_a_sweep_that_is_looked_at_submitted_watched_and_submitted_again(home):
    path = home.file("sweep.toml", grid("train", 2, 'command = ["sh", "-c", "exit {i}"]'))
    assert run_json(home, path, "--dry-run")["new"] == 2  # no coordinator runs yet
    assert printed(home, "submit", path)["new"] == 2
    home.wait()
    told = run_json(home, path, "--dry-run")
    assert (told["estimated"], told["kept"], told["requeued"]) == (False, 1, 1)
    check("submit", told)
    assert [job["exit"] for job in run_json(home, path, code=1)["jobs"]] == [0, 1]
    assert run_json(home, path, "--detach")["kept"] == 1
    assert len(printed(home, "attach", code=1)["jobs"]) == 2
    limited = "[limits]\ndisk = %d\n" + grid("train", 1, 'command = ["true"]')
    home.submit(limited % 1, name="limited.toml")
    assert printed(home, "submit", home.file("limited.toml", limited % 2))["warnings"]


def test_single_commands_and_the_lines_of_a_log(home):
    assert run_json(home, "--", "sh", "-c", "exit 4", code=4)["exit"] == 4
    home.run("run", "--", "sh", "-c", "echo one; printf '\\377two'")
    for args in (["@"], ["-f", "@"]):
        lines = home.run("logs", "--json", *args).stdout.splitlines()
        shown = [check("logs", json.loads(line))["line"] for line in lines]
        assert shown == ["one", "\ufffdtwo"]


def test_gpus_that_are_busy_somebody_elses_and_quarantined(home, breakable):  # noqa: F811
    other = foreign_process()
    try:
        used = {"uuid": uuid(0), "processes": [{"pid": other.pid, "memory_bytes": 3 << 30},
                                               {"pid": 999_999_999, "memory_bytes": None}]}  # fmt: skip
        breakable.show([used, *({"uuid": uuid(i)} for i in (1, 2, 3))])
        breakable.join(home)
        breakable.ail("repair_pending", 3)
        home.close_gate()
        home.submit(grid("train", 3, STEP % 0 + '\ngpu_memory = "4GiB"'))
        home.until_running(2)
        wait_until(lambda: gpu_state(home, 3)["state"] == "quarantined", "the quarantine")
        look(home)
        shown = printed(home, "gpus")["gpus"]
        assert [gpu["state"] for gpu in shown] == ["foreign", "busy", "busy", "quarantined"]
        # Its memory is watched: the next look shows whose process it is.
        wait_until(lambda: any(h["job"] for h in gpu_state(home, 1)["holders"]), "a look")
        assert len(printed(home, "gpus")["gpus"][0]["holders"]) == 2
        assert printed(home, "show", "sweep/0")["jobs"][0]["limits"]["gpu_memory"] == "4GiB"
        assert printed(home, "gpus", "--release", "3")["released"] == [uuid(3)]
        home.open_gate()
        home.wait()
    finally:
        other.kill()
        other.wait()


def test_a_machine_whose_gpus_cannot_be_read(gpus):  # noqa: F811
    gpus.world.show(2, errors={"nvmlInit_v2": 18})
    assert printed(gpus, "gpus")["trouble"]
    look(gpus)


def test_a_copy_of_the_store_and_a_damaged_store(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    assert printed(home, "store", "backup", "copy.db", name="store-backup")["file"] == home.work + "/copy.db"
    home.run("coordinator", "stop")
    wait_until(lambda: home.coordinator() is None, "its end")
    with sqlite3.connect(home.path + "/pergpu.db") as changed:
        changed.execute("UPDATE events SET kind = 'stopping', body = '{\"cause\":3}' WHERE seq = 1")
    changed.close()
    assert printed(home, "store", "check", name="store-check", code=1)["problems"]


def test_a_command_that_fails_prints_no_value_and_says_why_on_stderr(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    fails = {
        4: ["ps 99", "show nothing", "why @9", "logs 99", "wait 99", "cancel 99", "retry --failed @"],
        2: ["wait --timeout 1", "gpus --release 7", "submit no-such.toml", "run no-such.toml --dry-run",
            "store backup sweep.toml"],
    }  # fmt: skip
    for code, lines in fails.items():
        for line in lines:
            done = home.run(*line.split(), "--json", code=code)
            assert done.stdout == "" and done.stderr.startswith(("pergpu: ", "no-such.toml")), line


def test_nothing_is_printed_of_a_coordinator_that_does_not_run(home):
    assert home.run("coordinator", "status", "--json", code=3).stdout == ""
