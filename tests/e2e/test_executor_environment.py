"""The environment of a call is that of its submit."""
import os

import pytest

from test_executor import begun, python, rest_of  # noqa: F401 (begun is a fixture)


@pytest.mark.parametrize("reuse", [False, True])
def test_what_is_set_between_two_submits_counts_for_the_second(home, reuse):
    told = python(home, f"""
def look():
    return os.environ.get("A"), os.environ.get("B"), "PERGPU_JOB" in os.environ, os.environ["CUDA_VISIBLE_DEVICES"]
with pool(1, reuse={reuse}, env={{"B": "of the key"}}) as executor:
    futures = [executor.submit(look)]
    for value in ("1", "2"):
        os.environ.update(A=value, B="other", CUDA_VISIBLE_DEVICES="7", PERGPU_JOB="wrong")
        futures.append(executor.submit(look))
    del os.environ["A"], os.environ["PERGPU_JOB"]
    futures.append(executor.submit(look))
    print([future.result()[0] for future in futures], {{future.result()[1:] for future in futures}})
""")  # fmt: skip
    assert told == "[None, '1', '2', None] {('of the key', True, '')}\n"


def test_another_program_changes_nothing_for_calls_that_are_queued(home, begun):  # noqa: F811
    text = """
os.environ["A"] = {0!r}
def look(i):
    stamp(i)
    return os.environ.get("A"), os.environ.get("FIRST")
with pool(1, name="common") as executor:
    futures = [executor.submit(look, i) for i in range(2)]
    futures[-1].job
    print("queued", flush=True)
    print([future.result() for future in futures])
"""
    home.close_gate()
    first = begun('os.environ["FIRST"] = "yes"\n' + text.format("one"))
    assert first.stdout.readline() == "queued\n"
    second = begun(text.format("two"))
    assert second.stdout.readline() == "queued\n"
    home.open_gate()
    assert rest_of(first) == "[('one', 'yes'), ('one', 'yes')]\n"
    assert "('two'," in rest_of(second)


def test_env_pass_leaves_out_what_it_does_not_name(home):
    told = python(home, """
os.environ.update(WANDB_MODE="offline", OTHER="1")
def look():
    return sorted({"WANDB_MODE", "OTHER", "PATH"}.intersection(os.environ))
with pool(1, env_pass=["PATH", "WANDB_*"]) as executor:
    print(executor.submit(look).result())
    os.environ["OTHER"] = "2"
    print(executor.submit(look).result())
""")  # fmt: skip
    assert told == 2 * "['PATH', 'WANDB_MODE']\n"


@pytest.mark.parametrize("reuse", [False, True])
def test_nobody_else_may_read_arguments(home, reuse):
    python(home, f"""
with pool(1, reuse={reuse}, name="secret") as executor:
    executor.submit(abs, -1).result()
""")  # fmt: skip
    assert os.stat(home.work + "/runs/secret/_calls").st_mode & 0o077 == 0
