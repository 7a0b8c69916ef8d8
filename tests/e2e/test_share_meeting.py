"""Jobs that share memory meet at their coordinator: real jobs, real kills."""
import fcntl
import glob
import json
import os
import random
import signal
import socket
import struct
import subprocess

import pytest

from harness import alive, read, wait_until
from test_completions import asked

# What a job does: `word SOMETHING` tells the test, `gate` waits for it.
JOB = """
import array, fcntl, os, sys
from pergpu import share

NUMBER = os.environ["PERGPU_JOB"]

def tell(*words):
    with open(os.environ["STAMPS"], "a") as stamps:
        stamps.write(" ".join(map(str, ["tell", NUMBER, os.getpid(), *words])) + "\\n")

def gate(name=""):
    with open(os.environ["GATE"] + name) as file:
        fcntl.flock(file, fcntl.LOCK_SH)

def load():
    tell("loads")
    return array.array("q", range(1000))

def tokens(make=load, key="tokens", **options):
    data = memoryview(share.dataset(key + os.environ["OF"], make, **options))
    assert data[999] == 999
    tell("has", os.stat(f"/proc/self/fd/{[m.fileno() for m in share._dataset._seen.values()][-1]}").st_ino)
    return data

"""


@pytest.fixture
def jobs(home, package):
    return Jobs(home)


class Jobs:
    def __init__(self, home):
        self.home = home
        home.env["OF"] = self.key("")

    def key(self, name):
        """All processes of this user meet, those of other tests too."""
        return f"{name} of {self.home.root}"

    def submit(self, code, count=2, lanes=None, name="sweep"):
        """A sweep of `count` jobs that do this."""
        self.home.file(f"{name}.py", JOB + code)
        text = f'name = "{name}"\n[grid]\ni = {list(range(count))}\n[steps.main]\ncommand = ["/usr/bin/python3", "{name}.py", "{{i}}"]\n'
        path = self.home.file(f"{name}.toml", text)
        return self.home.json("submit", path, "--lanes", lanes or count)["jobs"]

    def told(self, *words):
        """[(job, pid, rest of the words)] of what jobs told that begins so."""
        lines = [line.split() for line in read(self.home.stamps.path, "").splitlines() if line.startswith("tell ")]
        return [(int(line[1]), int(line[2]), line[3 + len(words) :]) for line in lines if line[3 : 3 + len(words)] == [*words]]

    def until_told(self, *words, count=1):
        return wait_until(lambda: len(self.told(*words)) >= count and self.told(*words), f"{count} jobs to tell {words}")

    def segments(self):
        """Of this home."""
        return [one for one in printed(self.home, "share", "list", name="share-list")["segments"] if one["held"] or one["jobs"]]

    def held(self):
        return [one for one in self.segments() if one["held"]]

    def logs(self):
        return "".join(read(path, "") for path in glob.glob(self.home.work + "/runs/*/*/*/log.txt"))


def printed(home, *words, name):
    """The value that a command prints, held against its schema where that can be read."""
    value = json.loads(home.run(*words, "--json", code=None).stdout)
    try:
        from schemas import check
    except ImportError:
        return value
    return check(name, value)


def memory_of_ours(home):
    """Descriptors of shared memory that processes of this home have."""
    return [
        (pid, link)
        for pid in filter(str.isdigit, os.listdir("/proc"))
        if home.path in read(f"/proc/{pid}/environ", "")
        for link in map(link_of, glob.glob(f"/proc/{pid}/fd/*"))
        if link.startswith("/memfd:pergpu:")
    ]


def link_of(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def test_jobs_meet_at_the_coordinator_and_look_nowhere_else(home, jobs):
    home.close_gate()
    nowhere = """
if sys.argv[1] != "0":
    gate(".second")
    share._meeting._among_ourselves = None  # no lock, no hint, no look into /proc
"""
    holder = open(home.gate + ".second", "w")
    fcntl.flock(holder, fcntl.LOCK_EX)
    jobs.submit(nowhere + "tokens(); gate()", count=3)
    jobs.until_told("has")
    holder.close()
    has = jobs.until_told("has", count=3)
    assert len(jobs.told("loads")) == 1
    assert len({words[0] for _, _, words in has}) == 1  # the same inode
    (segment,) = jobs.segments()
    assert segment["key"] == jobs.key("tokens") and segment["kind"] == "data" and segment["held"]
    assert segment["processes"] == 3 and segment["jobs"] == sorted(job for job, _, _ in has)
    assert not segment["keep"] and segment["sweeps"] == [] and segment["bytes"] >= 8000

    home.open_gate()
    assert home.wait() == 0, jobs.logs()
    wait_until(lambda: not jobs.segments(), "the memory to go with the last process")


def test_where_the_maker_is_killed_the_next_one_makes_it(home, jobs):
    home.close_gate()
    code = """
def slowly():
    data = load()
    gate()
    return data

tell("asks")
tokens(slowly)
"""
    first, second = jobs.submit(code)
    ((maker, pid, _),) = jobs.until_told("loads")
    waiting = ({first, second} - {maker}).pop()
    ((_, waiter, _),) = [one for one in jobs.until_told("asks", count=2) if one[0] == waiting]
    wait_until(lambda: any(link_of(fd).startswith("socket:") for fd in glob.glob(f"/proc/{waiter}/fd/*")), "it to wait")
    os.kill(pid, signal.SIGKILL)
    loads = jobs.until_told("loads", count=2)
    assert loads[1][0] == waiting
    home.open_gate()
    assert home.wait() == 1
    assert [job for job, _, _ in jobs.told("has")] == [waiting]


def test_it_stays_as_long_as_its_sweep(home, jobs):
    # One lane: never are two of them there at once.
    jobs.submit('tokens(scope="sweep")', count=4, lanes=1)
    assert home.wait() == 0, jobs.logs()
    assert len(jobs.told("loads")) == 1
    assert len(jobs.told("has")) == 4
    assert jobs.segments() == []


def test_parameters_and_metrics_stay_as_long_as_their_sweep(home, jobs):
    # One lane: each job is killed before the next one begins.
    jobs.submit(
        """
import pergpu, signal
shared = share.parameters({"w": array.array("d", [0.0])}, "model")
with shared.update():
    memoryview(shared["w"])[0] += 1
pergpu.report(loss=-shared.count("steps"))
tell("seen", memoryview(shared["w"])[0], [(-one["loss"], one.last("loss")[0]) for one in pergpu.metrics(files=False)])
os.kill(os.getpid(), signal.SIGKILL)
""",
        count=3,
        lanes=1,
    )
    home.wait()
    assert [" ".join(words) for _, _, words in jobs.told("seen")] == [
        "1.0 [(1, -1)]",
        "2.0 [(1, -1), (2, -2)]",
        "3.0 [(1, -1), (2, -2), (3, -3)]",
    ], jobs.logs()
    assert jobs.segments() == []


def test_two_sweeps_do_not_mix_theirs(home, jobs):
    home.close_gate()
    jobs.submit('tokens(scope="sweep"); tokens(key="common"); gate()', name="one")
    jobs.submit('tokens(scope="sweep"); tokens(key="common"); gate()', name="two")
    jobs.until_told("has", count=8)
    assert len(jobs.told("loads")) == 3
    segments = sorted((one["key"], [sweep["sweep"] for sweep in one["sweeps"]]) for one in jobs.held())
    assert segments == [(jobs.key("common"), []), (jobs.key("tokens"), ["one"]), (jobs.key("tokens"), ["two"])]
    home.open_gate()
    home.wait("one")
    home.wait("two")
    assert jobs.segments() == []


def test_what_is_kept_survives_its_sweep_until_it_is_dropped(home, jobs):
    jobs.submit("tokens(keep=True)", count=1)
    assert home.wait() == 0, jobs.logs()
    (segment,) = jobs.segments()
    assert segment["keep"] and segment["processes"] == 0
    jobs.submit("tokens()", count=1, name="later")
    assert home.wait() == 0, jobs.logs()
    assert len(jobs.told("loads")) == 1

    doctor = printed(home, "doctor", name="doctor")
    assert [one["key"] for one in doctor["segments"] if one["held"]] == [jobs.key("tokens")]
    shared = [one for one in doctor["findings"] if one["check"] == "shared" and jobs.key("tokens") in one["what"]]
    assert len(shared) == 1 and shared[0]["state"] == "note" and "pergpu share drop" in shared[0]["mend"]
    assert home.run("share", "drop", "others", code=4).stdout == ""
    assert printed(home, "share", "drop", jobs.key("tokens"), name="share-drop")["dropped"] == [segment["name"]]
    assert jobs.segments() == []


def test_the_next_coordinator_holds_what_the_killed_one_held(home, jobs):
    home.close_gate()
    jobs.submit('tokens(scope="sweep", keep=sys.argv[1] == "0")\nif sys.argv[1] == "0": gate()', count=2, lanes=1)
    jobs.until_told("has")
    killed = home.kill_coordinator()
    wait_until(lambda: home.coordinator() not in (None, killed), "another coordinator")  # its keeper starts one
    wait_until(lambda: jobs.held(), "it to hold the memory")
    home.open_gate()
    assert home.wait() == 0, jobs.logs()
    assert len(jobs.told("loads")) == 1
    assert len(jobs.told("has")) == 2
    (segment,) = jobs.segments()
    assert segment["keep"]


def test_a_coordinator_that_is_killed_while_one_loads_and_others_wait_changes_nothing(home, jobs):
    home.close_gate()
    code = """
def slowly():
    data = load()
    gate()
    return data

tell("asks")
tokens(slowly, scope="sweep")
gate(".end")
"""
    end = open(home.gate + ".end", "w")
    fcntl.flock(end, fcntl.LOCK_EX)
    jobs.submit(code, count=3)
    jobs.until_told("loads")
    jobs.until_told("asks", count=3)
    killed = home.kill_coordinator()
    home.json("ps")  # another one answers
    assert home.coordinator() not in (None, killed)
    home.open_gate()
    has = jobs.until_told("has", count=3)
    assert len(jobs.told("loads")) == 1
    assert len({words[0] for _, _, words in has}) == 1
    (segment,) = jobs.held()  # by the new one
    assert segment["processes"] == 3 and [sweep["sweep"] for sweep in segment["sweeps"]] == ["sweep"]
    end.close()
    assert home.wait() == 0, jobs.logs()


def test_eight_jobs_have_one_copy(home, jobs):
    home.close_gate()
    code = """
def large():
    return array.array("q", range(1 << 22))  # 32 MiB

data = tokens(large, scope="sweep")
assert sum(data[::512]) == sum(range(0, 1 << 22, 512))  # a look at every page
tell("looked")
gate()
"""
    jobs.submit(code, count=8)
    looked = jobs.until_told("looked", count=8)
    (segment,) = jobs.held()
    assert segment["bytes"] >= 32 << 20 and segment["processes"] == 8 and len(segment["jobs"]) == 8
    pss = sum(share_of(pid) for _, pid, _ in looked)
    assert 0.98 * segment["bytes"] <= pss <= 1.02 * segment["bytes"]
    home.open_gate()
    assert home.wait() == 0, jobs.logs()


def share_of(pid):
    """Bytes of shared memory that are a process's part of it."""
    total, counts = 0, False
    for line in read(f"/proc/{pid}/smaps").splitlines():
        if not line.split()[0].endswith(":"):
            counts = "/memfd:pergpu:data-" in line
        elif counts and line.startswith("Pss:"):
            total += int(line.split()[1]) * 1024
    return total


def test_without_a_coordinator_they_meet_among_themselves(home, jobs):
    home.close_gate()
    code = """
if sys.argv[1] == "0":
    gate()
    os.environ["PERGPU_SHARE"] += ".gone"
tokens()
gate(".end")
"""
    end = open(home.gate + ".end", "w")
    fcntl.flock(end, fcntl.LOCK_EX)
    jobs.submit(code)
    jobs.until_told("has")
    home.open_gate()
    has = jobs.until_told("has", count=2)
    assert len(jobs.told("loads")) == 1
    assert has[0][2] == has[1][2]
    end.close()
    assert home.wait() == 0, jobs.logs()


def test_nothing_is_left_when_everything_is_killed(home, jobs):
    home.close_gate()
    before = set(os.listdir("/dev/shm"))
    jobs.submit('tokens(scope="sweep"); tokens(key="kept", keep=True); gate()')
    jobs.until_told("has", count=4)
    assert memory_of_ours(home)
    for _ in range(3):  # a keeper that lost its coordinator starts another one
        for pid in [home.coordinator(), *home.keepers(), *{pid for _, pid, _ in jobs.told("has")}]:
            if pid and alive(pid):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(alive(pid) for _, pid, _ in jobs.told("has")), "the jobs to be gone")
    if home.coordinator():
        home.kill_coordinator()
    wait_until(lambda: not memory_of_ours(home), "the memory to be gone")
    left = set(os.listdir("/dev/shm")) - before
    assert {name for name in left if not name.startswith("sem.")} == set(), "semaphores are other programs'"


def test_garbage_does_not_hurt_who_comes_after(home, jobs):
    home.close_gate()
    jobs.submit("tokens(); gate()", count=1)
    jobs.until_told("has")
    coordinator = home.coordinator()
    path = read(f"/proc/{jobs.told('has')[0][1]}/environ").split("PERGPU_SHARE=")[1].split("\0")[0]
    assert os.stat(path).st_mode & 0o777 == 0o600
    descriptors = len(os.listdir(f"/proc/{coordinator}/fd"))
    dice = random.Random(20261123)
    ends = os.pipe()
    for _ in range(300):
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(path)
            size = dice.randrange(200)
            bad = dice.choice(
                [
                    dice.randbytes(size + 1),
                    struct.pack("<IB", size, ord("q")) + dice.randbytes(size),
                    struct.pack("<IB", 1 << 30, ord("q")),
                    struct.pack("<IB", 12, ord("q")) + b'{"op":"put"}',
                ]
            )
            socket.send_fds(visitor, [bad], [ends[0]] * dice.randrange(3))
            if dice.random() < 0.5:
                visitor.settimeout(0.05)
                try:
                    visitor.recv(100)
                except OSError:
                    pass
    for end in ends:
        os.close(end)
    assert home.coordinator() == coordinator
    (segment,) = jobs.held()
    assert segment["key"] == jobs.key("tokens")
    wait_until(lambda: len(os.listdir(f"/proc/{coordinator}/fd")) <= descriptors, "its descriptors to be closed")
    home.open_gate()
    assert home.wait() == 0


def test_show_and_doctor_tell_what_jobs_share(home, jobs):
    home.close_gate()
    numbers = jobs.submit('tokens(scope="sweep"); gate()')
    jobs.until_told("has", count=2)
    for job in printed(home, "show", "sweep", name="show")["jobs"]:
        (segment,) = job["shared"]
        assert segment["key"] == jobs.key("tokens") and segment["processes"] == 2 and segment["jobs"] == numbers
    text = home.run("show", numbers[0]).stdout
    line = next(line for line in text.splitlines() if line.startswith("  shared "))
    assert jobs.key("tokens") in line and "2 processes" in line and "until sweep ends" in line
    doctor = home.run("doctor", code=None).stdout
    assert any("shared" in line and jobs.key("tokens") in line and "2 processes" in line for line in doctor.splitlines())
    title, *table, total = home.run("share", "list").stdout.splitlines()
    assert title.split() == ["KEY", "KIND", "SIZE", "AGE", "PROCESSES", "JOBS", "STAYS"]
    assert any(line.startswith(jobs.key("tokens")) for line in table)
    assert total.split()[1].startswith("segment")
    home.open_gate()
    assert home.wait() == 0


def test_tab_offers_the_keys_of_what_can_be_dropped(home, jobs):
    assert asked(home, "share", "drop", "") == [] and home.coordinator() is None
    home.close_gate()
    jobs.submit('kept = tokens(key="images", keep=True); tokens(scope="sweep"); gate()', count=1)
    jobs.until_told("has", count=2)
    offered = dict(asked(home, "share", "drop", ""))
    assert set(offered) == {jobs.key("images"), jobs.key("tokens")}
    assert all(meaning.startswith("1 segment, ") for meaning in offered.values())
    assert [word for word, _ in asked(home, "share", "drop", "im")] == [jobs.key("images")]
    home.run("share", "drop", jobs.key("images"))
    assert [word for word, _ in asked(home, "share", "drop", "")] == [jobs.key("tokens")], "a process has it, but nobody holds it"
    home.open_gate()
    assert home.wait() == 0


def test_options_without_a_coordinator_are_errors_in_words(home, jobs):
    code = """
for name in ("PERGPU_SHARE", "PERGPU_JOB"):
    del os.environ[name]
for options in ({"keep": True}, {"scope": "sweep"}, {"scope": "all"}):
    try:
        tokens(**options)
    except ValueError as error:
        tell("error", error)
"""
    jobs.submit(code, count=1)
    assert home.wait() == 0, jobs.logs()
    first, second, third = [" ".join(words) for _, _, words in jobs.told("error")]
    assert "PERGPU_SHARE is not set" in first and "PERGPU_JOB" in second and "'all'" in third
    assert not jobs.told("loads")


def test_who_asks_to_keep_and_cannot_be_heard_is_warned(home, jobs):
    code = """
import warnings
os.environ["PERGPU_SHARE"] += ".gone"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    tokens(keep=True)
tell("warned", caught[0].category.__name__, caught[0].message)
"""
    jobs.submit(code, count=1)
    assert home.wait() == 0, jobs.logs()
    ((_, _, words),) = jobs.told("warned")
    assert words[0] == "RuntimeWarning" and "does not answer" in " ".join(words)


def test_a_job_drops_what_is_kept_and_another_function_is_other_data(home, jobs):
    home.close_gate()
    jobs.submit("""
tokens(keep=True)
def mended():
    tell("mended")
    return array.array("q", range(1000))
tokens(mended, keep=True)
print(share.drop("tokens" + os.environ["OF"]), share.drop("tokens" + os.environ["OF"]), flush=True)
tell("dropped")
gate()
tokens()
""", count=1)
    jobs.until_told("dropped")
    assert jobs.held() == []
    home.open_gate()
    assert home.wait() == 0, jobs.logs()
    assert len(jobs.told("loads")) == 2 and len(jobs.told("mended")) == 1 and "True False\n" in jobs.logs()


def test_a_script_and_its_calls_have_the_same_function(home, jobs):
    text = home.file("script.py", JOB.replace('os.environ["PERGPU_JOB"]', '"0"') + """
import pergpu
def in_call():
    return memoryview(share.dataset("numbers" + os.environ["OF"], load))[7]
if __name__ == "__main__":
    data = share.dataset("numbers" + os.environ["OF"], load)
    with pergpu.Executor(2, gpus=0) as executor:
        print([executor.submit(in_call).result() for _ in range(2)])
""")
    done = subprocess.run(["/usr/bin/python3", text], cwd=home.work, env=home.env, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[7, 7]\n"), done.stderr
    assert len(jobs.told("loads")) == 1


@pytest.mark.parametrize("reuse", [False, True])
def test_an_array_is_an_argument_of_a_call_by_its_key(home, jobs, reuse):
    text = home.file("script.py", JOB.replace('os.environ["PERGPU_JOB"]', '"0"') + f"""
import pergpu
def look(array):
    with open("/proc/self/maps") as maps:
        return memoryview(array)[7], {{line.split()[4] for line in maps if "pergpu:data" in line}}
if __name__ == "__main__":
    data = share.dataset("numbers" + os.environ["OF"], load)
    with pergpu.Executor(2, gpus=0, reuse={reuse}) as executor:
        print(executor.submit(look, data).result() == look(data))
""")
    done = subprocess.run(["/usr/bin/python3", text], cwd=home.work, env=home.env, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert len(jobs.told("loads")) == 1
