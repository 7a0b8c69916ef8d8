"""A list of Python objects in shared memory: each is a pickle that is read on access.

A normal list is copied little by little in forked processes, because reading an object writes its reference
count.  In other processes it is copied as a whole.  Here all processes read the same bytes.
"""

from __future__ import annotations

import array
import pickle
from collections.abc import Iterator, Sequence
from typing import Any


def packed(values: Sequence[Any]) -> tuple[memoryview, memoryview]:
    """The ends of the pickles, and the pickles."""
    ends, data = array.array("q"), bytearray()
    for value in values:
        data += pickle.dumps(value, 5)
        ends.append(len(data))
    return memoryview(ends), memoryview(data)


class SharedList(Sequence[Any]):
    """Like a list that can't be changed; each access makes a new object.

    >>> from pergpu.share._list import packed
    >>> shared = SharedList(*packed([{"file": "a.png"}, "b"]))
    >>> shared[0], shared[-1], len(shared)
    ({'file': 'a.png'}, 'b', 2)
    >>> shared[:1]
    [{'file': 'a.png'}]
    """

    __module__ = "pergpu.share"  # where people know it from

    def __init__(self, ends: Any, data: Any) -> None:
        self._ends = memoryview(ends)
        self._data = memoryview(data)

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedList, (self._ends.obj, self._data.obj)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        if not 0 <= at < len(self):
            raise IndexError(f"there are {len(self)} objects")
        begin = self._ends[at - 1] if at else 0
        return pickle.loads(self._data[begin : self._ends[at]])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<pergpu.share.SharedList of {len(self)} objects, {len(self._data)} bytes>"
