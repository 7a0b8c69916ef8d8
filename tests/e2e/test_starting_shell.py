"""Soft limits of the shell that starts it end neither the coordinator nor a keeper; jobs have them."""
import os
import signal
import subprocess

from harness import alive, grid, read

# ulimit's letter -> the line of /proc/PID/limits
LIMITS = {"f": "Max file size", "t": "Max cpu time", "v": "Max address space", "u": "Max processes", "s": "Max stack size"}
SOFT = {"f": 100, "t": 3000, "v": 4_000_000, "u": 5000, "s": 1024}


def submit(home, path, *args):
    """From a shell that has these soft limits, and ignores SIGUSR2 and SIGXCPU."""
    limits = "; ".join(f"ulimit -S -{letter} {value}" for letter, value in SOFT.items())
    script = f'{limits}; trap "" USR2 XCPU; exec "$0" "$@"'
    command = ["/bin/bash", "-c", script, home.program, "submit", path, *args]
    return subprocess.run(command, env=home.env, cwd=home.work, check=True, capture_output=True, text=True)


def limit_of(pid, name):
    """[soft, hard]"""
    line = next(line for line in read(f"/proc/{pid}/limits").splitlines() if line.startswith(name))
    return line[len(name) :].split()[:2]


def ignored(pid):
    line = next(line for line in read(f"/proc/{pid}/status").splitlines() if line.startswith("SigIgn"))
    return {number for number in range(1, 65) if int(line.split()[1], 16) >> (number - 1) & 1}


def test_coordinator_and_keepers_take_what_they_can_have_and_jobs_what_their_shell_has(home):
    home.close_gate()
    shown = "; ".join(f"ulimit -{letter}" for letter in SOFT)  # dash has no -u
    text = f"""[steps.train]
shell = 'bash -c "{shown}"; grep SigIgn /proc/self/status; echo start $PERGPU_JOB 1 $$ >>$STAMPS; flock -s $GATE true'
"""
    submit(home, home.file("train.toml", text))
    home.until_running()
    daemons = [home.coordinator(), *home.keepers()]
    assert len(daemons) == 2
    for pid in daemons:
        for letter in "ftvu":
            soft, hard = limit_of(pid, LIMITS[letter])
            assert soft == hard, (letter, soft, hard)
        assert ignored(pid) >= {signal.SIGXFSZ, signal.SIGXCPU, signal.SIGPIPE}
        for number in (signal.SIGXFSZ, signal.SIGXCPU, signal.SIGPIPE):
            os.kill(pid, number)
    home.open_gate()
    assert home.wait("train") == 0
    assert all(alive(pid) for pid in daemons)
    (log,) = [job["log"] for job in home.ps("train").values()]
    *limits, mask = read(log).splitlines()
    assert [int(value) for value in limits] == list(SOFT.values())
    its = {number for number in range(1, 65) if int(mask.split()[1], 16) >> (number - 1) & 1}
    assert its == {signal.SIGUSR2, signal.SIGXCPU}


def test_the_store_grows_beyond_the_file_size_of_the_shell_that_started_it(home):
    count = 700
    submit(home, home.file("train.toml", grid("train", count, 'command = ["true"]')), "--lanes", "4")
    assert home.wait("train") == 0
    assert set(home.states("train").values()) == {"done"}
    sizes = [os.path.getsize(f"{home.path}/{name}") for name in os.listdir(home.path) if name.startswith("pergpu.db")]
    assert max(sizes) > SOFT["f"] * 1024


def test_what_a_file_size_limit_cuts_off_is_reported(home):
    """A client that writes a file says so; the signal would end it without a word."""
    home.submit(grid("train", 300, 'command = ["true"]'), "--lanes", 4, name="train.toml")
    assert home.wait("train") == 0
    script = 'ulimit -S -f 8; exec "$0" export train -o table.csv'
    command = ["/bin/bash", "-c", script, home.program]
    done = subprocess.run(command, env=home.env, cwd=home.work, capture_output=True, text=True, check=False)
    assert done.returncode > 0, done
    assert "File too large" in done.stderr, done
