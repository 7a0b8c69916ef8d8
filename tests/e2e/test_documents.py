"""What the documents refer to exists."""
import glob
import os
import re

from harness import read
from pages import ROOT, page, pages


def check_tests_of(table):
    """Those that it names exist; how many these are."""
    sources = "".join(map(read, glob.glob(ROOT + "/tests/*/*_test.cc")))
    for suite, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", table):
        assert re.search(rf"TEST(_F|_P)?\({suite},\s+{name}\)|RC_GTEST_PROP\({suite}, {name}", sources), name
    named = re.findall(r"`(tests/\w+/)?(test_\w+\.py)(?:::(\w+))?`", table)
    for folder, file, function in named:
        places = [folder] if folder else ["tests/e2e/", "tests/security/"]
        text = "".join(read(f"{ROOT}/{place}{file}", "") for place in places)
        assert text, f"there is no {file}"
        assert not function or f"def {function}(" in text, function
    return len(named)


def test_every_promise_names_tests_that_exist():
    (table,) = re.findall("## Promises\n(.*?)\n## ", page("docs/architecture.md"), re.S)
    promises = re.findall(r"^\| (\d)\. .*$", table, re.M)
    assert promises == list("123456789")
    assert check_tests_of(table) > 10


def test_every_threat_names_tests_that_exist():
    (table,) = re.findall("## Threat model\n(.*?)\n## ", page("docs/security.md"), re.S)
    for row in re.findall(r"^\|.*\|$", table, re.M)[2:]:
        assert re.search(r"`(tests/\w+/)?test_\w+\.py|`[A-Z]\w+\.\w+`", row.split("|")[-2]), row
    assert check_tests_of(table) > 10


def test_links_between_the_documents_lead_somewhere():
    for path in pages():
        prose = re.sub(r"(?ms)^```.*?^```$", "", page(path))
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose):
            assert os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)), f"{path}: {target}"
