"""`pergpu.watch()`: how calls go, as lines and as the table of a notebook; the notebook of examples/."""
import json
import os
import re

import pytest

from harness import read
from test_executor import python
from test_joblib import python as python_with

NOTEBOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/notebook/calls.ipynb")
EXECUTE = """
import sys
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
seen = []
class Client(nbclient.NotebookClient):  # what a browser would show, one after the other
    def process_message(self, message, cell, index):
        if message["msg_type"] in ("display_data", "update_display_data"):
            seen.append(message["content"]["data"].get("text/html", ""))
        return super().process_message(message, cell, index)
Client(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": "."}}).execute()
notebook.metadata["seen"] = seen
nbformat.write(notebook, "executed.ipynb")
"""


def test_lines_tell_of_calls_that_start_and_end(home):
    out = python(home, """
import pathlib
def good(x, wait=None):
    pergpu.report(loss=x / 3)
    while wait and not pathlib.Path(wait).exists():
        time.sleep(0.01)
def bad():
    raise ValueError("<no>\\nmore")
with pool(1) as calls:
    held = calls.submit(good, 1, "go")
    while not held.running():
        time.sleep(0.01)
    pergpu.watch([held], timeout=0)
    print("looked")
    futures = [held, calls.submit(good, x=2), calls.submit(bad), calls.submit(os._exit, 3), calls.submit(good, 4)]
    print(futures[-1].cancel())
    open("go", "w").close()
    pergpu.watch(futures, every=0.05)
with pool(1, reuse=True) as calls:
    pergpu.watch([calls.submit(good, 5)], every=0.05)
pergpu.watch([])
pergpu.watch([pergpu.Executor(gpus=0).submit(print, calls)])
""")  # fmt: skip
    lines = [re.sub(r"^\d\d:\d\d:\d\d |\d+\.\d s", "", line) for line in out.splitlines()]
    assert lines[:3] == ["good(x=1, wait='go'): running on lane0", "looked", "True"], out
    ends = [line for line in lines[3:] if ": running" not in line]
    assert sorted(ends[:-2]) == [
        "_exit(status=3): failed in , failed: exit code 3",
        "bad(): failed in , ValueError: <no>",
        "good(x=1, wait='go'): done in , loss=0.3333",
        "good(x=2): done in , loss=0.6667",
        "good(x=4): cancelled",
    ], out
    assert lines[-2] == "good(x=5): done" and lines[-1].startswith("print(Executor): failed, "), out


def test_the_notebook_shows_a_table_that_is_replaced(home):
    for name in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(name)
    python_with(home, home.file("execute.py", EXECUTE), NOTEBOOK)
    notebook = json.loads(read(home.work + "/executed.ipynb"))
    cells = {cell["id"]: cell.get("outputs") for cell in notebook["cells"]}
    (table,) = cells["cell-5"]
    page = "".join(table["data"]["text/html"])
    assert page.startswith("<div>4 calls: 4 done</div><table>") and page.count("<tr>") == 5, page
    assert "<td style=\"text-align:left\">train(lr=0.2)</td>" in page and "step=19" in page, page
    seen = notebook["metadata"]["seen"]
    assert len(seen) > 1 and "queued" in seen[0] + seen[1] and seen[-1] == page
    printed = ["".join(one.get("text", "")) for outputs in cells.values() for one in outputs or ()]
    assert printed[1:] == ["best: lr=0.4\n", "failed killed by signal 9 (SIGKILL)\n", "5 calls, 4 with a result\n"], printed


def test_a_long_table_shows_what_is_not_done(home):
    out = python(home, """
import collections, pergpu._watch as w
Row = collections.namedtuple("Row", "what state lane duration words")
rows = [Row(f"f({i})", "failed" if i % 30 == 7 else "done", "", 1.25, "<b>") for i in range(200)]
few = w._most_telling(rows)
page = w._page(few, [{"a": 1, "b": 0.12345678}] * len(few), collections.Counter(row.state for row in rows))
print(page.partition("<table>")[0], page.count("<tr>"), page.count(">failed<"), "f(199)" in page, "f(7)" in page)
print("<b>" in page, "a=1 b=0.1235" in page)
""")  # fmt: skip
    assert out == "<div>200 calls: 193 done, 7 failed, 50 shown</div> 51 7 False True\nFalse True\n", out
