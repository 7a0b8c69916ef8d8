"""Parameters that processes train together: found by a name, the same memory for all, whole copies of it
while others write, and survivors that go on."""
import array
import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import textwrap
import time

import pytest

share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")

PACKAGE = pathlib.Path(share.__file__).parent.parent.parent

pytestmark = pytest.mark.usefixtures("own_sweep")


class Other:
    """A process of Python that has the parameters "w" as `shared`, does what it is told and says what came
    of it, a line of JSON at a time; killed at the end of the test."""

    START = """
    import array, json, os, sys
    from pergpu import share
    def say(what): print(json.dumps(what), flush=True)
    def wait(): sys.stdin.readline()
    shared = share.parameters({"w": array.array("d", [0.0] * 1000)}, "w")
    w = memoryview(shared["w"])
    """

    def __init__(self, code, **env):
        self._process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(self.START) + textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")]), **env},
        )
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.killed()

    def says(self):
        line = self._process.stdout.readline()
        assert line, f"it ended with {self._process.wait()}"
        return json.loads(line)

    def goes_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, number):
        self._process.send_signal(number)

    def killed(self):
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


WRITING = """
say(os.getpid())
value = 0
while True:
    with shared.update():
        value += 1
        for i in range(len(w)):
            w[i] = value
        shared.count("steps")
"""


def doubles(*values):
    return array.array("d", values)


def listed(shared, name):
    return memoryview(shared[name]).tolist()


# ---- one memory ----


def test_who_comes_first_gives_the_values_and_all_see_what_is_written():
    first = share.parameters({"w": doubles(*range(1000))}, "w")
    with Other("say(w[7]); wait(); say(w[7]); w[8] = -1; say(0); wait()") as other:
        assert other.says() == 7
        memoryview(first["w"])[7] = 70
        other.goes_on()
        assert other.says() == 70
        assert other.says() == 0 and memoryview(first["w"])[8] == -1
        assert sorted(first.users) == sorted([os.getpid(), other.pid])
        other.killed()
        assert first.users == [os.getpid()]


def test_the_memory_stays_while_anybody_has_an_array_of_it_and_is_gone_with_the_last():
    first = share.parameters({"w": doubles(*range(1000))}, "w")
    with Other("say(w[7]); w[7] = 71; wait()") as other:
        assert other.says() == 7
        view = memoryview(first["w"])
        del first  # what is written to view must be found by others still
        with Other("say(w[7]); wait()") as third:
            assert third.says() == 71
            other.killed()
            third.killed()
    view[7] = 72
    again = share.parameters({"w": doubles(*[0] * 1000)}, "w")
    assert listed(again, "w")[7] == 72
    del view, again
    assert listed(share.parameters({"w": doubles(*[0] * 1000)}, "w"), "w")[7] == 0
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert not [line for line in maps if "pergpu:parameters" in line]


def test_a_forked_process_has_them_too():
    shared = share.parameters({"w": doubles(0, 0)}, "w")
    with shared.update():
        pid = os.fork()
        if pid == 0:
            status = 1
            with contextlib.suppress(BaseException):
                with shared.update():
                    memoryview(shared["w"])[1] = 5
                shared.count("children")
                status = 0 if len(shared.users) == 2 else 2
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    taken = shared.snapshot()
    assert listed(taken, "w") == [0, 5] and taken.counters == {"children": 1} and taken.cut_updates == 0


def test_names_of_a_sweep_and_of_the_user_are_different(monkeypatch, tmp_path):
    monkeypatch.delenv("PERGPU_SWEEP")
    name, keep = f"of the user, for {tmp_path}", []

    def value(first, **options):
        keep.append(share.parameters({"w": doubles(first)}, name, **options))
        return listed(keep[-1], "w")[0]

    assert value(1) == 1
    monkeypatch.setenv("PERGPU_SWEEP", "a")
    monkeypatch.setenv("PERGPU_OUT", f"{tmp_path}/one/a/run/train")
    assert value(2) == 2 and value(3) == 2
    monkeypatch.setenv("PERGPU_OUT", f"{tmp_path}/one/a/another/train")
    assert value(3) == 2, "all runs of a sweep"
    monkeypatch.setenv("PERGPU_OUT", f"{tmp_path}/two/a/run/train")
    assert value(4) == 4
    assert value(5, scope="user") == 1
    with pytest.raises(ValueError, match='scope is .machine.; expected "sweep" or "user"'):
        value(0, scope="machine")


@pytest.mark.parametrize(
    "other, words",
    [
        ({"w": doubles(1, 2), "b": doubles(0)}, r"w is float64 \(3,\) there, and float64 \(2,\) here"),
        ({"w": array.array("f", [1, 2, 3]), "b": doubles(0)}, "w is float64 .* there, and float32 .* here"),
        ({"w": doubles(1, 2, 3)}, "it has b, which this one lacks"),
        ({"w": doubles(1, 2, 3), "b": doubles(0), "c": doubles(1)}, "it has no c"),
    ],
)
def test_a_model_that_differs_is_refused_with_the_parameter(other, words):
    shared = share.parameters({"w": doubles(1, 2, 3), "b": doubles(0)}, "w")
    with pytest.raises(ValueError, match="'w' are already shared.*" + words):
        share.parameters(other, "w")
    assert shared.users == [os.getpid()]


def test_the_same_parameters_in_another_order_are_the_same():
    first = share.parameters({"a": doubles(1, 2, 3), "b": doubles(4)}, "w")
    second = share.parameters({"b": doubles(0), "a": doubles(0, 0, 0)}, "w")
    assert (listed(second, "a"), listed(second, "b")) == ([1, 2, 3], [4])
    memoryview(second["b"])[0] = 9
    assert listed(first, "b") == [9] == listed(second.snapshot(), "b")


@pytest.mark.parametrize(
    "model, words",
    [
        (3, "model is int; expected a torch module or a dict of arrays"),
        ({"w": 3}, "w is int; expected an array"),
        ({"w": {"v": doubles(1)}}, "w is dict; expected an array"),
        ({1: doubles(1)}, "names of parameters must be strings, not 1"),
    ],
)
def test_what_is_no_model_is_refused(model, words):
    with pytest.raises(TypeError, match=words):
        share.parameters(model)


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ValueError, match="no parameters"):
        share.parameters({})


def test_empty_and_small_arrays_come_back():
    given = {"none": doubles(), "one": doubles(1), "bytes": bytearray(b"abc"), "last": array.array("b", [-1])}
    shared = share.parameters(given)
    for found in (shared, shared.snapshot()):
        assert {name: listed(found, name) for name in given} == {name: memoryview(one).tolist() for name, one in given.items()}
    assert len(shared) == 4 and list(shared) == list(given) and "'model': 4 arrays" in repr(shared)


# ---- snapshots and deaths ----


def test_a_snapshot_has_whole_updates_while_others_write():
    shared = share.parameters({"w": doubles(*[0] * 1000)}, "w")
    with Other(WRITING) as other:
        other.says()
        seen = set()
        while len(seen) < 20:
            taken = shared.snapshot()
            values = set(listed(taken, "w"))
            assert len(values) == 1, "half an update"
            assert values == {taken.counters.get("steps", 0)}, "the counters are of the same moment"
            assert (taken.cut_updates, taken.torn) == (0, False)
            seen |= values


def test_survivors_go_on_when_one_is_killed_and_the_cut_update_is_told():
    shared = share.parameters({"w": doubles(*[0] * 1000)}, "w")
    with Other(WRITING) as writing, Other("with shared.update():\n    w[3] = 1\n    say(0)\n    wait()\n") as dying:
        writing.says(), dying.says()
        with pytest.raises(TimeoutError, match=f"process {dying.pid} has been inside an update"):
            shared.snapshot(timeout=0.05)
        torn = shared.snapshot(timeout=0, torn=True)
        assert torn.torn and torn.cut_updates == 0
        dying.killed()
        taken = shared.snapshot()
        assert taken.cut_updates == 1 == shared.cut_updates and not taken.torn
        before = shared.counters.get("steps", 0)
        while shared.counters.get("steps", 0) < before + 3:
            shared.snapshot()  # the other one goes on, and so do snapshots
        assert sorted(shared.users) == sorted([os.getpid(), writing.pid])


def test_an_update_begins_again_when_the_one_who_copies_is_killed():
    shared = share.parameters({"w": doubles(*[0] * 1000)}, "w")
    with Other(
        """
        with shared.update():
            pass
        say(0)
        while True:
            shared.snapshot()
        """
    ) as copying:
        copying.says()
        for _ in range(20):
            with shared.update():
                pass
        copying.killed()
        with shared.update():
            shared.count("after")
    assert shared.snapshot().counters["after"] == 1


def test_ctrl_c_gets_through_while_a_snapshot_waits():
    with contextlib.ExitStack() as ends:
        inside = ends.enter_context(Other("with shared.update():\n    say(0)\n    wait()\n"))
        inside.says()
        waiting = ends.enter_context(
            Other(
                """
                import signal
                signal.signal(signal.SIGINT, signal.default_int_handler)
                try:
                    say(0)
                    shared.snapshot(timeout=60)
                except KeyboardInterrupt:
                    say("interrupted")
                with shared.update():
                    say("and goes on")
                wait()
                """
            )
        )
        waiting.says()
        deadline = time.monotonic() + 30
        while state_of(waiting.pid) != "S":
            assert time.monotonic() < deadline
        waiting.send(signal.SIGINT)
        assert waiting.says() == "interrupted" and waiting.says() == "and goes on"


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_snapshot_inside_an_update_is_refused():
    shared = share.parameters({"w": doubles(1)}, "w")
    with shared.update(), shared.update():
        with pytest.raises(ValueError, match="inside an update would deadlock"):
            shared.snapshot()
    assert shared.snapshot(timeout=0).torn is False
    with pytest.raises(RuntimeError, match="not inside an update"):
        shared.update().__exit__(None, None, None)
    with pytest.raises(ValueError, match="seconds of at least 0"):
        shared.snapshot(timeout=-1)


def test_an_exception_ends_an_update():
    shared = share.parameters({"w": doubles(1)}, "w")
    with pytest.raises(ZeroDivisionError), shared.update():
        1 / 0
    assert shared.snapshot(timeout=0).cut_updates == 0


# ---- counters and additions ----


def test_counters_of_all_processes_are_one():
    shared = share.parameters({"w": doubles(*[0] * 1000)}, "w")
    assert shared.counters == {} and shared.count("steps") == 1 and shared.count("steps", 10) == 11
    code = "say(0)\nwait()\nfor _ in range(2000): last = shared.count('steps')\nsay(last)"
    with Other(code) as one, Other(code) as other:
        one.says(), other.says()
        one.goes_on(), other.goes_on()
        assert max(one.says(), other.says()) == 4011
    assert shared.counters == {"steps": 4011}
    assert shared.count("ä" * 23, -5) == -5
    with pytest.raises(ValueError, match="1 to 47 bytes, not 48"):
        shared.count("ä" * 24)


def test_additions_of_processes_lose_nothing():
    shared = share.parameters({"w": doubles(*[0] * 1000)}, "w")
    code = "ones = array.array('d', [1.0] * 1000)\nsay(0)\nwait()\nfor _ in range(300): shared.add('w', ones)\nsay(1)"
    with Other(code) as one, Other(code) as other:
        one.says(), other.says()
        one.goes_on(), other.goes_on()
        one.says(), other.says()
    assert set(listed(shared, "w")) == {600}


def test_rows_are_added_to():
    numpy = pytest.importorskip("numpy")
    shared = share.parameters({"table": numpy.zeros((4, 3), "float32"), "n": numpy.array(0)}, "w")
    shared.add("table", numpy.ones((3, 3), "float32"), rows=numpy.array([1, 3, 1]))
    assert shared["table"].tolist() == [[0] * 3, [2] * 3, [0] * 3, [1] * 3]
    shared.add("n", numpy.array(7))
    assert shared["n"] == 7
    for bad in ([4], [-1]):
        with pytest.raises(IndexError, match="from 0 to 3"):
            shared.add("table", numpy.ones((1, 3), "float32"), rows=numpy.array(bad))
    with pytest.raises(ValueError, match=r"float32 \(2, 3\); expected float32 \(1, 3\)"):
        shared.add("table", numpy.ones((2, 3), "float32"), rows=numpy.array([1]))
    with pytest.raises(ValueError, match="rows is float64"):
        shared.add("table", numpy.ones((1, 3), "float32"), rows=numpy.array([1.0]))
    with pytest.raises(ValueError, match="n has no rows"):
        shared.add("n", numpy.array([1]), rows=numpy.array([0]))
    with pytest.raises(ValueError, match="float64 .*; expected float32"):
        shared.add("table", numpy.ones((4, 3)))
    with pytest.raises(KeyError):
        shared.add("nothing", numpy.ones(3))
    small = share.parameters({"b": numpy.zeros(3, "float16")}, "small")
    with pytest.raises(TypeError, match="float16 can't be added in one step"):
        small.add("b", numpy.ones(3, "float16"))
    assert shared.snapshot(timeout=0)["table"].sum() == 9


# ---- files ----


def test_a_file_of_a_snapshot_is_read_by_dataset(tmp_path):
    shared = share.parameters({"flags": bytearray(b"\x01\x00\x01"), "w": doubles(1, 2, 3)}, "w")
    shared.count("steps", 12)
    saved = shared.save(tmp_path / "model.safetensors", metadata={"format": "pt"})
    memoryview(shared["w"])[0] = 100
    read = share.dataset(tmp_path / "model.safetensors")
    assert {name: memoryview(one).tolist() for name, one in read.items()} == {"flags": [1, 0, 1], "w": [1, 2, 3]}
    assert listed(saved, "w") == [1, 2, 3]
    data = (tmp_path / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert json.loads(data[8 : 8 + length])["__metadata__"] == {"counters": '{"steps": 12}', "cut_updates": "0", "format": "pt"}
    assert length % 8 == 0


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    shared = share.parameters({"w": doubles(1)}, "w")
    shared.save(tmp_path / "model.safetensors")
    before = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / f"model.safetensors.{os.getpid()}.new").mkdir()
    with pytest.raises(IsADirectoryError):
        shared.save(tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").read_bytes() == before
    with pytest.raises(FileNotFoundError):
        shared.save(tmp_path / "no" / "model.safetensors")


# ---- numpy and torch ----


def test_numpy_in_numpy_out():
    numpy = pytest.importorskip("numpy")
    given = {"w": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)), "n": numpy.array(3), "b": numpy.zeros((0, 2), "int8")}
    shared = share.parameters(given)
    again = share.parameters(given)
    for name, value in given.items():
        assert type(shared[name]) is numpy.ndarray and (shared[name] == value).all() and shared[name].dtype == value.dtype
        assert not numpy.shares_memory(shared[name], value)
    shared["w"] += 1
    taken = shared.snapshot()
    assert (again["w"] == given["w"] + 1).all() and (taken["w"] == again["w"]).all()
    taken["w"][:] = 0
    assert again["w"].any(), "a snapshot is a copy"
    shared["w"] = 8
    assert (again["w"] == 8).all()
    with pytest.raises(ValueError, match="no complex128"):
        share.parameters({"c": numpy.zeros(2, "complex128")}, "c").save("never-made.safetensors")


def test_a_module_of_torch_trains_shared_memory(tmp_path):
    torch = pytest.importorskip("torch")

    def made():
        torch.manual_seed(os.getpid())
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))

    first, second = made(), made()
    with torch.no_grad():
        second[0].weight += 1
    weights = second[2].weight
    before = {name: one.clone() for name, one in first.state_dict().items()}
    optimizer = torch.optim.SGD(second.parameters(), 0.1, momentum=0.9)  # made before: it has the same objects
    shared, other = share.parameters(first, "net"), share.parameters(second, "net")
    assert second[2].weight is weights and isinstance(weights, torch.nn.Parameter) and weights.requires_grad
    assert all(torch.equal(one, before[name]) for name, one in second.state_dict().items())
    loss = second(torch.randn(8, 3)).square().mean()
    loss.backward()
    with other.update():
        optimizer.step()
    assert first[2].weight.grad is None, "gradients are each process's own"
    assert not torch.equal(first[2].weight, before["2.weight"])
    assert all(torch.equal(one, second.state_dict()[name]) for name, one in first.state_dict().items())
    assert first[1].num_batches_tracked == 1, "buffers are shared, too"
    third, fourth = made(), made()
    third.load_state_dict(shared.save(tmp_path / "net.safetensors"))
    fourth.load_state_dict({name: one.torch() for name, one in share.dataset(tmp_path / "net.safetensors").items()})
    for one in (third, fourth):
        assert all(torch.equal(value, one.state_dict()[name]) for name, value in first.state_dict().items())
    with other.update(), torch.no_grad():
        second[2].weight.zero_()
    assert not first[2].weight.any() and third[2].weight.any()


def test_buffers_stay_where_they_are_on_request():
    torch = pytest.importorskip("torch")
    first, second = torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)
    shared, other = (share.parameters(one, "norm", buffers=False) for one in (first, second))
    assert sorted(shared) == ["bias", "weight"]
    second(torch.randn(8, 4))
    assert second.num_batches_tracked == 1 and first.num_batches_tracked == 0
    with pytest.raises(ValueError, match="it has no running_mean"):
        share.parameters(torch.nn.BatchNorm1d(4), "norm")
    del other


def test_tied_parameters_stay_tied(tmp_path):
    torch = pytest.importorskip("torch")

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 3)
            self.out = torch.nn.Linear(3, 5, bias=False)
            self.out.weight = self.embedding.weight
            self.register_buffer("scratch", torch.zeros(2), persistent=False)

    first, second = Tied(), Tied()
    shared, other = share.parameters(first, "tied"), share.parameters(second, "tied")
    assert first.out.weight is first.embedding.weight and "scratch" not in shared
    with torch.no_grad():
        second.out.weight.fill_(3)
    assert (first.embedding.weight == 3).all()
    taken = shared.save(tmp_path / "tied.safetensors")
    assert sorted(taken) == ["embedding.weight", "out.weight"] == sorted(share.dataset(tmp_path / "tied.safetensors"))
    Tied().load_state_dict(taken)
    shared.add("out.weight", torch.ones(5, 3))
    assert (second.embedding.weight == 4).all()
    del other


def test_types_that_numpy_has_not_and_tensors_of_a_dict():
    torch = pytest.importorskip("torch")
    given = {"w": torch.arange(4, dtype=torch.bfloat16), "x": torch.ones(2, 2).t()}
    shared = share.parameters(given)
    assert torch.equal(shared["w"], given["w"]) and shared["w"].dtype == torch.bfloat16
    assert shared["w"].data_ptr() != given["w"].data_ptr()
    assert torch.equal(shared.snapshot()["x"], given["x"])
    with pytest.raises(TypeError, match="w: a tensor on meta"):
        share.parameters({"w": torch.empty(3, device="meta")}, "other")


def test_numpy_and_torch_are_not_imported():
    code = "from pergpu import share; import array; s = share.parameters({'w': array.array('f', [1])}); s.snapshot()"
    code += "; import sys; print(sorted({'numpy', 'torch', 'jax'} & set(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("leave", [lambda model: model.double(), lambda model: model.to(dtype=model.weight.dtype).half()])
def test_a_model_that_leaves_the_shared_memory_is_an_error_at_the_next_update(leave):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1)
    shared = share.parameters(model, "leaves")
    with shared.update():
        pass
    leave(model)
    with pytest.raises(RuntimeError, match="'leaves' is no longer in the shared memory"):
        shared.update()


def leaves_in_part(way, model, torch):
    if way == "layer":
        model[1] = torch.nn.Linear(2, 3)
    elif way == "double":
        model[1].double()
    elif way == "data":
        model[1].bias.data = torch.zeros(2)
    else:
        model[1].bias = torch.nn.Parameter(torch.zeros(2))


@pytest.mark.parametrize("way", ["layer", "double", "data", "parameter"])
@pytest.mark.parametrize("layers", [2, 100])
def test_a_model_that_leaves_in_part_is_an_error_soon(way, layers):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(layers)))
    shared = share.parameters(model, f"leaves {way} {layers}")
    leaves_in_part(way, model, torch)
    words = rf"no longer in the shared memory \(1\.{'weight and 1 more' if way in ('layer', 'double') else 'bias'}\)"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=words):
            shared.snapshot()
        with pytest.raises(RuntimeError, match=words):
            for _ in range(1 + layers // 16):
                with shared.update():
                    pass


def test_a_model_may_change_around_its_parameters():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    shared = share.parameters(model, "changes around")
    model.insert(0, torch.nn.Sequential(model[0]))
    del model[1]
    model[1].running_mean = torch.ones(2)
    model.append(torch.nn.Dropout())
    model.load_state_dict(model.state_dict())
    with shared.update():
        model[0][0].weight.data += 1
    assert (shared.snapshot()["0.weight"] == model[0][0].weight).all()
    layer = torch.nn.Linear(2, 2)
    of_layer = share.parameters(torch.nn.Sequential(layer), "of a layer")
    with of_layer.update():
        pass
    layer.double()
    with pytest.raises(RuntimeError, match="no longer in the shared memory"):
        of_layer.update()


def test_a_module_with_a_mask_of_booleans_is_shared():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1)
    model.register_buffer("mask", torch.tensor([True, False]))
    shared = share.parameters(model, "masked module")
    assert shared["mask"].dtype is torch.bool and shared["mask"].tolist() == [True, False]


def test_conjugated_and_negated_tensors_are_shared_by_value():
    torch = pytest.importorskip("torch")
    value = torch.tensor([1 + 2j])
    assert share.dataset("conj", lambda: value.conj()).torch().tolist() == [1 - 2j]
    assert share.dataset("negative", lambda: value.conj().imag).torch().tolist() == [-2.0]
