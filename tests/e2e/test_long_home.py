"""A home whose path doesn't fit into the address of a socket."""
import os

import pytest
from harness import read, wait_until

ASK = """#!/usr/bin/python3 -S
import os, socket, time
notify = os.environ["PERGPU_NOTIFY"]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    s.sendto(b"STATUS=epoch 3", notify)
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
    s.connect(os.environ["PERGPU_SHARE"])
print(len(notify), len(os.environ["PERGPU_SHARE"]), flush=True)
os.system("stamp")
"""


@pytest.fixture(params=[75, 95, 108, 480])
def long(home, request):
    """Homes around the limit of 107 bytes, and far beyond it."""
    path = home.root
    while len(path) < request.param - 1:
        path += "/" + "n" * min(100, request.param - len(path) - 1)
    os.makedirs(path, mode=0o700, exist_ok=True)
    os.chmod(path, 0o700)
    home.path = path if path != home.root else home.path
    home.env["PERGPU_HOME"] = home.path
    return home


def test_jobs_reach_both_sockets_and_all_commands_work(long):
    long.script("ask", ASK)
    long.close_gate()
    long.submit('[steps.train]\ncommand = ["ask"]\n')
    long.until_running()
    wait_until(lambda: long.only()["status"] == "epoch 3", "the status")
    sizes = [int(n) for n in read(long.only()["log"]).split()]
    assert max(sizes) <= 107
    pid = long.kill_coordinator()
    assert long.only()["state"] == "running"  # the keeper was found again
    assert wait_until(long.coordinator, "the next one") != pid
    long.open_gate()
    assert long.wait(code=0) == 0


def test_a_link_that_was_removed_is_made_again(home):
    home.path = home.root + "/" + "n" * 120
    home.env["PERGPU_HOME"] = home.path
    home.script("where", '#!/bin/sh\nexec dirname "$PERGPU_NOTIFY"\n')
    where = home.run("run", "--", "where").stdout.strip()
    assert os.path.islink(where) and os.readlink(where) == home.path + "/run"
    assert os.stat(os.path.dirname(where)).st_mode & 0o777 == 0o700
    os.remove(where)
    home.run("coordinator", "stop")
    home.script("ask", ASK)
    assert home.run("run", "--", "ask").stdout.split()[0] == str(len(where) + len("/n2"))
    assert os.path.islink(where)


def test_a_home_that_the_database_cannot_open_is_refused_by_its_name(home):
    path = home.root + ("/" + "n" * 90) * 6
    err = home.run("ps", env={"PERGPU_HOME": path}, code=3).stderr
    assert path in err and "limited to 480" in err and "PERGPU_HOME" in err and not os.path.exists(path)
