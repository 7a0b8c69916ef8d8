"""Changes of mind within seconds, while a real Slurm still has the job."""
from harness import wait_until


def test_what_is_held_and_released_at_once_runs(slurm, home):
    home.close_gate()
    home.submit("""
name = "mind"
[steps.train]
command = "stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""", "--on", "slurm")  # fmt: skip
    home.until_running()
    wait_until(lambda: len(slurm.open()) == 2, "both in Slurm's queue")
    home.run("hold", "mind/*/evaluate")
    wait_until(lambda: len(slurm.open()) == 1, "its leaving Slurm's queue")
    home.run("release", "mind/*/evaluate")
    home.open_gate()
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"} and home.stamps.count("start") == 2
