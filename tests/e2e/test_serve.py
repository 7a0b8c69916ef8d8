"""`pergpu serve` over HTTP, as programs see it; browsers are in web/browser."""
import gzip
import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import time
import urllib.parse

import pytest
from harness import DEADLINE, grid, read, wait_until
from prometheus_client.parser import text_string_to_metric_families

STAMPS = 'command = ["stamp"]'


class Stream:
    """Server-sent events, read until one is of interest."""

    def __init__(self, server, path, last_id=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        fields = {**server.token(), **({"Last-Event-ID": last_id} if last_id else {})}
        self.connection.request("GET", path, headers=fields)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        self.id = None

    def next(self):
        """(name, data) of the next event that has an id."""
        event = {}
        while True:
            line = self.response.readline().decode()
            assert line, "the stream has ended"
            if line == "\n" and "id" in event:
                self.id = event["id"]
                return event["event"], json.loads(event["data"])
            if line == "\n":
                event = {}
            else:
                key, _, value = line.rstrip("\n").partition(": ")
                event[key] = value

    def until(self, wanted):
        """Reads until `wanted(name, data)` is true; all events so far."""
        end, seen = time.monotonic() + DEADLINE, []
        while time.monotonic() < end:
            seen.append(self.next())
            if wanted(*seen[-1]):
                return seen
        raise AssertionError(f"waited in vain: {[name for name, _ in seen]}")

    def close(self):
        self.response.close()
        self.connection.close()


class Server:
    def __init__(self, home, *args):
        self.home = home
        self.process = home.start("serve", *(args or ("--port", "0")))
        self.link = self.process.stdout.readline().strip()
        assert self.link, self.process.communicate()
        self.port = urllib.parse.urlsplit(self.link).port
        self.secret = read(home.path + "/web-token")

    def token(self):
        return {"Authorization": "Bearer " + self.secret}

    def ask(self, method, path, fields=None, body=None):
        """(status, fields, body) with these fields only, but for Host."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        connection.request(method, path, body, fields or {})
        response = connection.getresponse()
        result = response.status, response.headers, response.read()
        connection.close()
        return result

    def get(self, path, code=200):
        status, _, body = self.ask("GET", path, self.token())
        assert status == code, body
        return json.loads(body)

    def post(self, path, value, code=200):
        fields = {**self.token(), "Content-Type": "application/json"}
        status, _, body = self.ask("POST", path, fields, json.dumps(value))
        assert status == code, body
        return json.loads(body)

    def origin(self):
        return {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}

    def use(self, link):
        """The answer to what the page does with a link."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
        body = json.dumps({"token": query["token"][0]})
        return self.ask("POST", "/api/login", self.origin(), body)

    def log_in(self):
        """What the page sends once it has used the link."""
        status, fields, body = self.use(self.link)
        assert status == 200 and "Set-Cookie" not in fields
        self.link = self.process.stdout.readline().strip()
        return {"Authorization": "Bearer " + json.loads(body)["session"]}


@pytest.fixture
def serve(home):
    """Starts a server at each call.  They end before the home does: a page keeps a coordinator."""
    servers = []

    def start(*args):
        servers.append(Server(home, *args))
        return servers[-1]

    yield start
    for server in servers:
        server.process.terminate()
        server.process.wait(DEADLINE)


@pytest.fixture
def server(serve):
    return serve()


def test_a_link_lets_one_browser_in_and_a_new_one_is_printed(home, serve):
    server = serve()
    first = server.link
    assert server.ask("GET", first[first.index("/login") :])[0] == 200, "to be looked at is no use of it"
    session = server.log_in()
    assert server.ask("GET", "/api/hello", session)[0] == 200
    assert session != server.token(), "what a browser has ends with the server"
    assert server.link != first
    status, _, body = server.use(first)
    assert status == 403 and b"has been used" in body
    for wrong in ({"token": "0" * 32}, {"token": ""}, {"token": 1}, {}, [1], "x"):
        assert server.ask("POST", "/api/login", server.origin(), json.dumps(wrong))[0] == 403, wrong
    assert server.ask("POST", "/api/login", server.origin(), "{")[0] == 403
    assert server.link.startswith(f"http://127.0.0.1:{server.port}/login?token=")
    # Another server on this port may be another user's: a session of before is worth nothing.
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(DEADLINE) == 143
    again = serve("--port", server.port)
    assert again.ask("GET", "/api/hello", session)[0] == 401
    assert again.ask("GET", "/api/hello", again.log_in())[0] == 200
    assert again.secret == server.secret, "programs find theirs in its file"
    assert stat.S_IMODE(os.stat(home.path + "/web-token").st_mode) == 0o600


def test_a_secret_that_others_could_read_is_made_anew(serve, home):
    first = serve().secret
    os.chmod(home.path + "/web-token", 0o644)
    assert serve().secret != first
    assert stat.S_IMODE(os.stat(home.path + "/web-token").st_mode) == 0o600


def test_who_has_neither_session_nor_token_is_told_nothing(server):
    for path in ("/metrics", "/api/hello", "/api/events", "/api/jobs/1", "/nothing"):
        status, fields, body = server.ask("GET", path)
        assert status == 401, path
        assert "frame-ancestors 'none'" in fields["Content-Security-Policy"]
        assert server.secret.encode() not in body
    for fields in ({"Authorization": "Bearer " + "0" * 64}, {"Cookie": f"pergpu-{server.port}={server.secret}"}):
        assert server.ask("GET", "/api/hello", fields)[0] == 401
    status, fields, _ = server.ask("GET", "/")
    assert status == 200 and "Set-Cookie" not in fields, "the page itself tells nothing"


CROWD = """
import socket, sys, time
held = []
for _ in range(400):
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20))
print("full", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
def test_idle_connections_of_another_user_shut_nobody_out(server):
    # Two of the owner's that were not let in yet: no session, no token, older than all others.
    early = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE) for _ in range(2)]
    for connection in early:
        connection.connect()
    crowd = subprocess.Popen(
        [os.path.realpath(sys.executable), "-c", CROWD, str(server.port)],
        user=61001, group=61001, extra_groups=[], stdout=subprocess.PIPE, text=True,
    )
    try:
        assert crowd.stdout.readline() == "full\n"
        session = server.log_in()
        for fields in (session, server.token()):
            assert server.ask("GET", "/api/hello", fields)[0] == 200
        for connection in early:
            connection.request("GET", "/api/hello", headers=session)
            response = connection.getresponse()
            assert response.status == 200, "the connections of the page's owner stay"
            response.read()
            connection.close()
    finally:
        crowd.kill()
        crowd.wait()
        crowd.stdout.close()


def test_a_body_that_is_too_long_is_refused_in_words(server):
    status, _, body = server.ask("POST", "/api/login", server.origin(), "x" * (8 << 20))
    assert status == 413 and b"too long" in body


def test_other_hosts_origins_and_methods_are_refused(home, server):
    home.submit(grid("work", 1, STAMPS), "--lanes", 1)
    action = {**server.token(), "Content-Type": "application/json"}
    body = json.dumps({"jobs": [1]})
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", "127.0.0.1:1"):
        assert server.ask("GET", "/api/hello", {**server.token(), "Host": host})[0] == 403
    for method in ("GET", "POST", "DELETE", "PUT", "OPTIONS"):
        fields = {**action, "Origin": "http://evil.example"}
        assert server.ask(method, "/api/actions/cancel", fields, body)[0] == 403, method
    assert server.ask("DELETE", "/api/jobs/1", server.token())[0] == 405
    page = {**server.log_in(), "Content-Type": "application/json"}
    assert server.ask("POST", "/api/actions/cancel", page, body)[0] == 403, "no Origin"
    own = {**page, **server.origin()}
    for other in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        assert server.ask("POST", "/api/login", {**server.origin(), **other}, "{}")[0] == 403
    assert server.ask("POST", "/api/actions/cancel", {**own, "Content-Type": "text/plain"}, body)[0] == 415
    assert home.wait() == 0
    # Nothing of this has cancelled the job; with all in order it would be asked for.
    status, _, reply = server.ask("POST", "/api/actions/cancel", own, body)
    assert status == 200 and json.loads(reply)["left"][0]["state"] == "done"


def test_a_tunnels_name_is_let_in_where_it_is_given(serve):
    server = serve("--port", "0", "--host", "box.example:9000")
    fields = {**server.token(), "Host": "box.example:9000", "Origin": "http://box.example:9000"}
    assert server.ask("GET", "/api/hello", fields)[0] == 200


def test_a_port_that_is_taken_is_said(home, server):
    refused = home.run("serve", "--port", server.port, code=3)
    assert f"port {server.port} is in use" in refused.stderr
    assert "--port 0" in refused.stderr


def test_jobs_are_told_of_as_they_start_and_end(home, server):
    home.close_gate()
    everything = Stream(server, "/api/events")
    assert everything.next()[0] == "all.snapshot"
    reply = home.submit(grid("work", 2, STAMPS, 'name = "pair"'), "--lanes", 1)
    sweep = Stream(server, f"/api/events?sweep={reply['sweep_id']}")
    names = [sweep.next(), sweep.next()]
    snapshots = dict(names)
    assert set(snapshots) == {"all.snapshot", "sweep.snapshot"}
    assert snapshots["sweep.snapshot"]["sweep"]["name"] == "pair"
    assert len(snapshots["sweep.snapshot"]["jobs"]) == 2
    home.until_running()
    home.open_gate()
    sweep.until(lambda name, data: name == "sweep.end")
    everything.until(
        lambda name, data: any(s["counts"].get("done") == 2 for s in data.get("sweeps", []))
    )


def test_a_reader_that_comes_back_is_told_what_it_missed_and_no_more(home, server):
    home.close_gate()
    sweep_id = home.submit(grid("work", 1, STAMPS), "--lanes", 1)["sweep_id"]
    path = f"/api/events?sweep={sweep_id}"
    stream = Stream(server, path)
    stream.until(lambda name, data: name == "sweep.snapshot")
    stream.close()
    last = stream.id
    home.until_running()
    home.open_gate()
    home.wait()
    again = Stream(server, path, last)
    missed = again.until(lambda name, data: name == "sweep.end")
    assert not [name for name, _ in missed if name.endswith("snapshot")]
    states = [data["job"]["state"] for name, data in missed if name == "sweep.job"]
    assert states[-1] == "done"
    # Another server's numbers mean nothing.
    fresh = Stream(server, path, "ffff" + last[4:])
    assert fresh.next()[0] == "all.snapshot"


def test_a_coordinator_that_is_killed_is_a_gap_and_no_end(home, server):
    home.close_gate()
    sweep_id = home.submit(grid("work", 1, STAMPS), "--lanes", 1)["sweep_id"]
    stream = Stream(server, f"/api/events?sweep={sweep_id}")
    stream.until(lambda name, data: name == "sweep.snapshot")
    home.until_running()
    home.kill_coordinator()
    stream.until(lambda name, data: name == "gap")
    stream.until(lambda name, data: name == "sweep.snapshot")
    home.open_gate()
    stream.until(lambda name, data: name == "sweep.end")


def test_a_log_is_followed_over_a_retry_and_resumed(home, server):
    home.script("talk", '#!/bin/sh\necho "attempt $PERGPU_ATTEMPT ä"\nflock -s "$GATE" true\nexit 1\n')
    home.close_gate()
    reply = home.submit('[steps.work]\ncommand = ["talk"]\nretries = { max = 1, delay = "1ms" }\n[grid]\ni = [1]',
                        "--lanes", 1)
    job = reply["jobs"][0]
    path = f"/api/events?log={job}"
    stream = Stream(server, path)
    text = ""

    def has(words):
        def look(name, data):
            nonlocal text
            if name == "log.reset":
                text = data["text"]
            if name == "log.more":
                text += data["text"]
            return words in text

        return look

    stream.until(has("attempt 1 ä"))
    stream.close()
    # In between something else is told of, and nothing of the log.
    between = Stream(server, path, stream.id)
    home.submit(grid("work", 1, STAMPS), "--lanes", 1, name="other.toml")
    seen = between.until(lambda name, data: name == "all.changes")
    between.close()
    again = Stream(server, path, between.id)
    home.open_gate()
    seen += again.until(has("attempt 2 ä"))
    assert not [name for name, data in seen if "attempt 1" in data.get("text", "")], "told before"
    assert not [name for name, _ in seen if name == "all.snapshot"]
    assert [data["attempt"] for name, data in seen if name == "log.reset"] == [2]


def test_what_the_page_asks_for_is_what_the_commands_print(home, server):
    home.script("work", '#!/bin/sh\necho \'{"step": 1, "loss": 0.5}\' >>"$PERGPU_METRICS"\n'
                        'echo \'{"step": 2, "loss": 0.25, "note": "x"}\' >>"$PERGPU_METRICS"\n')
    sweep_id = home.submit(grid("work", 2, 'command = ["work"]', 'name = "s"'), "--lanes", 2)["sweep_id"]
    home.wait()
    for job in home.ps("s").values():  # its end is written down a moment after it is known
        wait_until(lambda path=job["out"] + "/attempt.json": json.loads(read(path))["state"] == "done", "its record")
    hello = server.get("/api/hello")
    assert hello["home"] == home.path and hello["readonly"] is False
    whole = server.get("/api/jobs/1")
    shown = home.json("show", 1)["jobs"][0]
    assert shown.pop("shared") == []  # the command looks for it in the machine's processes; the page does not
    assert whole == shown
    assert server.get("/api/jobs/1/why")["state"] == "done"
    points = server.get("/api/jobs/1/metrics")
    assert points["names"] == ["step", "loss"]
    assert points["points"] == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}]
    assert server.get("/api/jobs/1/usage")["job"] == 1
    lines = home.run("export", "--jsonl", "s").stdout.splitlines()
    assert server.get(f"/api/sweeps/{sweep_id}/history")["jobs"] == [json.loads(line) for line in lines]
    assert server.get("/api/plan")["schema"] == 1
    assert "error" in server.get("/api/jobs/99", 404)
    assert "error" in server.get("/api/sweeps/99/history", 404)
    for path in ("/api", "/api/", "/api/jobs/x", "/api/jobs/1/nothing", "/nothing", "/api/jobs/99999999999999999999"):
        assert "error" in server.get(path, 404), path
    assert "error" in server.get("/api/events?sweep=x", 400)


def test_actions_do_what_the_commands_do(home, server):
    home.close_gate()
    jobs = home.submit(grid("work", 3, STAMPS), "--lanes", 1)["jobs"]
    home.until_running()
    assert server.post("/api/actions/hold", {"jobs": jobs[2:]})["changed"] == jobs[2:]
    assert home.only(str(jobs[2]))["state"] == "held"
    assert server.post("/api/actions/release", {"jobs": jobs[2:]})["changed"] == jobs[2:]
    assert server.post("/api/actions/cancel", {"jobs": jobs[1:], "kill": False})["changed"] == jobs[1:]
    assert server.post("/api/actions/retry", {"jobs": [jobs[1]]})["changed"] == [jobs[1]]
    for wrong in ({}, {"jobs": []}, {"jobs": ["1"]}, {"jobs": [1], "kill": 3}, [1], {"jobs": [-1]}):
        assert "error" in server.post("/api/actions/cancel", wrong, 400), wrong
    assert "error" in server.post("/api/actions/explode", {"jobs": [1]}, 404)
    assert "error" in server.post("/api/actions/cancel", {"jobs": [4711]}, 404)


def test_readonly_changes_nothing(home, serve):
    server = serve("--port", "0", "--readonly")
    home.close_gate()
    home.submit(grid("work", 1, STAMPS), "--lanes", 1)
    assert server.get("/api/hello")["readonly"] is True
    assert "--readonly" in server.post("/api/actions/cancel", {"jobs": [1]}, 403)["error"]
    assert server.ask("GET", "/api/hello", server.log_in())[0] == 200
    assert home.only()["state"] in ("starting", "running")


def test_metrics_are_what_a_prometheus_client_reads(home, server):
    stream = Stream(server, "/api/events")
    stream.next()
    home.script("fail", "#!/bin/sh\nexit 7\n")
    text = '[steps.a]\ncommand = ["true"]\n[steps.b]\ncommand = ["fail"]\n[grid]\ni = [1, 2]'
    home.submit(text, "--lanes", 2, name="we.toml")
    home.wait()
    stream.until(lambda name, data: data.get("counts", {}).get("failed") == 2)
    status, fields, body = server.ask("GET", "/metrics", server.token())
    assert status == 200 and fields["Content-Type"].startswith("text/plain; version=0.0.4")
    samples = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            samples[(sample.name, *sorted(sample.labels.items()))] = sample.value
    assert samples[("pergpu_jobs", ("state", "done"))] == 2
    assert samples[("pergpu_jobs", ("state", "failed"))] == 2
    assert samples[("pergpu_attempts_ended_total", ("class", "ok"))] == 2
    assert samples[("pergpu_attempts_ended_total", ("class", "exit"))] == 2
    assert samples[("pergpu_attempt_seconds_count",)] == 4
    assert samples[("pergpu_attempt_seconds_bucket", ("le", "+Inf"))] == 4
    assert samples[("pergpu_queue_wait_seconds_count",)] == 4


@pytest.mark.skipif(os.environ.get("PERGPU_PAGE") == "OFF", reason="built with PERGPU_PAGE=OFF")
def test_the_page_is_whole_and_kept_by_browsers_until_it_changes(server):
    status, fields, body = server.ask("GET", "/")
    assert status == 200 and fields["Content-Encoding"] == "gzip"
    page = gzip.decompress(body).decode()
    assert "http://" not in page and "https://" not in page
    for path in ("/app.js", "/app.css", "/icon.svg"):
        assert path[1:] in page
        status, fields, body = server.ask("GET", path)
        assert status == 200 and gzip.decompress(body)
        again = server.ask("GET", path, {"If-None-Match": fields["ETag"]})
        assert again[0] == 304 and again[2] == b""


def test_its_end_ends_nothing_else(home, server):
    home.close_gate()
    home.submit(grid("work", 1, STAMPS), "--lanes", 1)
    home.until_running()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(DEADLINE) == 130
    home.open_gate()
    assert home.wait() == 0
    wait_until(lambda: home.stamps.count("end") == 1, "the end of the job")
