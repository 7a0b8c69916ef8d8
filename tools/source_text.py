"""Source files taken apart into code and comments, for the checks of tools/."""
import io
import re
import subprocess
import tokenize

CPP = re.compile(r'R"(?P<mark>[^(\s"]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\''
                 r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.S)
SHELL = re.compile(r"(?m)(?:^|(?<=[ \t;]))#[^\n]*")


def blank(text):
    """As many lines and columns, without words."""
    return re.sub(r"[^\n]", " ", text)


def split_cpp(text):
    """(code, comments): the text with the other part blanked.  Strings are code."""
    code = CPP.sub(lambda match: blank(match[0]) if match["comment"] else match[0], text)
    return code, others(text, code)


def others(text, code):
    """What of `text` is blank in `code`."""
    return "".join(a if b == " " or a == "\n" else " " for a, b in zip(text, code))


def split_python(text):
    """Docstrings, strings that stand alone, are comments."""
    lines = text.split("\n")
    spans, before = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        alone = token.type == tokenize.STRING and before in (None, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if alone or token.type == tokenize.COMMENT:
            spans.append((token.start, token.end))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    for (first, begin), (last, end) in spans:
        for number in range(first, last + 1):
            line = lines[number - 1]
            left = begin if number == first else 0
            right = end if number == last else len(line)
            lines[number - 1] = line[:left] + " " * (right - left) + line[right:]
    code = "\n".join(lines)
    return code, others(text, code)


def split_shell(text):
    """Also CMake, TOML and YAML: a # behind white space begins a comment."""
    code = SHELL.sub(lambda match: blank(match[0]), text)
    return code, others(text, code)


def split(path, text):
    if path.suffix in (".cc", ".h", ".c", ".ts", ".tsx", ".mjs", ".css"):
        return split_cpp(text)
    if path.suffix in (".py", ".pyi") or text.startswith("#!/usr/bin/env python3"):
        return split_python(text)
    return split_shell(text)


def tracked(root):
    """Files below `root` that git has or would take; where git isn't used, all."""
    if not (root / ".git").exists():
        return sorted(path for path in root.rglob("*") if path.is_file())
    done = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root,
                          stdout=subprocess.PIPE, check=True)
    return sorted(path for name in done.stdout.decode().split("\0") if name and (path := root / name).is_file())
