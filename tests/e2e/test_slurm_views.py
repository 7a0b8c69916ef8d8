"""What is seen of jobs that a real Slurm runs: what they use and say, and when they are expected to end."""
from harness import wait_until


def submit(home, text):
    return home.submit(text, "--on", "slurm")


def test_what_runs_on_a_node_is_shown_with_what_it_uses_and_says(slurm, home):
    home.close_gate()
    submit(home, """
name = "seen"
[steps.train]
command = ["/usr/bin/python3", "-c", '''
import fcntl, os, socket
x = b"x" * (64 << 20)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    s.sendto(b"STATUS=warming up\\nPROGRESS=3/10", os.environ["PERGPU_NOTIFY"])
fcntl.flock(open(os.environ["GATE"]), fcntl.LOCK_SH)
''']
""")  # fmt: skip
    job = wait_until(lambda: (home.only().get("resident_bytes") or 0) > 64 << 20 and home.only(), "what it uses")
    assert job["status"] == "warming up" and job["progress"] == "3/10", job
    assert "warming up" in home.run("why", "seen").stdout
    home.open_gate()
    assert home.wait() == 0


def test_the_end_of_a_sweep_there_is_foretold(slurm, home):
    home.close_gate()
    submit(home, """
name = "foretold"
[grid]
x = [1, 2, 3]
[steps.train]
command = "stamp 0"
expect = "1h"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
expect = "30m"
""")  # fmt: skip
    home.until_running(3)
    wait_until(lambda: list(home.states().values()).count("running") == 3, "all three running")
    plan = home.json("plan", "foretold")
    assert 5000 < plan["total_s"] <= 5400, plan["total_s"]
    one_lane = home.json("plan", "foretold", "--on", 1)["total_s"]
    assert 8600 < one_lane <= 9000, f"{one_lane}: what runs goes on beside each other, the rest one after the other"
    home.open_gate()
    assert home.wait() == 0
