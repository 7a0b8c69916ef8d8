"""A neighbor who may write to the folders that results lie in, and puts links, FIFOs and devices there."""
import contextlib
import json
import os
import shutil
import stat
import threading

import pytest

from harness import grid, read, wait_until

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
OTHER = 61001
SECRET = "s3cret-of-a-private-file"


def plant(target, link):
    """A link that belongs to the neighbor."""
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.symlink(target, link)
    os.lchown(link, OTHER, OTHER)


def private(home):
    """A folder that only the user can enter, with names that pergpu gives to files, too."""
    folder = home.root + "/private"
    os.makedirs(folder + "/00/a")
    os.chmod(folder, 0o700)
    for name in ("config.json", "log.txt", "attempt.json", "00/a/model.pt"):
        with open(f"{folder}/{name}", "w") as f:
            f.write(SECRET)
    return folder


def assert_untouched(folder):
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert sorted(os.listdir(folder)) == ["00", "attempt.json", "config.json", "log.txt"]
    for name in ("config.json", "log.txt", "attempt.json", "00/a/model.pt"):
        assert read(f"{folder}/{name}") == SECRET


@pytest.mark.parametrize("where", ["runs/sweep/00/a", "runs/sweep/00"])
def test_a_link_of_the_user_is_not_followed_where_others_can_write(home, where):
    """A neighbor can have moved it there."""
    folder = private(home)
    link = f"{home.work}/{where}"
    os.makedirs(os.path.dirname(link))
    os.symlink(folder, link)
    os.chmod(home.work + "/runs", 0o775)
    home.submit(grid("a", 1, 'command = ["true"]'))
    home.wait()
    job = home.only()
    assert (job["state"], job["class"]) == ("failed", "user-error")
    assert f"{link} is a symbolic link in a folder that other users or a group can write to" in home.run("why", "@").stdout
    assert_untouched(folder)
    os.unlink(link)
    os.makedirs(home.root + "/disk/a")
    os.symlink(home.root + "/disk" + ("/a" if where.endswith("a") else ""), link)
    os.chmod(home.work + "/runs", 0o755)
    home.run("retry", "@")
    assert home.wait() == 0 and os.path.exists(home.root + "/disk/a/log.txt")


def test_a_sweep_behind_a_link_where_others_can_write_is_not_submitted(home):
    folder = private(home)
    os.makedirs(home.work + "/runs")
    os.symlink(folder, home.work + "/runs/sweep")
    os.chmod(home.work + "/runs", 0o775)
    said = home.run("submit", home.file("sweep.toml", grid("a", 1, 'command = ["true"]')), code=2).stderr
    assert f"{home.work}/runs/sweep is a symbolic link in a folder that other users or a group can write to" in said
    assert_untouched(folder)


@ROOT
@pytest.mark.parametrize("where", ["runs/sweep/00/a", "runs/sweep/00"])
def test_a_link_in_the_place_of_a_folder_is_refused_and_named(home, where):
    folder = private(home)
    plant(folder, f"{home.work}/{where}")
    home.submit(grid("a", 1, 'command = ["true"]'))
    home.wait()
    job = home.only()
    assert (job["state"], job["class"]) == ("failed", "user-error")
    assert job["out"].startswith(f"{home.work}/{where}"), "the test planted its link elsewhere"
    assert f"{home.work}/{where} is a symbolic link that belongs to uid {OTHER}" in home.run("why", "@").stdout
    assert_untouched(folder)
    os.unlink(f"{home.work}/{where}")
    home.run("retry", "@")
    assert home.wait() == 0


@ROOT
def test_a_submit_into_a_root_that_is_such_a_link_is_refused(home):
    folder = private(home)
    plant(folder, home.work + "/runs")
    path = home.file("sweep.toml", '[steps.a]\ncommand = ["true"]\n')
    said = home.run("submit", path, code=2).stderr
    assert f"{home.work}/runs is a symbolic link that belongs to uid {OTHER}" in said
    assert_untouched(folder)
    os.unlink(home.work + "/runs")
    plant(folder, home.work + "/runs/sweep")
    assert f"{home.work}/runs/sweep is a symbolic link" in home.run("submit", path, code=2).stderr
    shutil.rmtree(home.work + "/runs")
    plant(folder, home.work + "/runs")
    # The user's own link is as good as the folder.
    os.lchown(home.work + "/runs", os.getuid(), os.getgid())
    home.run("submit", path)
    assert home.wait() == 0 and home.only()["out"].startswith(folder + "/")


@ROOT
def test_clean_removes_nothing_behind_such_a_link(home):
    home.submit('[steps.a]\ncommand = ["true"]\n', name="s.toml")
    assert home.wait() == 0
    folder = home.root + "/private"
    shutil.copytree(home.work + "/runs", folder)
    os.chmod(folder, 0o700)
    before = sorted(os.walk(folder))
    os.rename(home.work + "/runs", home.work + "/moved")
    plant(folder, home.work + "/runs")
    for options in (["--results"], ["--results", "--yes"]):
        said = home.run("clean", "s", *options, code=1).stderr
        assert f"{home.work}/runs is a symbolic link that belongs to uid {OTHER}" in said
    assert sorted(os.walk(folder)) == before
    os.unlink(home.work + "/runs")
    os.rename(home.work + "/moved", home.work + "/runs")
    home.run("clean", "s", "--results", "--yes")
    assert not os.path.exists(home.work + "/runs/s")


SHOWN = [["logs", "@"], ["logs", "-n", "5", "@"], ["logs", "-f", "@"], ["logs", "--json", "@"], ["why", "@"],
         ["show", "@"], ["show", "@", "--json"], ["ps", "-a", "--json"], ["report", "@", "-o", "-"],
         ["export", "@"]]  # fmt: skip


def show_all(home, refused):
    """What every command shows; `logs` must refuse with these words."""
    for args in SHOWN:
        shown = home.run(*args, code=None)
        assert SECRET not in shown.stdout + shown.stderr, args
        assert len(shown.stdout) < 10_000_000, args
        if args[0] == "logs":
            assert shown.returncode != 0 and refused in shown.stderr, (args, shown)


def test_what_lies_in_the_place_of_a_log_reaches_no_output(home):
    home.submit('[steps.a]\nshell = "echo said; exit 3"\n')
    home.wait()
    job = home.only()
    secret = home.file("secret", f"ValueError: {SECRET}\n")
    log, metrics = job["log"], job["metrics"]
    for make, refused in [
        (lambda path: os.symlink(secret, path), "it's a link"),
        (lambda path: os.link(secret, path), "a second name"),
        (os.mkfifo, "isn't a regular file"),
        (lambda path: os.symlink("/dev/zero", path), "it's a link"),
    ]:
        for path in (log, metrics):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            make(path)
        show_all(home, refused)


def test_a_fifo_that_somebody_writes_to_holds_nobody_up(home):
    home.submit('[steps.a]\nshell = "echo said; exit 3"\n')
    home.wait()
    job = home.only()
    for path in (job["log"], job["metrics"], job["out"] + "/attempt.json"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.mkfifo(path)
    ends = [os.open(path, os.O_RDWR) for path in (job["log"], job["metrics"])]

    def write():
        with contextlib.suppress(OSError):
            while True:
                os.write(ends[0], SECRET.encode() + b"\n")

    writer = threading.Thread(target=write, daemon=True)
    os.set_blocking(ends[0], False)
    writer.start()
    show_all(home, "isn't a regular file")
    writer.join()
    for end in ends:
        os.close(end)


def test_the_reason_of_a_failure_quotes_no_private_file(home):
    secret = home.file("secret", f"Traceback (most recent call last):\nValueError: {SECRET}\n")
    home.submit(f"""[steps.a]
shell = 'rm "$PERGPU_OUT/log.txt"; ln -s {secret} "$PERGPU_OUT/log.txt"; exit 1'
retries = 0
""")
    home.wait()
    assert home.only()["state"] == "failed"
    for args in (["why", "@"], ["ps", "-a", "--json"], ["report", "@", "-o", "-"]):
        assert SECRET not in home.run(*args, code=None).stdout, args
    wait_until(lambda: json.loads(read(home.only()["out"] + "/attempt.json"))["state"] == "failed", "the record")
    assert SECRET not in read(home.only()["out"] + "/attempt.json")


@ROOT
def test_output_through_such_a_link_is_refused(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    secret = home.file("secret", SECRET)
    plant(secret, home.work + "/page.html")
    plant(home.root, home.work + "/folder")
    for path in ("page.html", "folder/page.html"):
        said = home.run("report", "@", "-o", path, code=2).stderr
        assert f"is a symbolic link that belongs to uid {OTHER}" in said
    assert read(secret) == SECRET and not os.path.exists(home.root + "/page.html")
