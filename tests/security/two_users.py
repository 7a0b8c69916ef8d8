"""A results folder that two users may write to: pergpu is one's, and the other is hostile."""
import contextlib
import os
import resource
import stat
import subprocess
import sys

from harness import DEADLINE, read, started, starting

OURS, THEIRS, GROUP = 61001, 61002, 61000
SECRET = "s3cret-of-a-private-file"
MOST_SHOWN = 64 << 20  # bytes: a command that shows more reads what never ends


class Lab:
    """`home` is asked by the first user, whose umask lets the group write."""

    def __init__(self, home):
        self.home = home
        home.become(OURS)
        home.user.update(extra_groups=[GROUP], umask=0o002)
        open(home.stamps.path, "a").close()
        for path in (home.path, home.work, home.stamps.path):
            os.chown(path, OURS, OURS)
        os.chmod(home.work, 0o711)  # code that the other user cannot list
        self.shared = home.root + "/shared"
        os.mkdir(self.shared)
        os.chown(self.shared, OURS, GROUP)
        os.chmod(self.shared, 0o2775)
        self.private = home.root + "/private"
        os.mkdir(self.private, 0o700)
        os.chown(self.private, OURS, OURS)

    def as_other(self, *command, **options):
        """A process of the other user."""
        with starting:
            process = subprocess.Popen(
                command,
                user=THEIRS,
                group=THEIRS,
                extra_groups=[GROUP],
                umask=0o002,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                **options,
            )
            started.add(process.pid)
        return process

    def other_runs(self, script, *args):
        """A Python program of the other user, to its end: what it printed."""
        process = self.as_other(sys.executable, "-I", "-c", script, *args)
        out, _ = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0
        return out

    def fill_private(self, folders, files):
        """Puts files with the secret into folders of the private one, under names that pergpu uses."""
        for folder in ("", *folders):
            path = os.path.join(self.private, folder)
            os.makedirs(path, exist_ok=True)
            for name in files:
                with open(f"{path}/{name}", "w") as f:
                    f.write(f'{{"step": 1, "reason": "ValueError: {SECRET}"}}\n')
        for folder, _, names in os.walk(self.private):
            os.chmod(folder, 0o700)
            os.chown(folder, OURS, OURS)
            for name in names:
                os.chmod(f"{folder}/{name}", 0o600)
                os.chown(f"{folder}/{name}", OURS, OURS)

    def state_of_private(self):
        """All that changes when anything there is changed, even for a moment: {path: …}."""
        found = {}
        for folder, _, names in os.walk(self.private):
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                st = os.lstat(path)
                found[path] = (st.st_ino, oct(st.st_mode), st.st_uid, st.st_nlink, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
        return found

    def files(self):
        """Regular files below the shared folder.  REQUIRES: nobody swaps names meanwhile."""
        for folder, _, names in os.walk(self.shared):
            for path in (f"{folder}/{name}" for name in names):
                with contextlib.suppress(FileNotFoundError):  # keepers remove their locks
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        yield path

    def leaks(self, *texts):
        return [path for path in self.files() if any(text in read(path, "") for text in texts or (SECRET,))]


def show(home, *args):
    """(exit code, what a command shows), of a command that may read what never ends."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_SHOWN, resource.RLIM_INFINITY))

    with open(home.root + "/shown", "w+", errors="replace") as out:
        process = home.start(*args, stdout=out, stderr=out, preexec_fn=limit)
        code = process.wait(timeout=DEADLINE)
        size = os.fstat(out.fileno()).st_size
        assert size < MOST_SHOWN, f"{args} shows {size} bytes"
        out.seek(0)
        return code, out.read()
