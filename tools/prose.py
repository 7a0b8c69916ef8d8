"""What tools/check-docs and tools/check-words read of a page."""
import re

FENCE = re.compile(r" {0,3}(```+|~~~+)")


def blanked(text, pattern, flags=re.S):
    """`text` with every match replaced by its line breaks, so that line numbers stay."""
    return re.sub(pattern, lambda match: "\n" * match[0].count("\n"), text, flags=flags)


def without_code(text):
    """`text` without code blocks and comments, with as many lines."""
    text = blanked(text, r"<!--.*?-->")
    lines, fence, indented, before = [], None, False, ""
    in_list = False
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence:
            if mark and line.strip() == fence:
                fence = None
            line = ""
        elif mark:
            fence = mark[1]
            line = ""
        else:
            if re.match(r" {0,3}([-*+]|\d+\.) ", line):
                in_list = True
            elif line.strip() and not line.startswith(" "):
                in_list = False
            code = line.startswith("    ") and not in_list
            indented = code and (indented or not before.strip())
            before = line
            if indented:
                line = ""
        lines.append(line)
    return "\n".join(lines)


def headings(text):
    """The headings of a page as they are written, without their marks."""
    return re.findall(r"(?m)^#{1,6} +(.*?)(?: +#+)?$", without_code(text))


def spans_removed(line, word=""):
    """A line with `word` for each code span, and links as their text."""
    line = re.sub(r"(`+)(.+?)\1", word, line)
    line = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", line)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)


def sentences(text):
    """[(line, words, sentence)]: those of paragraphs and list items; no headings, tables or code."""
    found, paragraph, begun = [], [], 0

    def close():
        whole = " ".join(" ".join(paragraph).split())
        paragraph.clear()
        # An abbreviation ends no sentence; neither does a point inside a number or a name.
        whole = re.sub(r"\b(e\.g|i\.e|etc|vs|approx|no)\. ", r"\1 ", whole)
        for sentence in re.split(r"(?<=[.!?])[\"')*_\]]* +", whole):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if words:
                found.append((begun, len(words), sentence))

    text = re.sub(r"(`+)([^`]+?)\1", lambda match: "Code" + "\n" * match[0].count("\n"), without_code(text))
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or re.match(r"\s*(\||#{1,6} |---+$)", line):
            close()
            continue
        item = re.match(r"\s*(?:[-*+]|\d+\.) +", line)
        if item:
            close()
            line = line[item.end():]
        if not paragraph:
            begun = number
        paragraph.append(spans_removed(line))
    close()
    return found
