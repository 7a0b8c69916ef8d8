"""Slots that are pinned for a GPU: by the CUDA runtime that is there, here a fake one."""
import ctypes
import os

import pytest

from shared import python

from pergpu import share

FAKE = os.path.join(os.path.dirname(os.environ.get("PERGPU_BIN", "")), "fake_cudart/libcudart.so.12")


@pytest.fixture
def pinned(monkeypatch):
    """How many bytes are pinned."""
    if not os.path.exists(FAKE):
        pytest.skip("the fake CUDA runtime is not built")
    monkeypatch.setenv("PERGPU_CUDART", FAKE)
    return ctypes.CDLL(FAKE).fake_cudart_pinned


@pytest.mark.parametrize("kind", [share.Channel, share.PipeChannel])
def test_slots_are_pinned_as_long_as_the_end_is_open(kind, pinned):
    channel = kind(shape=(1000,), dtype="uint8")
    out = channel.producer(pinned=True)
    assert pinned() >= 4000
    out.put(bytes(1000))
    out.close()
    assert pinned() == 0
    channel = kind(shape=(1000,), dtype="uint8")
    batches = channel.consumer(pinned=True)
    assert pinned() >= 4000
    del batches
    assert pinned() == 0


def test_what_is_looked_at_after_the_end_is_pinned_no_more(pinned):
    channel = share.Channel(slot_bytes=100)
    out, batches = channel.producer(pinned=True), channel.consumer(pinned=True)
    each = pinned() // 2
    out.put(b"abc")
    item = batches.get()
    batches.close()
    assert bytes(item) == b"abc" and pinned() == each
    del out, item, batches
    assert pinned() == 0


def test_what_cuda_refuses_is_told_and_takes_no_place(pinned, monkeypatch):
    monkeypatch.setenv("FAKE_CUDART_ERROR", "100")
    channel = share.Channel(slot_bytes=100)
    for attach in (channel.producer, channel.consumer):
        with pytest.raises(RuntimeError, match="no CUDA-capable device"):
            attach(pinned=True)
    ends = channel.describe()
    assert [end["state"] for end in ends["producers"] + ends["consumers"]] == ["vacant", "vacant"]


def test_without_cuda_the_error_says_what_was_tried():
    text = """
import os
from pergpu import share
try:
    share.Channel(slot_bytes=1).producer(pinned=True)
except RuntimeError as error:
    print(error)
"""
    assert "can't find a CUDA runtime (tried /nowhere/libcudart.so)" in python(text, env={**os.environ, "PERGPU_CUDART": "/nowhere/libcudart.so"})
