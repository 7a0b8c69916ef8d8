"""Slurm takes nothing for a long time: jobs wait, the controller is asked seldom, and then all of it runs."""
import os
import shutil
import time

import pytest
from harness import LONG, read, wait_until

SECONDS = int(os.environ.get("PERGPU_OUTAGE_SECONDS", "150"))


@pytest.mark.skipif(not LONG, reason="takes minutes: PERGPU_LONG=1; PERGPU_OUTAGE_SECONDS=3600 for an hour")
def test_sbatch_that_fails_for_long_loses_nothing_and_is_asked_seldom(slurm, home):
    home.script("bin/sbatch", f"""#!/bin/sh
date +%s >> {home.work}/asked
[ -e {home.work}/open ] && exec {shutil.which("sbatch")} "$@"
echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" >&2
exit 1
""")  # fmt: skip
    home.env["PATH"] = f"{home.work}/bin:{home.env['PATH']}"
    home.submit("""
name = "outage"
[grid]
x = [1, 2, 3]
[steps.train]
command = "stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""", "--on", "slurm")  # fmt: skip
    end = time.monotonic() + SECONDS
    wait_until(lambda: time.monotonic() > end, "the end of the outage", SECONDS + 60)
    assert set(home.states().values()) == {"queued"}
    assert "Unable to contact" in home.run("why", "1").stdout
    asked = list(map(int, read(home.work + "/asked").split()))
    pauses = [after - before for before, after in zip(asked, asked[1:])]
    assert all(pause >= min(4 * 2**i, 118) for i, pause in enumerate(pauses)), pauses
    home.file("open", "")
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"} and home.stamps.count("start") == 6
