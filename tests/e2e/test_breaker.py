"""The circuit breaker is no end of a sweep: what it holds is tried, one at a time, with nobody typing a command."""
import re

import pytest
from test_failures import MISTAKE

from harness import wait_until

SWEEP = """
[grid]
lr = ["bad", "good", "best"]
seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
[steps.train]
command = ["train", "{lr}"]
"""


@pytest.fixture
def trains(home):
    """With lr = bad it fails at once, and says so in the stamps."""
    home.script("train", f'''#!/bin/sh
if [ "$1" = bad ]; then
  echo "bad $PERGPU_JOB $PERGPU_ATTEMPT $$ - train" >>"$STAMPS"
  printf "{MISTAKE}"
  exit 1
fi
exec stamp 0.02
''')


def count(home, state):
    return list(home.states().values()).count(state)


def bad_before_the_others_were_done(home):
    whats = [line[0] for line in home.stamps.lines()]
    last = max(i for i, what in enumerate(whats) if what == "end")
    return whats[:last].count("bad")


@pytest.mark.parametrize("lanes", [1, 4, 8, 32])
def test_one_failing_value_costs_few_attempts_and_the_other_runs_are_done(home, trains, lanes):
    home.submit(SWEEP, "--lanes", lanes)
    assert home.wait() == 1
    assert (count(home, "done"), count(home, "failed")) == (40, 20)
    assert home.stamps.count("end") == 40
    assert bad_before_the_others_were_done(home) <= 6
    assert home.stamps.count("bad") == 20, "each was tried in the end"


# What a program says of lr = bad: another word in each run, which is none of its parameters.
SAYS = {
    "key": ("Traceback (most recent call last):\\nKeyError: '$w'\\n", 1),
    "bare key": ("Traceback (most recent call last):\\nKeyError: $w\\n", 1),
    "file": ("Traceback (most recent call last):\\nFileNotFoundError: [Errno 2] No such file or directory: '/data/$w/x'\\n", 1),
    "attribute": ("Traceback (most recent call last):\\nAttributeError: '$w' object has no attribute 'x'\\n", 1),
    "word": ("error: bad lr $w\\n", 2),
    "usage": ("train.py: error: argument --lr: invalid float value: '$w'\\n", 2),
    "value in the middle": ("error: no data of $2 in this version\\n", 2),
}


@pytest.mark.parametrize("kind", SAYS)
def test_one_failing_value_costs_few_attempts_in_whatever_words_it_fails(home, kind):
    text, code = SAYS[kind]
    home.script("train", f'''#!/bin/sh
if [ "$1" = bad ]; then
  echo "bad $PERGPU_JOB $PERGPU_ATTEMPT $$ - train" >>"$STAMPS"
  w=$(echo "$2$2$2" | tr a-z d-za-c)
  printf "{text}"
  exit {code}
fi
exec stamp 0.02
''')
    seeds = [letter * 4 for letter in "abcdefghijkl"]
    home.submit(f'[grid]\nlr = ["bad", "good"]\nseed = {seeds}\n[steps.train]\ncommand = ["train", "{{lr}}", "{{seed}}"]\n',
                "--lanes", 2)
    assert home.wait() == 1
    assert (count(home, "done"), count(home, "failed")) == (12, 12)
    assert bad_before_the_others_were_done(home) <= 6


def test_the_failing_runs_may_come_in_any_order(home, trains):
    rows = [("bad", 0), ("bad", 1), ("bad", 2), ("good", 0), ("bad", 3), ("best", 0), ("bad", 4), ("good", 1)]
    text = "runs = [\n" + "".join(f'  {{ lr = "{lr}", seed = {seed} }},\n' for lr, seed in rows) + "]\n"
    home.submit(text + "[steps.train]\ncommand = ['train', '{lr}']\n", "--lanes", 1)
    assert home.wait() == 1
    assert (count(home, "done"), count(home, "failed")) == (3, 5)
    assert bad_before_the_others_were_done(home) == 3


def test_kills_of_the_coordinator_while_one_is_tried_change_nothing(home, trains):
    home.close_gate()
    home.submit(SWEEP, "--lanes", 4)
    home.until_running(1)
    bad = home.stamps.count("bad")
    assert bad <= 6
    for _ in range(2):
        home.kill_coordinator()
        wait_until(lambda: count(home, "running") == 1, "the adoption of the one that is tried")
        assert count(home, "failed") == bad and count(home, "held") == 59 - bad
    why = home.run("why", "sweep/59").stdout
    assert re.search(r"failed the same way before any succeeded \(.*KeyError.*\); held since ", why), why
    assert re.search(r"; job \d+ \(\d+-lr=good,seed=\d+\) is tried now", why), why
    waits = home.start("wait", "sweep")
    home.open_gate()
    assert waits.wait() == 1
    assert (count(home, "done"), count(home, "failed")) == (40, 20)
    assert home.stamps.count("start") == 40 and bad_before_the_others_were_done(home) == bad


def test_what_a_person_holds_meanwhile_stays_held_until_it_is_released(home, trains):
    home.close_gate()
    home.submit(SWEEP, "--lanes", 1)
    home.until_running(1)
    home.run("hold", "sweep")
    home.open_gate()
    assert home.wait() == 1
    assert (count(home, "done"), count(home, "held")) == (1, 56)
    assert "held by hand" in home.run("why", "sweep/59").stdout
    home.run("release", "sweep/59")
    home.run("retry", "sweep/0")
    assert home.wait() == 1
    assert (count(home, "done"), count(home, "failed")) == (2, 3)


def test_a_command_that_has_succeeded_before_is_not_held(home, trains):
    text = SWEEP.replace('["bad", "good", "best"]', '["good"]')
    home.submit(text, "--lanes", 4)
    assert home.wait() == 0
    home.submit(SWEEP.replace('["bad", "good", "best"]', '["bad"]'), "--lanes", 4)
    assert home.wait() == 1
    assert count(home, "failed") == 20
    assert "held" not in home.run("show", "sweep").stdout


def test_what_is_added_while_the_breaker_is_open_is_held_too(home, trains):
    bad = '[steps.train]\ncommand = ["train", "{lr}"]\n[grid]\nlr = ["bad"]\n'
    home.submit(bad + f"seed = {list(range(20))}\n", "--lanes", 4)
    wait_until(lambda: count(home, "held") > 10, "held jobs")
    home.submit(bad + f"seed = {list(range(20, 60))}\n", "--add")
    wait_until(lambda: count(home, "held") > 45, "held jobs of the rows that were added")
    assert home.stamps.count("bad") <= 12


def test_retries_run_out_while_the_breaker_is_open(home):
    home.script("train", f"""#!/bin/sh
echo "try $PERGPU_JOB $PERGPU_ATTEMPT $$ - train" >>"$STAMPS"
if [ "$1" -lt 3 ]; then printf "{MISTAKE}"; fi
exit 1
""")
    home.submit('[grid]\nseed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n[steps.train]\n'
                'retries = { max = 2, delay = "0s" }\ncommand = ["train", "{seed}"]\n', "--lanes", 2)  # fmt: skip
    assert home.wait() == 1
    assert count(home, "failed") == 12
    assert home.stamps.count("try") == 3 + 9 * 3


def test_what_a_person_released_is_not_held_by_the_next_coordinator(home, trains):
    home.close_gate()
    home.script("train", f'''#!/bin/sh
if [ -e "$GATE.works" ]; then exec stamp 0.02; fi
printf "{MISTAKE}"
exit 1
''')
    home.submit(SWEEP, "--lanes", 1)
    wait_until(lambda: count(home, "held") > 50, "held jobs")
    open(home.gate + ".works", "w").close()
    home.run("release", "sweep")
    home.until_running(1)
    home.kill_coordinator()
    wait_until(lambda: count(home, "running") == 1, "the adoption of the one that runs")
    assert count(home, "held") == 0
    home.open_gate()
    home.wait()
    assert count(home, "held") == 0 and count(home, "done") > 50
