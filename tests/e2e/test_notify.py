"""[notify]: hooks and messages over HTTP, to servers that refuse, hang or are not there, over kills."""
import contextlib
import glob
import http.server
import json
import os
import socket
import threading

import pytest

from harness import alive, grid, read, wait_until
from test_environment import files_with
from test_terminal import Terminal

SECRET = "T0123-hook-secret"


class Receiver:
    """An HTTP server that answers what the test says: a status, or None (it never answers)."""

    def __init__(self, answers=(), port=0):
        self.answers, self.requests, self.over = list(answers), [], threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status = receiver.answers.pop(0) if receiver.answers else 200
                receiver.requests.append((self.path, dict(self.headers), body))
                if status is None:
                    receiver.over.wait()
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook/{SECRET}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def until(self, count):
        wait_until(lambda: len(self.requests) >= count, f"{count} requests")
        return [json.loads(body) for _, _, body in self.requests]

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receive():
    with contextlib.ExitStack() as stack:

        def make(*answers, port=0):
            receiver = Receiver(answers, port)
            stack.callback(receiver.close)
            return receiver

        yield make


def told(step='command = ["true"]', count=2, notify='webhook = "$HOOK"'):
    return f"[notify]\n{notify}\n" + grid("train", count, step)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def debts_are_paid(home):
    return all(line.endswith(": all notifications sent") for line in shown(home))


def shown(home, selector="sweep/0"):
    return home.json("show", selector)["jobs"][0]["notify"]


def test_a_webhook_is_told_of_failures_and_of_the_end_with_the_table(home, receive):
    receiver = receive()
    step = """shell = 'echo "{\\"loss\\": 0.25}" >"$PERGPU_METRICS"; exit $((PERGPU_PARAM_I * 7))'"""
    home.submit(told(step, 2), env={"HOOK": receiver.url})
    assert home.wait() == 1
    wait_until(lambda: any("end" in m["events"] for m in receiver.until(1)), "the end")
    messages = receiver.until(1)
    assert sum(m["failures"] for m in messages) == 1
    last = messages[-1]
    assert last["schema"] == 1 and last["sweep"] == "sweep"
    assert last["counts"] == {"done": 1, "failed": 1} and last["duration_s"] >= 0
    assert "1 done, 1 failed" in last["title"]
    assert "0.25" in last["table"] and "exit code 7" in json.dumps(messages)
    (failed,) = [job for m in messages for job in m["failed"]]
    assert failed["exit"] == 7 and failed["log"] == home.ps()["01-i=1/train"]["log"]
    wait_until(lambda: debts_are_paid(home), "its record")


def test_a_message_that_is_refused_is_sent_again(home, receive):
    receiver = receive(503, 500)
    home.submit(told(), env={"HOOK": receiver.url})
    assert home.wait() == 0
    messages = receiver.until(3)
    assert [m["events"] for m in messages] == [["end"]] * 3
    wait_until(lambda: debts_are_paid(home), "its record")
    assert len(receiver.requests) == 3


def test_what_was_not_sent_when_the_coordinator_was_killed_is_sent_after_the_restart(home, receive):
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook/{SECRET}"
    reply = home.submit(told('command = ["stamp"]'), "--lanes", 1, env={"HOOK": url})
    assert home.wait() == 0
    wait_until(lambda: "failed tr" in json.dumps(shown(home)), "a failed try")
    home.kill_coordinator()
    receiver = receive(port=port)
    home.ps()
    (message,) = receiver.until(1)
    assert message["events"] == ["end"] and message["counts"] == {"done": 2}
    environment = f"{home.path}/env/{reply['sweep_id']}"
    wait_until(lambda: not os.path.exists(environment), "the removal of the environment")
    home.kill_coordinator()
    home.ps()
    home.run("submit", home.file("next.toml", '[steps.a]\ncommand = ["true"]\n'))
    assert home.wait("next") == 0
    assert len(receiver.requests) == 1


def curls(home):
    return [pid for pid in home.processes("curl") if "curl" in read(f"/proc/{pid}/comm", "")]


def command_lines():
    return "".join(read(path, "") for path in glob.glob("/proc/[0-9]*/cmdline"))


def test_a_server_that_hangs_holds_nothing_up_and_no_secret_is_seen(home, receive):
    receiver = receive(None)
    secret_token = "tk_0123456789"
    text = told(notify='webhook = "$HOOK"\ntoken = "$HOOK_TOKEN"')
    env = {"HOOK": receiver.url, "HOOK_TOKEN": secret_token}
    reply = home.submit(text, env=env)
    assert home.wait() == 0
    wait_until(lambda: receiver.requests, "a request")
    assert receiver.requests[0][1]["Authorization"] == f"Bearer {secret_token}"
    pid = wait_until(lambda: next(iter(curls(home)), None), "curl")
    lines = command_lines()
    assert SECRET not in lines and secret_token not in lines
    home.submit('[steps.a]\ncommand = ["true"]\n', name="next.toml")
    assert home.wait("next") == 0 and alive(pid), "jobs go on beside it"
    for words in (SECRET, secret_token):
        assert files_with(home.root, words) == [f"h/env/{reply['sweep_id']}"]
        for args in (["show", "sweep/0"], ["ps", "-a", "--json"], ["show", "sweep/0", "--json"]):
            assert words not in home.run(*args).stdout
    receiver.over.set()
    assert [m["events"] for m in receiver.until(2)] == [["end"], ["end"]]
    wait_until(lambda: files_with(home.root, SECRET) == [], "the removal of the environment")


def test_a_hook_gets_facts_and_variables_in_the_folder_of_the_file(home):
    home.script("hook.sh", '#!/bin/sh\ncat >"$1"\necho "$PERGPU_EVENTS $PERGPU_DONE $MINE $PWD" >told\n')
    home.submit(told(notify='command = ["./hook.sh", "facts"]'), env={"MINE": "mine"})
    assert home.wait() == 0
    line = wait_until(lambda: read(home.work + "/told", "").strip(), "the hook")
    assert line == f"end 2 mine {home.work}"
    facts = json.loads(read(home.work + "/facts"))
    assert facts["counts"] == {"done": 2} and facts["title"] == "sweep is done: 2 jobs"


def test_a_hook_that_fails_is_run_again_and_its_words_are_shown(home):
    home.script("hook.sh", '#!/bin/sh\necho x >>tries\n[ "$(wc -l <tries)" -ge 2 ] && exit\n'
                           'echo "no mail: token=abc" >&2; exit 5\n')  # fmt: skip
    home.submit(told(notify='command = ["./hook.sh"]'))
    assert home.wait() == 0
    wait_until(lambda: "exit code 5: no mail: token=***" in json.dumps(shown(home)), "its words")
    wait_until(lambda: debts_are_paid(home), "the second try")
    assert read(home.work + "/tries") == "x\nx\n"


def test_a_hook_that_hangs_is_killed_with_its_children_and_holds_nothing_up(home):
    home.script("hook.sh", "#!/bin/sh\nsleep 1000 &\necho $! >>children\nwait\n")
    home.submit(told(notify='command = ["./hook.sh"]\ntimeout = "2s"'))
    assert home.wait() == 0
    child = int(wait_until(lambda: read(home.work + "/children", "").strip(), "the hook").split()[0])
    home.submit('[steps.a]\ncommand = ["true"]\n', name="next.toml")
    assert home.wait("next") == 0
    wait_until(lambda: not alive(child), "the end of its child")
    wait_until(lambda: "took too long" in json.dumps(shown(home)), "words about it")
    home.script("hook.sh", "#!/bin/sh\ntrue\n")  # the next try ends at once
    wait_until(lambda: debts_are_paid(home), "a try that arrives")


def test_many_failures_are_few_messages(home, receive):
    receiver = receive()
    home.submit(told('breaker = 0\ncommand = ["false"]', 60), "--lanes", 8, env={"HOOK": receiver.url})
    assert home.wait() == 1
    wait_until(lambda: sum(m["failures"] for m in receiver.until(1)) == 60, "all of them")
    assert len(receiver.requests) <= 3
    assert "end" in receiver.until(1)[-1]["events"]


def test_slack_and_ntfy_get_their_own_forms(home, receive):
    receiver = receive()
    text = told(notify='slack = "$HOOK"\nntfy = "$TOPIC"\non = ["end"]')
    home.submit(text, env={"HOOK": receiver.url, "TOPIC": receiver.url + "/topic"})
    assert home.wait() == 0
    wait_until(lambda: len(receiver.requests) == 2, "both")
    by_path = {path.rsplit("/", 1)[1]: (headers, body) for path, headers, body in receiver.requests}
    slack = json.loads(by_path[SECRET][1])["text"]
    assert slack.startswith("*sweep is done: 2 jobs*\n```\n")
    headers, body = by_path["topic"]
    assert headers["Title"] == "sweep is done: 2 jobs" and "2 done" in body


def test_notify_test_says_what_came_back_of_each_channel(home, receive):
    receiver = receive(200, 403)
    env = {"HOOK": receiver.url, "SLACK": receiver.url}
    path = home.file("s.toml", told(notify='command = ["true"]\nwebhook = "$HOOK"\nslack = "$SLACK"'))
    reply = json.loads(home.run("notify", "test", path, "--json", code=1, env=env).stdout)
    assert reply["schema"] == 1
    assert [(c["channel"], c["ok"], c["said"]) for c in reply["channels"]] == [
        ("command true", True, "exit code 0"),
        ("webhook $HOOK", True, "HTTP 200"),
        ("slack $SLACK", False, "HTTP 403"),
    ]
    assert json.loads(receiver.requests[0][2])["events"] == ["test"]
    said = home.run("notify", "test", path, env=env).stdout
    assert "slack $SLACK: sent: HTTP 200" in said and SECRET not in said
    assert home.coordinator() is None, "it needs none"


def test_notify_test_without_a_file_takes_that_of_the_last_sweep(home, receive):
    receiver = receive()
    home.submit(told(notify='webhook = "$HOOK"\non = "failure"'), env={"HOOK": receiver.url})
    assert home.wait() == 0
    home.run("notify", "test", env={"HOOK": receiver.url})
    assert [m["events"] for m in receiver.until(1)] == [["test"]]
    plain = home.file("plain.toml", grid("train", 1, 'command = ["true"]'))
    assert "no [notify]" in home.run("notify", "test", plain, code=2).stderr


def test_a_submit_without_the_variable_is_refused_and_one_without_the_program_is_warned(home):
    path = home.file("s.toml", told(notify='slack = "$NOT_THERE"'))
    said = home.run("submit", path, code=2).stderr
    assert "slack $NOT_THERE" in said and "not set" in said
    said = home.run("submit", path, code=2, env={"NOT_THERE": SECRET}).stderr
    assert "NOT_THERE" in said and SECRET not in said
    assert home.coordinator() is None
    os.mkdir(home.work + "/bin")
    os.symlink("/bin/true", home.work + "/bin/true")
    text = told(notify='command = "./hook.sh"\nntfy = "$TOPIC"')
    env = {"PATH": home.work + "/bin", "TOPIC": "http://127.0.0.1:9/x"}
    said = home.run("submit", home.file("t.toml", text), env=env).stderr
    assert "hook.sh: no such program yet" in said and "install the package curl" in said


@pytest.mark.parametrize("step, state", [('command = ["true"]', 1), ('command = ["false"]', 2)])
def test_a_terminal_that_knows_it_gets_progress_and_a_bell_at_the_end(home, step, state):
    home.close_gate()
    text = grid("a", 1, step) + '[steps.b]\nneeds = ["a:ended"]\ncommand = ["stamp"]\n'
    follower = Terminal(home, "run", home.file("s.toml", text), WT_SESSION="1-2")
    follower.until(f"\x1b]9;4;{state};50\x1b\\")
    home.open_gate()
    follower.ended()
    shown = follower.text
    assert shown.rindex("\x1b]9;4;0;0\x1b\\") > shown.rindex(f"\x1b]9;4;{state};")
    assert "\a" in shown


def test_signs_can_be_switched_off_and_others_get_none(home):
    path = home.file("s.toml", grid("a", 2, 'command = ["true"]'))
    without = Terminal(home, "run", path, "--no-bell", "--no-osc", WT_SESSION="1-2")
    assert without.ended() == 0 and "\x1b]9" not in without.text and "\a" not in without.text
    other = Terminal(home, "run", path, "--rerun")
    assert other.ended() == 0 and "\x1b]9" not in other.text and "\a" in other.text


def test_ctrl_c_takes_the_progress_away(home):
    home.close_gate()
    path = home.file("s.toml", grid("train", 3, 'command = ["stamp"]'))
    follower = Terminal(home, "run", path, "--lanes", "1", WT_SESSION="1-2")
    follower.until("\x1b]9;4;1;0")
    follower.type("\x03")
    follower.until("\x1b]9;4;0;0")
    follower.until("2 jobs held")
    home.open_gate()
    assert follower.ended() == 130
