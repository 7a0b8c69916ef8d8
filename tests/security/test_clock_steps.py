"""The wall clock is set while a job waits for its retry: it waits as long as it would have."""
import os
import subprocess
import time

import pytest
from harness import LONG, wait_until

HOUR = 3600
# CLOCK_REALTIME plus the seconds in the file that $STEP names; no other clock.
STEPPED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
  long seconds = 0;
  FILE *file = fopen(getenv("STEP"), "r");
  if (file && fscanf(file, "%ld", &seconds) != 1) seconds = 0;
  if (file) fclose(file);
  return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
  int status = (int)syscall(SYS_clock_gettime, clock, now);
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
  return status;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""
SWEEP = """
[steps.a]
shell = 'echo "start $PERGPU_JOB $PERGPU_ATTEMPT $$" >>$STAMPS; test $PERGPU_ATTEMPT = 2'
retries = { max = 1, on = ["exit"], delay = "2s" }
"""


@pytest.mark.skipif(not LONG, reason="a retry's delay; set PERGPU_LONG=1")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="a sanitizer wants to be loaded first")
@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
@pytest.mark.parametrize("restart", [False, True])
def test_a_retry_waits_as_long_as_before(home, seconds, restart):
    source, library = home.file("step.c", STEPPED), home.work + "/step.so"
    made = subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], capture_output=True)
    if made.returncode:
        pytest.skip(f"no C compiler: {made.stderr.decode()[:200]}")
    home.env["STEP"] = home.file("step", "0")
    stepped = {"LD_PRELOAD": library}
    home.run("coordinator", "start", env=stepped)
    home.submit(SWEEP)
    wait_until(lambda: home.only()["state"] == "queued" and home.stamps.count("start") == 1, "the first attempt's end")
    begun = time.monotonic()
    home.file("step", str(seconds))
    if restart:
        home.kill_coordinator()
        home.run("coordinator", "start", env=stepped)
    assert home.wait() == 0
    assert time.monotonic() - begun < 20  # far from an hour
