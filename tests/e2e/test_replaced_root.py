"""The folder that results go to is the same one as before, or nothing starts in it."""
import os

from harness import grid, wait_until

STAMP = 'command = ["stamp"]'


def waiting(home):
    """A sweep of which the first job runs."""
    home.close_gate()
    home.submit(grid("train", 3, STAMP), "--lanes", 1)
    home.until_running()
    return home.work + "/runs"


def replace(home, root):
    """Another folder of its name; the sweep waits for it."""
    os.rename(root, root + ".away")
    os.mkdir(root)
    home.open_gate()
    words = f"{root} isn't the folder that holds this sweep's results"
    wait_until(lambda: words in home.run("why", "sweep/2").stdout, "the reason")


def test_a_root_that_was_replaced_is_waited_for_and_works_when_it_is_back(home):
    root = waiting(home)
    replace(home, root)
    assert os.listdir(root) == [] and home.stamps.count("start") == 1
    os.rmdir(root)
    os.rename(root + ".away", root)
    assert home.wait() == 0 and home.stamps.count("start") == 3
    assert set(home.states().values()) == {"done"}


def test_a_submit_goes_on_in_the_root_that_is_there_now(home):
    root = waiting(home)
    replace(home, root)
    home.kill_coordinator()
    home.submit(grid("train", 3, STAMP))
    home.wait("sweep")
    assert home.only("sweep/2")["state"] == "done" and os.path.exists(root + "/sweep/02-i=2/train/log.txt")
