"""Calls as pickles: what goes by name is pickled without cloudpickle, to the same bytes."""
import json
import pickle
import types

import pytest

cloudpickle = pytest.importorskip("cloudpickle")
from pergpu._pickling import dump, dump_call  # noqa: E402


def shown(*args, **kwargs):
    return args, kwargs


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 0.5, "a\ud800", None, True), {"x": -1}), (([1],), {}), ((1,), {"x": {2}})])
def test_a_call_by_name_is_pickled_as_by_cloudpickle(args, kwargs):
    assert dump_call(json.dumps, args, kwargs) == dump((json.dumps, args, kwargs))
    assert pickle.loads(dump_call(json.dumps, args, kwargs)[0]) == (json.dumps, args, kwargs)


def test_modules_that_go_by_value_do():
    module = types.ModuleType("made_here")
    exec("def f(x): return x + 1", vars(module))
    by_name = dump_call(shown, (1,), {})[0]
    assert b"co_" not in by_name and len(by_name) < 100
    assert pickle.loads(dump_call(module.f, (1,), {})[0])[0](1) == 2  # no other process finds it by its name
    if hasattr(cloudpickle, "register_pickle_by_value"):
        cloudpickle.register_pickle_by_value(json)
        try:
            assert len(dump_call(json.dumps, (1,), {})[0]) > 1000
        finally:
            cloudpickle.unregister_pickle_by_value(json)
    assert len(dump_call(json.dumps, (1,), {})[0]) < 100
