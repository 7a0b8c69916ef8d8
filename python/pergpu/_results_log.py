"""The results of a warm worker's calls: frames in a file, also sent to the executor.

A frame holds the number of the call, the lengths of its two parts, a marshalled head like that of a payload
(_payload.py), and the pickle.  A result with large buffers gets a separate payload, and the head says "file".
A frame that a crash cut off is ignored.
Like _payload.py, this is loaded without the rest of the package.
"""

import marshal
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

if TYPE_CHECKING or __package__:
    from . import _payload
else:
    import _payload

_FRAME = struct.Struct("<QIQ")


class Found:
    """A result, as Payload has it."""

    def __init__(self, head: "dict[str, Any]", pickled: bytes) -> None:
        self.head = head
        self._pickled = pickled

    @property
    def path(self) -> "str | None":
        """From its separate file."""
        return self.head.get("file")

    def load(self) -> "Any":
        """Raises whatever unpickling raises."""
        if "file" in self.head:
            return _payload.Payload(self.head["file"]).load()
        return _payload.c_pickle().loads(self._pickled)


def frame(number: int, head: "dict[str, Any]", pickled: bytes) -> bytes:
    """All of one result."""
    packed = marshal.dumps(head, 4)
    return b"".join((_FRAME.pack(number, len(packed), len(pickled)), packed, pickled))


class Reader:
    """Assembles frames from the pieces that arrive."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def feed(self, data: bytes) -> "Iterator[tuple[int, Found]]":
        """The frames that this piece completes."""
        pieces = self._pieces
        pieces += data
        at = 0
        while len(pieces) - at >= _FRAME.size:
            number, head, pickled = _FRAME.unpack_from(pieces, at)
            begin, end = at + _FRAME.size + head, at + _FRAME.size + head + pickled
            if len(pieces) < end:
                break
            yield number, Found(marshal.loads(pieces[at + _FRAME.size : begin]), bytes(pieces[begin:end]))
            at = end
        del pieces[:at]
