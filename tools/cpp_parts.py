"""Classes, enumerations and functions of a C++ file, read without a compiler.

For code as clang-format lays it out: a declaration ends at `;` or with the body it opens.  Macros aren't
expanded; classes and lambdas inside functions belong to the function.
"""
import re
from dataclasses import dataclass, field

import source_text

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|<=>|[<>=!+-]=|&&|\|\||\S")
CLOSING = {"(": ")", "[": "]", "{": "}"}
NOT_A_CALL = {"alignas", "decltype", "noexcept", "requires", "explicit", "__attribute__"}


@dataclass
class Class:
    name: str  # with the classes around it: "Coordinator::Parts"
    line: int
    bases: list
    methods: list = field(default_factory=list)  # names, with constructors; without = default, = delete
    public: list = field(default_factory=list)  # of these
    fields: int = 0  # without static ones
    words: set = field(default_factory=set)  # identifiers between its braces


@dataclass
class Function:
    name: str  # with the classes around it
    line: int
    lines: int


@dataclass
class Head:
    """What was read of one declaration."""
    words: list = field(default_factory=list)  # those outside <…>, (…), […] and {…}
    line: int = 0
    angle: int = 0
    name: str = ""  # of the function
    starred: bool = False  # void (*name)(…)
    equals: bool = False
    initializes: bool = False  # behind the colon of a constructor
    commas: int = 0
    last: str = ""


def tokens(text):
    """[(token, line)], strings as `""`, without comments and preprocessor lines."""
    plain = source_text.CPP.sub(
        lambda match: source_text.blank(match[0]) if match["comment"] else '""' + source_text.blank(match[0])[2:], text)
    plain = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: source_text.blank(match[0]), plain)
    return [(match[0], number) for number, line in enumerate(plain.split("\n"), 1) for match in TOKEN.finditer(line)]


class Reader:
    def __init__(self, text):
        self.tokens = tokens(text)
        self.at = 0
        self.classes = []
        self.functions = []
        self.scope(None, "public")

    def skip(self):
        """From an opening bracket to the one that closes it; the tokens between them."""
        begin, open_ones = self.at, []
        while self.at < len(self.tokens):
            token = self.tokens[self.at][0]
            self.at += 1
            if token in CLOSING:
                open_ones.append(CLOSING[token])
            elif open_ones and token == open_ones[-1]:
                open_ones.pop()
                if not open_ones:
                    break
        return [token for token, _ in self.tokens[begin + 1:self.at - 1]]

    def scope(self, owner, access):
        head = Head()
        while self.at < len(self.tokens):
            token, line = self.tokens[self.at]
            head.line = head.line or line
            if token == "}":
                self.at += 1
                return
            if token == ";":
                self.at += 1
                self.declared(owner, access, head)
                head = Head()
            elif token == ":" and owner and head.words in (["public"], ["private"], ["protected"]):
                self.at += 1
                access, head = head.words[0], Head()
            elif token == "{":
                if self.brace(owner, access, head):
                    head = Head()
            elif token in ("(", "["):
                self.group(head, token)
            else:
                self.at += 1
                self.word(head, token)
            head.last = token

    @staticmethod
    def word(head, token):
        of_operator = head.words[-1:] == ["operator"]
        if token == "<" and re.match(r"\w", head.last) and not of_operator:
            head.angle += 1
        elif token == ">" and head.angle:
            head.angle -= 1
        elif head.angle:
            pass
        elif token == "=" and not of_operator:
            head.equals = True
            head.words.append(token)
        elif token == ":" and head.name:
            head.initializes = True
        else:
            head.commas += token == ","
            head.words.append(token)

    def group(self, head, token):
        inside = self.skip()
        if token == "[" or head.angle or head.equals or head.name:
            return
        if head.words[-1:] == ["operator"]:  # operator()(…)
            head.words.append("()")
        elif head.last in NOT_A_CALL:
            pass
        elif inside[:1] == ["*"]:
            head.starred = True
        elif not head.starred:
            head.name = named(head.words)

    def brace(self, owner, access, head):
        """True: the declaration has ended."""
        words = head.words
        if "namespace" in words[:2] or words == ["extern", '"', '"']:
            self.at += 1
            self.scope(None, "public")
            return True
        if head.name and not head.equals:
            if head.initializes and (re.match(r"\w", head.last) or head.last == ">"):
                self.skip()
                return False
            begin = self.at
            self.skip()
            prefix = owner.name + "::" if owner else ""
            self.functions.append(Function(prefix + head.name, head.line, self.tokens[self.at - 1][1] - head.line + 1))
            self.method(owner, access, head)
            return self.at > begin
        kind = next((word for word in words if word in ("class", "struct", "union", "enum")), None)
        if head.equals or not kind:
            self.skip()
            return False
        self.class_body(owner, head, kind)
        head.words = ["struct", "}"]
        return False

    def class_body(self, owner, head, kind):
        words = [word for word in head.words[head.words.index(kind) + 1:] if word not in ("class", "struct")]
        colon = words.index(":") if ":" in words else len(words)
        names = [word for word in words[:colon] if re.match(r"\w", word) and word != "final"]
        bases = [word for word in words[colon:] if re.match(r"[A-Z]", word)]
        name = "::".join(names)
        if owner:
            name = f"{owner.name}::{name}"
        made = Class(name, head.line, bases)
        self.classes.append(made)
        begin = self.at + 1
        if kind == "enum":
            self.skip()
        else:
            self.at += 1
            self.scope(made, "private" if kind == "class" else "public")
        made.words = {token for token, _ in self.tokens[begin:self.at] if re.match(r"[A-Za-z_]", token)}

    @staticmethod
    def method(owner, access, head):
        if owner and "friend" not in head.words:
            owner.methods.append(head.name)
            if access == "public":
                owner.public.append(head.name)

    def declared(self, owner, access, head):
        words = head.words
        if not owner or not words or words[0] in ("using", "typedef", "friend", "static_assert", "template", "enum"):
            if not (words[:1] == ["template"] and head.name):
                return
        if head.name:
            if words[-2:] not in (["=", "default"], ["=", "delete"]):
                self.method(owner, access, head)
        elif "static" not in words and not (words[0] in ("class", "struct", "union") and len(words) == 2):
            owner.fields += 1 + head.commas


def named(words):
    """The name before a parameter list: Class::name, ~Class, operator==."""
    if "operator" in words:
        begin = words.index("operator")
        return "".join(words[begin:])
    begin = len(words) - 1
    while begin > 1 and words[begin - 1] in ("::", "~"):
        begin -= 1 if words[begin - 1] == "~" else 2
    return "".join(words[max(begin, 0):])


def read(text):
    """(classes, functions with a body)"""
    reader = Reader(text)
    return reader.classes, reader.functions
