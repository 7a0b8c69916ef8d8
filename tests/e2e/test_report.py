"""The HTML page of a sweep with failures and retries, read as a browser and pandas read it."""
import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser

from harness import FAKE_NVML, grid, read, wait_until
from test_export import ended

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Tables as {id: (head, rows)}, scripts and styles as texts; every element must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.text, self.open, self.tables, self.raw = text, [], {}, []
        self.policy = self.data = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag in VOID:
            return
        self.open.append((tag, attributes))
        if tag == "table":
            self.table = self.tables.setdefault(attributes["id"], ([], []))
        elif tag == "tr" and self.inside("tbody"):
            self.table[1].append([])
        elif tag in ("td", "th"):
            (self.table[1][-1] if self.inside("tbody") else self.table[0]).append("")

    def handle_startendtag(self, tag, attributes):
        pass  # of SVG

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag in ("style", "script") and attributes.get("type") != "application/json":
            self.raw.append((tag, data))
        elif tag == "script":
            self.data = json.loads(data)
        elif self.inside("td") or self.inside("th"):
            cells = self.table[1][-1] if self.inside("tbody") else self.table[0]
            cells[-1] += data

    def inside(self, tag):
        return any(open_tag == tag for open_tag, _ in self.open)

    def rows(self, name):
        head, rows = self.tables[name]
        assert all(len(row) == len(head) for row in rows), name
        return [dict(zip(head, row)) for row in rows]


def page(home, *arguments):
    home.run("report", *arguments, "-o", "page.html")
    return Page(read(home.work + "/page.html"))


def test_a_sweep_with_failures_and_retries_as_one_page(home):
    jobs = ended(home)
    html = page(home, "s")
    runs = html.rows("runs-table")
    assert len(runs) == 4
    for run in runs:
        assert run["train"] == "done" and float(run["train seconds"]) >= 0
        assert run["evaluate"] == ("failed" if run["lr"] == "0.01" else "done")
        assert run["loss"] == run["lr"] + "23456789"
        assert run["opt"] in ('a,"b"', "<script>alert(1)</script>")
    assert sorted(int(job["job"]) for job in html.rows("jobs-table")) == sorted(jobs)
    attempts = html.rows("attempts-table")
    assert len(attempts) == 10
    assert [a["outcome"] for a in attempts].count("exit") == 4
    failures = html.rows("failures-table")
    assert [(f["step"], f["state"], f["cause"], f["exit"]) for f in failures] == [
        ("evaluate", "failed", "exit", "3"), ("evaluate", "failed", "exit", "3")]  # fmt: skip
    assert html.text.count("<pre>no such &lt;model&gt;\n</pre>") == 2
    assert html.text.count('<rect class="bar') >= 10  # of the chart and its legend
    lanes = html.rows("lanes-table")
    assert sum(int(lane["attempts"]) for lane in lanes) == 10
    assert all(0 <= float(lane["busy percent"]) <= 100 for lane in lanes)
    assert "<figcaption>loss by lr</figcaption>" in html.text
    facts = {row["what"]: row["value"] for row in html.rows("efficiency-table")}
    assert float(facts["makespan, seconds"]) >= float(facts["lower bound, seconds"]) > 0
    assert {row["what"] for row in html.rows("machine-table")} >= {"host", "pergpu", "cores for jobs"}


def test_the_page_carries_its_data(home):
    jobs = ended(home)
    data = page(home).data
    assert data["schema"] == 1 and data["sweep"]["name"] == "s"
    assert sorted(job["id"] for job in data["jobs"]) == sorted(jobs)
    assert sum(len(job["attempts"]) for job in data["jobs"]) == 10
    assert data["efficiency"]["makespan_s"] >= data["efficiency"]["lower_bound_s"] > 0
    assert {tuple(tail["last_lines"]) for tail in data["failures"]} == {("no such <model>",)}


def test_only_the_style_and_the_script_of_the_page_count(home):
    """A browser compares these hashes, too: who changes src/view/report/report_style.cc sees the new ones here."""
    home.submit(grid("a", 1, 'command = ["true"]'))
    home.wait()
    html = page(home)
    assert [tag for tag, _ in html.raw] == ["style", "script"]
    for tag, text in html.raw:
        hashed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{hashed}'" in html.policy
    assert html.policy.startswith("default-src 'none';")
    assert not re.search(r"\b(src|href)=\"(?!#)", html.text)


def test_what_looks_like_a_secret_is_hidden(home):
    home.submit('[grid]\nmy_token = ["hush-1", "hush-2"]\n[steps.a]\n'
                "shell = 'echo --api-key=hush-3; exit 3'\n")  # fmt: skip
    home.wait()
    html = page(home)
    assert {run["my_token"] for run in html.rows("runs-table")} == {"***"}
    assert not any(hush in html.text for hush in ("hush-1", "hush-2", "hush-3"))
    assert sorted(os.listdir(home.work + "/runs/sweep")) == ["00", "01"]
    assert all(job["params"] == {"my_token": "***"} for job in html.data["jobs"])


def test_what_the_gpus_did_is_drawn_and_told(home, tmp_path):
    world = tmp_path / "world.json"
    world.write_text(json.dumps({"gpus": [{"utilization": 97}]}))
    home.env.update(PERGPU_NVML=FAKE_NVML, FAKE_NVML_SCENARIO=str(world), PERGPU_READ_USAGE="100ms")
    home.close_gate()
    home.submit(grid("train", 1, 'gpus = 1\ncommand = ["stamp"]'))
    wait_until(lambda: home.only()["gpu_busy_percent"] == 97, "a reading of the GPU")
    assert '<rect class="heat h4"' in page(home).text  # of one that lives, over time
    home.open_gate()
    assert home.wait() == 0
    html = page(home)
    assert '<rect class="heat h4"' in html.text and "GPU 97 % busy on average, 97 % at most" in html.text
    (attempt,) = html.rows("attempts-table")
    assert attempt["GPU busy percent"] == "97.0" and int(attempt["peak GPU memory bytes"]) > 0
    (job,) = html.data["jobs"]
    assert job["attempts"][0]["usage"]["mean"]["gpu_busy_percent"] == 97
    exported = json.loads(home.run("export", "--jsonl").stdout)
    assert exported["attempts"][0]["usage"] == job["attempts"][0]["usage"]


def test_a_sweep_that_runs_and_a_part_of_one(home):
    home.close_gate()
    home.submit(grid("a", 3, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    html = page(home)
    assert "<b>1</b>still running" in html.text and len(html.rows("jobs-table")) == 3
    assert len(html.rows("attempts-table")) == 1
    home.open_gate()
    home.wait()
    html = page(home, "sweep/1")
    assert [run["index"] for run in html.rows("runs-table")] == ["1"]
    assert "Only <code>sweep/1</code> of this sweep" in html.text


def test_where_the_page_goes(home):
    home.submit(grid("a", 1, 'command = ["true"]'), name="first.toml")
    home.wait()
    home.submit(grid("a", 1, 'command = ["true"]'), name="second.toml")
    home.wait()
    assert "second-report.html" in home.run("report").stderr
    assert read(home.work + "/second-report.html").startswith("<!doctype html>")
    assert home.run("report", "first", "-o", "-").stdout.startswith("<!doctype html>")
    assert not os.path.exists(home.work + "/first-report.html")
    assert "several sweeps" in home.run("report", "*", code=2).stderr
    home.run("report", "nobody", code=4)
    home.run("report", "-o", home.work, code=2)
