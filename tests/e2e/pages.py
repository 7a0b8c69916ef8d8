"""Pages for users as tests: their files are written, their commands typed, their output compared.

In a page

- a fenced block whose first line is a comment with nothing but a file's name is that file;
- a `console` block is a session: what follows "$ " is typed into the page's one shell, and the lines
  below it have to be what is shown.  A line "..." stands for any lines.  What differs from one time
  to the next (times, lanes, pids, folders, the width of columns) may differ;
- `<!-- $ command -->` is typed, too, and not shown: what readers do by waiting, for instance;
- `<!-- eight GPUs -->`: from here on the machine has eight GPUs (tests/fake_nvml), else none;
- all other blocks are only read.

Lines that pergpu prints only where there is no terminal are left out: pages show what people see.
"""
import os
import re
import shlex
import subprocess
from typing import NamedTuple

from harness import PERGPU, read

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
HERE = "/data/alice/pergpu"  # what pages call the folder in which their commands are typed
STATE = "/data/alice/.local/state/pergpu/5b2f"  # and PERGPU_HOME
FILE = re.compile(r"(?:#|//) ([\w./-]+\.\w+)\n")
WITHOUT_TERMINAL = re.compile(r"\d\d:\d\d:\d\d (\d+ \S+/|\S+: )")
VARIES = [
    (re.compile(r"\(commit [\w-]+, [\w.-]+\)"), "(commit <commit>, <target>)"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?"), "<instant>"),
    (re.compile(r"\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b|\b(\d+d)?(\d+h)?\d+m\b"), "<time>"),
    (re.compile(r"\b(lane|gpu)\d+"), "<lane>"),
    (re.compile(r"\bprocess \d+"), "process <pid>"),
    (re.compile(r"\bschema version \d+"), "schema version <n>"),
    (re.compile(r"\b\d+ bytes"), "<n> bytes"),
    (re.compile(r"[ \t]+"), " "),
]


class Block(NamedTuple):
    line: int
    language: str
    text: str
    gpus: bool


def page(name):
    return read(os.path.join(ROOT, name))


def pages():
    """All that is written for users, README and man page included."""
    found = ["README.md", "man/pergpu.1"]
    for folder, _, names in os.walk(ROOT + "/docs"):
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(name for name in found if name.endswith((".md", ".1")))


def blocks(text):
    """The fenced blocks of a page, in order."""
    found, language, gpus, begun, lines = [], None, False, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        hidden = re.fullmatch(r"<!-- (\$ .*) -->", line)
        if language is None and hidden:
            found.append(Block(number, "hidden", hidden[1] + "\n", gpus))
        elif language is None and line.startswith("```"):
            language, begun, lines = line[3:].strip(), number, []
        elif line == "```":
            found.append(Block(begun, language, "".join(lines), gpus))
            language = None
        elif language is not None:
            lines.append(line + "\n")
        gpus = gpus or line == "<!-- eight GPUs -->"
    assert language is None, f"the block of line {begun} does not end"
    return found


def files(text):
    """{name: text} of the files in a page; of one that is shown twice, the last."""
    named = [(FILE.match(block.text), block.text) for block in blocks(text)]
    return {match[1]: body for match, body in named if match}


def session(block):
    """[(command, [lines shown])] of a console block."""
    typed = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            typed.append((line[2:], []))
        elif typed and typed[-1][0].endswith("\\"):
            typed[-1] = (typed[-1][0] + "\n" + line, [])
        else:
            typed[-1][1].append(line)
    return typed


def normal(line, folder=HERE, state=STATE):
    line = line.replace(folder, HERE).replace(state, STATE)
    for pattern, word in VARIES:
        line = pattern.sub(word, line)
    return line.strip()


def same(shown, printed):
    """Whether the lines of a page say what was printed."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(same(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and same(shown[1:], printed[1:])


class Typist:
    """A shell in a folder of its own, into which a page's commands are typed."""

    def __init__(self, home, modules=""):
        """`modules`: a folder with Python modules, and in its bin/ programs, that pages use."""
        self.folder, self.state, programs = home.root + "/page", home.path, home.root + "/bin"
        os.mkdir(self.folder)
        os.mkdir(programs)
        os.symlink(PERGPU, programs + "/pergpu")
        env = {"PATH": f"{programs}:{modules}/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        if modules:
            env["PYTHONPATH"] = modules
        home.program = "/bin/bash"
        self.shell = home.start(
            "--norc", cwd=self.folder, env=env, stdin=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        home.program = PERGPU

    def type(self, command):
        """(lines that it printed, exit code)"""
        self.shell.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\036%s\\n' $?\n")
        self.shell.stdin.flush()
        text = ""
        for line in self.shell.stdout:
            before, mark, code = line.partition("\036")
            text += before
            if mark:
                lines = [line for line in text.splitlines() if not WITHOUT_TERMINAL.match(line)]
                return [normal(line, self.folder, self.state) for line in lines], int(code)
        raise AssertionError(f"the shell ended at: {command}")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)

    def follow(self, text, gpus=None):
        """Does what the page says.  `gpus`: the environment in which there are eight GPUs."""
        with_gpus, typed = False, 0
        for block in blocks(text):
            name = FILE.match(block.text)
            if name:
                self.write(name[1], block.text)
            if block.language not in ("console", "hidden"):
                continue
            if block.gpus and not with_gpus:
                with_gpus = True
                self.type("pergpu coordinator stop; export " + shlex.join(f"{k}={v}" for k, v in gpus.items()))
            for command, shown in session(block):
                printed, code = self.type(command)
                typed += 1
                shown = [normal(line) for line in shown]
                what = f"line {block.line}: $ {command}\n(exit {code}) " + "\n".join(printed)
                assert code in (0, 1), what
                assert block.language == "hidden" or same(shown, printed), what + "\n--- but the page shows\n" + "\n".join(shown)
        assert typed, "no command was typed"


def commands(text):
    """Every pergpu command that a page names, as words: in code spans, indented lines and blocks."""
    lines = re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```$", "", text))
    lines += re.findall(r"(?m)^    (.+)$", text)
    for block in blocks(text):
        if block.language in ("console", "sh", "bash", ""):
            lines += block.text.splitlines()
    found = []
    for line in lines:
        line = re.sub(r"\s#\s.*$", "", line.removeprefix("$ ").replace("\\-", "-"))
        for part in re.split(r"&&|\|\||;|\|", line):
            try:
                words = shlex.split(part)
            except ValueError:
                words = part.split()
            if words[:1] == ["pergpu"] and len(words) > 1:
                found.append(words[1:])
    return found
