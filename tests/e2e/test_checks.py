"""tools/check-docs finds pages that are too long and links that lead nowhere."""
import os
import subprocess

from pages import ROOT


def check(root, name, text, *options):
    """What tools/check-docs prints of a tree with one page."""
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    done = subprocess.run([ROOT + "/tools/check-docs", root, *options], stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def test_a_short_page_with_good_links_passes(tmp_path):
    text = "# A page\n\nSee [below](#two-words) and [this](a.md#two-words).\n\n## Two words\n\n```\n# [no](link.md)\n```\n"
    code, printed = check(str(tmp_path), "docs/a.md", text, "--list")
    assert code == 0, printed
    assert "docs/a.md" in printed and "0 findings" in printed


def test_dead_links_and_anchors_are_found(tmp_path):
    code, printed = check(str(tmp_path), "docs/a.md", "# A\n\n[x](b.md)\n[y](#c)\n[z](a.md#a)\n[code](`b.md`)\n")
    assert code == 1
    assert "docs/a.md:3: no such file: b.md" in printed
    assert "docs/a.md:4: no such heading: #c" in printed
    assert "a.md#a" not in printed


def test_long_sentences_are_found_outside_tables_and_code(tmp_path):
    long, table = "word " * 21 + "ends.", "| " + "word " * 50 + "|"
    code, printed = check(str(tmp_path), "docs/a.md", f"{table}\n\n    {long}\n\nA short one.\n")
    assert code == 0, printed
    code, printed = check(str(tmp_path), "docs/a.md", long + "\n", "--long", "20")
    assert code == 1
    assert "22.0 words a sentence" in printed and "docs/a.md:1: 22 words" in printed


def test_readme_and_decisions_have_limits(tmp_path):
    code, printed = check(str(tmp_path), "README.md", "Line.\n" * 81)
    assert code == 1 and "README.md: 81 lines" in printed
    code, printed = check(str(tmp_path), "docs/decisions.md", "Word. " * 6001)
    assert code == 1 and "docs/decisions.md: 6001 words" in printed
