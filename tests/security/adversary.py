"""The other user of tests/security/test_race.py: swaps names in a results folder as fast as it can.

    adversary.py RESULTS PRIVATE FILE HOSTILE OWN

A folder's name gets a link to PRIVATE, or a folder of this user; a file's name a link to FILE or
/dev/zero, a FIFO, or what HOSTILE says.  OWN is a folder of things of the first user's that can be
moved: private files get names of locks and of files of runs; links to FILE, names of files; links to
PRIVATE, names of folders.  A private folder, RESULTS/.folder, gets the name of the folder for locks of
GPUs, RESULTS/locks.  Mostly the names are swapped back at once, so that commands go on and meet the
next swap.  Ends when its standard input does, and prints how often it swapped.
"""
import contextlib
import ctypes
import os
import random
import re
import shutil
import stat
import sys
import threading

results, private, secret, hostile, own = sys.argv[1:]
traps = results + "/.traps"
libc = ctypes.CDLL(None)
NOREPLACE, EXCHANGE = 1, 2
LOCK, LOCK_FOLDER, OWN_FOLDER = ".pergpu-lock", "locks", "../.folder"
FILES = ("config.json", "log.txt", "attempt.json", "metrics.jsonl")
swaps = 0
over = threading.Event()


def make_link_to_private(path):
    os.symlink(private, path)


def make_link_to_secret(path):
    os.symlink(secret, path)


def make_endless(path):
    os.symlink("/dev/zero", path)


def make_own_file(path):
    with open(path, "w") as f:
        f.write(hostile)
    os.chmod(path, 0o777)


def mover(kind):
    """Of one of the first user's things, as long as there is one."""

    def move_own(path):
        for name in [name for name in names(own) if name.startswith(kind)][:1]:
            os.rename(f"{own}/{name}", path)

    return move_own


def is_of_first_user(path):
    if not os.path.lexists(path):
        return False
    st = os.lstat(path)
    return st.st_uid != os.getuid() and (stat.S_ISLNK(st.st_mode) or st.st_mode & 0o077 == 0)


MOVERS = {kind: mover(kind) for kind in ("file", "link-to-folder", "link-to-file")}
FOLDER_TRAPS = {"private": make_link_to_private, "own": os.mkdir, "link-to-folder": MOVERS["link-to-folder"]}
FILE_TRAPS = {"secret": make_link_to_secret, "zero": make_endless, "fifo": os.mkfifo, "file": MOVERS["file"],
              "link-to-file": MOVERS["link-to-file"]}  # fmt: skip
LOCK_TRAPS = {**FILE_TRAPS, "hostile": make_own_file}
LOCK_FOLDER_TRAPS = {**FOLDER_TRAPS, OWN_FOLDER: None}
CODE_TRAPS = {"hostile": make_own_file, "secret": make_link_to_secret}
MAKERS = {**FOLDER_TRAPS, **LOCK_TRAPS, **CODE_TRAPS}


def lay(kind):
    """Puts a new trap there, for one that pergpu has replaced, or that stays where it was put."""
    path = f"{traps}/{kind}"
    if kind == OWN_FOLDER or kind in MOVERS and is_of_first_user(path):
        return  # there are few of them
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(path):  # somebody's who lets nobody remove it
            os.rename(path, f"{path}.{random.random()}")
    elif os.path.lexists(path):
        os.unlink(path)
    MAKERS[kind](path)


def exchange(path, trap):
    global swaps
    done = libc.renameat2(-100, path, -100, trap, EXCHANGE) == 0
    swaps += done
    return done


def move(path, to):
    global swaps
    done = libc.renameat2(-100, path, -100, to, NOREPLACE) == 0
    swaps += done
    return done


def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def inside(run, step):
    """[(path, kinds)] of a run's folder."""
    folder = f"{run}/{step}"
    return [(run, FOLDER_TRAPS), (folder, FOLDER_TRAPS), *((f"{folder}/{name}", FILE_TRAPS) for name in FILES),
            *locks(run, step)]  # fmt: skip


def locks(run, step):
    return [(f"{run}/{LOCK}.{step}", LOCK_TRAPS), (f"{run}/{step}/{LOCK}", LOCK_TRAPS)]


def targets():
    """[(path, kinds)]: what is there, some runs of it, and the runs that come next."""
    found = []
    if LOCK_FOLDER in names(results):
        folder = f"{results}/{LOCK_FOLDER}"
        found += [(folder, LOCK_FOLDER_TRAPS)] * 10 + [(f"{folder}/{name}", LOCK_TRAPS) for name in names(folder)]
    for sweep in (f"{results}/{name}" for name in names(results) if name[0] != "." and name != LOCK_FOLDER):
        found.append((sweep, FOLDER_TRAPS))
        there = names(sweep)
        runs = sorted(name for name in there if re.match(r"\d+-i=\d+$", name))
        for name in random.sample(runs, min(3, len(runs))) + runs[-1:]:
            found += inside(f"{sweep}/{name}", "a")
        last = runs[-1] if runs else None
        for ahead in (1, 2, 3) if last else ():
            width, number = last.index("-"), int(last.split("-")[0]) + ahead
            run = f"{sweep}/{number:0{width}}-i={number}"
            found += inside(run, "a")[:2] * 3
            if random.random() < 0.1:
                with contextlib.suppress(OSError):
                    os.mkdir(run)
            found += locks(run, "a")
        for name in there:
            if name.startswith((".cleaned", "_snapshot")):
                found.append((f"{sweep}/{name}", FOLDER_TRAPS))
                found += [(f"{sweep}/{name}/{below}", FOLDER_TRAPS) for below in names(f"{sweep}/{name}")]
        for copy in names(sweep + "/_snapshot"):
            found += [(f"{sweep}/_snapshot/{copy}/{code}", CODE_TRAPS) for code in names(f"{sweep}/_snapshot/{copy}")]
    return found


def turn():
    chosen = [(os.fsencode(path), os.fsencode(f"{traps}/{kind}"), kind)
              for path, kinds in targets() for kind in [random.choice(list(kinds))]]  # fmt: skip
    for kind in MAKERS:
        lay(kind)
    if not chosen:
        over.wait(0.001)
    for _ in range(30):
        random.shuffle(chosen)
        planted = []
        for path, trap, kind in chosen:
            if exchange(path, trap):
                if random.random() < 0.0002:
                    lay(kind)  # the trap stays
                else:
                    exchange(path, trap)
            elif b"/.pergpu-lock" in path and move(trap, path):  # it isn't made yet
                planted.append((path, trap))
        for path, trap in planted:
            move(path, trap)


os.mkdir(traps)
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("there", flush=True)
while not over.is_set():
    try:
        turn()
    except OSError as error:  # names change under us, too
        print(error, file=sys.stderr)
print(swaps)
