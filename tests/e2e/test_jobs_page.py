"""docs/jobs.md says what a job sees: its example is run, its lists are compared with a real job's."""
import json
import os
import re

from harness import read

PAGE = read(os.path.join(os.path.dirname(__file__), "../../docs/jobs.md"))
SWEEP = """
[grid]
lr = [0.1]
[steps.a]
command = ["sh", "-c", "env; exec python3 -S example.py"]
"""


def documented(text):
    """Names of variables in a text of the page; `TORCHELASTIC_*` and `PERGPU_PARAM_<NAME>` too."""
    return set(re.findall(r"`([A-Z][A-Z_]+(?:<NAME>)?)`", text))


def test_the_example_works_and_every_variable_is_on_the_page(home):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    home.file("example.py", example)
    home.submit(SWEEP)
    assert home.wait() == 0
    job = home.only()
    (table,) = re.findall(r"## Its environment\n(.*?)\n## ", PAGE, re.S)
    for name in json.loads(read(job["out"] + "/attempt.json"))["environment"]["set"]:
        name = re.sub("^PERGPU_PARAM_.*", "PERGPU_PARAM_<NAME>", name)
        assert name in documented(table), name
    assert re.search("^PERGPU_NOTIFY=/", read(job["log"]), re.M)


def test_the_status_and_progress_of_the_example_reach_ps(home):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    home.file("example.py", example + 'import subprocess; subprocess.run(["stamp"])\n')
    home.close_gate()
    home.submit('[steps.a]\ncommand = ["python3", "-S", "example.py"]\n')
    home.until_running()
    job = home.only()
    assert (job["status"], job["progress"]) == ("warm", "3/10")
    home.open_gate()
    assert home.wait() == 0


def test_a_job_that_asks_for_another_start_gets_it_uncharged(home):
    home.submit('[steps.a]\nshell = \'test "$PERGPU_ATTEMPT" = 2 || exit 75\'\n')
    assert home.wait() == 0
    job = home.only()
    assert (job["state"], job["attempt"]) == ("done", 2)
    assert {"log.1.txt", "attempt.1.json", "log.txt"} <= set(os.listdir(job["out"]))
