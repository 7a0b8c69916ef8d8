"""`pergpu.Executor` and what goes on beside it: callbacks, forks, interrupts, many calls."""
from test_executor import python


def test_map_takes_back_the_rest_at_once(home):
    out = python(home, """
def f(i):
    while not os.path.exists("go"):
        time.sleep(0.01)
    raise ValueError
calls = pool(1, name="many")
results = calls.map(f, range(500))
while len(calls._calls._jobs) < 500:
    time.sleep(0.01)
began = time.monotonic()
open("go", "w").close()
try:
    next(results)
except ValueError:
    print(time.monotonic() - began < 4)
calls.shutdown()
""")  # fmt: skip
    assert out == "True\n"
    assert [*home.states("many").values()].count("cancelled") > 480
