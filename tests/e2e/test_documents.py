"""What the documents refer to exists."""
import glob
import os
import re

from harness import read
from pages import ROOT, page, pages


def test_every_promise_names_tests_that_exist():
    (table,) = re.findall("## Promises\n(.*?)\n## ", page("docs/architecture.md"), re.S)
    sources = "".join(map(read, glob.glob(ROOT + "/tests/*/*_test.cc")))
    promises = re.findall(r"^\| (\d)\. .*$", table, re.M)
    assert promises == list("123456789")
    for suite, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", table):
        assert re.search(rf"TEST(_F|_P)?\({suite},\s+{name}\)|RC_GTEST_PROP\({suite}, {name}", sources), name
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", table)
    for file, function in named:
        assert f"def {function}(" in page("tests/e2e/" + file), function
    assert len(named) > 10


def test_links_between_the_documents_lead_somewhere():
    for path in pages():
        prose = re.sub(r"(?ms)^```.*?^```$", "", page(path))
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose):
            assert os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)), f"{path}: {target}"
