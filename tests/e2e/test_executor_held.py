"""Calls of `pergpu.Executor` that are held: who waits for them is told."""
import pytest

import harness
from harness import read, wait_until
from test_executor import begun, rest_of  # noqa: F401 (begun is a fixture)

# Warnings go into a file, in which the test sees them come.
WARNED = """
import warnings
def warned(message, category, *more):
    with open("warned", "a") as file:
        file.write(f"{category.__name__}: {message}\\n")
warnings.showwarning = warned
"""


def warned(home, count=1):
    """The warnings, when there are so many."""
    wait_until(lambda: read(home.work + "/warned", "").count("\n") >= count, "a warning")
    return read(home.work + "/warned").splitlines()


@pytest.mark.parametrize(("options", "what"), [("", "call pow(base={}, exp=2)"), ("reuse=True", "a worker")])
def test_who_waits_for_what_is_held_is_told(home, begun, options, what):  # noqa: F811
    home.close_gate()
    process = begun(WARNED + f"""
with pool(2, lanes=1, name="calls", {options}) as calls:
    futures = [calls.submit(stamp, 3), *(calls.submit(pow, i, 2) for i in range(2))]
    print([future.result() for future in futures])
""")
    home.until_running()
    wait_until(lambda: len(home.ps()) == (2 if options else 3), "those that wait for the lane")
    home.run("hold", "calls")
    # Of several that are held one is named, whichever is seen first.
    told = [
        f"HeldWarning: {what.format(i)} (job {2 + i}) is held: held by hand; "
        f"`pergpu release {2 + i}` releases it, `pergpu release calls` all jobs that"
        for i in range(1 if options else 2)
    ]
    assert warned(home)[0].startswith(tuple(told))
    home.run("release", "calls")
    home.open_gate()
    assert rest_of(process) == "[9, 0, 1]\n"
    assert len(warned(home)) == 1


def test_what_the_breaker_holds_is_told_to_who_attaches_too(home, begun):  # noqa: F811
    home.close_gate()
    process = begun(WARNED + """
import time
def f(x):
    os.system('flock -s "$GATE" true')
    while x > 0 and not os.path.exists("go"):  # the one that is tried
        time.sleep(0.02)
    import no_such_module
calls = pool(1, name="calls", breaker=1)
futures = [calls.submit(f, x) for x in range(3)]
concurrent.futures.wait(futures)
""")
    wait_until(lambda: len(home.ps()) == 3, "the calls")
    home.open_gate()
    (told,) = warned(home)
    assert "call f(x=2) (job 3) is held: held by the breaker: 1 job" in told, told
    wait_until(lambda: "is tried now" in home.run("why", "3").stdout, "the start of the one that is tried")
    process.kill()
    process.wait(timeout=harness.DEADLINE)
    attached = begun(WARNED + "concurrent.futures.wait(pergpu.attach('calls'))")
    assert warned(home, 2)[1].partition("; held since")[0] == told.partition("; held since")[0]
    home.file("go", "")
    rest_of(attached)
    assert list(home.states().values()) == ["failed"] * 3, "each was tried in the end"
    assert len(warned(home, 2)) == 2, "what is tried next is no other reason"


def test_where_warnings_are_errors_a_call_that_is_held_breaks_the_executor(home, begun):  # noqa: F811
    home.close_gate()
    process = begun("""
import warnings
warnings.simplefilter("error", pergpu.HeldWarning)
calls = pool(1, name="calls")
futures = [calls.submit(stamp, i) for i in range(2)]
print(futures[1].job, flush=True)
for future in futures:
    error = future.exception()
    print(type(error).__name__, repr(error.__cause__)[:12], flush=True)
""")
    assert process.stdout.readline() == "2\n"
    home.until_running()
    home.run("hold", "calls")
    assert process.stdout.readline() == "BrokenExecutor HeldWarning(\n"
    home.open_gate()
    assert rest_of(process) == "BrokenExecutor HeldWarning(\n"
