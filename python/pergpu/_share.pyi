"""Shared memory without names, and arrays in it: the compiled part of pergpu.share."""

from typing import Any, Callable, Iterable, Iterator, Literal, Optional, SupportsIndex, final

_View = Literal["cow", "ro", "shared"]

__version__: str

@final
class Memory:
    """Memory that processes share and that has no name.

    A process needs its descriptor to use it.  It is freed when the last descriptor and the last mapping
    are gone, however the processes ended.
    """

    @classmethod
    def create(cls, name: str, size: SupportsIndex, huge: bool = False) -> Memory:
        """Zeroed memory of `size` bytes, all of it reserved now.  `name` is for display.

        huge: uses the kernel's pool of huge pages if it has enough, else normal pages.
        ValueError: `size` is 0 or too large for a file.  MemoryError: not enough memory.
        """
    @classmethod
    def adopt(cls, fd: int) -> Memory:
        """Memory that another process made.  This object now owns the descriptor; after an exception the
        caller still owns it.  ValueError: it isn't such memory.
        """
    def fileno(self) -> int:
        """The descriptor, to pass to a child or over a socket."""
    def seal(self) -> None:
        """Makes the content read-only for all processes.  OSError (EBUSY): a process has it mapped as
        "shared".
        """
    def map(self, view: _View, /) -> Region:
        """Maps all of it: with "cow" only this process sees its writes; with "ro" a write is a SIGSEGV; with
        "shared" all processes see the writes.  PermissionError: "shared" for sealed memory.
        """
    def close(self) -> None:
        """Closes the descriptor; mappings stay.  Every other method raises ValueError afterwards."""
    @property
    def nbytes(self) -> int: ...
    @property
    def sealed(self) -> bool: ...
    @property
    def huge(self) -> bool: ...

@final
class Region:
    """Mapped memory: a buffer of bytes, read-only if the view is "ro".

    It stays mapped as long as this object, or a buffer of it, exists.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int:
        """The address of the first byte in this process."""
    @property
    def view(self) -> _View: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Array:
    """The buffer of `base`, from byte `offset` on, as an array in C order.

    numpy.asarray, torch.from_dlpack and similar functions take it without a copy; [] and iteration give
    numpy's results.  on_release() is called once, in any thread, when the array and everything made from
    it are gone; not in a forked process, and not while the interpreter shuts down.

    `dtype` is a name of numpy, or "bfloat16", "float8_e4m3fn", "float8_e5m2": these are plain bytes
    ("V2", "V1") for numpy, and themselves for DLPack.

    ValueError: it exceeds the buffer, or is misaligned.  Then on_release is not called.
    """

    def __new__(
        cls,
        base: Any,  # with a buffer
        offset: SupportsIndex,
        shape: Iterable[SupportsIndex],
        dtype: str,
        on_release: Optional[Callable[[], object]] = None,
    ) -> Array: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, at: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def numpy(self) -> Any:
        """As a numpy array of the same memory.  ImportError: numpy is not installed."""
    def torch(self) -> Any:
        """As a tensor of the same memory.  ImportError: torch is not installed."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """A capsule for torch.from_dlpack and similar functions.

        BufferError: the memory is read-only, and the consumer doesn't support that (no max_version).
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU's memory."""

@final
class Parameters:
    """Data that processes update together, in a writable buffer that they share.

    `with parameters:` is an update: snapshots contain it completely or not at all.  ValueError: the memory
    has no parameters, or another version of them.
    """

    def __init__(self, memory: Any) -> None: ...
    @staticmethod
    def size(head_bytes: SupportsIndex, data_bytes: SupportsIndex, /) -> int:
        """The bytes of memory for a head and data of these sizes."""
    @classmethod
    def lay_out(cls, memory: Any, head: bytes, data_bytes: SupportsIndex, /) -> Parameters:
        """Makes parameters in zeroed memory; the caller writes the data and then calls complete()."""
    def complete(self) -> None:
        """From now on Parameters(memory) succeeds."""
    def attach(self) -> None:
        """Adds this process to `users`, as a first update does.  MemoryError: there are 256 users already."""
    def __enter__(self) -> Parameters:
        """Begins an update."""
    def __exit__(self, *exception: object) -> None:
        """Ends it.  RuntimeError: this thread is not inside one."""
    def add(self, into: Array, values: Any, rows: Any = None, /) -> None:
        """into += values, each element atomically, or into[rows] += values (int64)."""
    def count(self, name: str, by: int = 1, /) -> int:
        """Adds to a counter; returns its new value."""
    def snapshot(self, into: Any, timeout: float, tear: bool, /) -> tuple[dict[str, int], int, bool]:
        """Copies the data into a buffer.  Returns (counters, cut_updates, whether it is torn)."""
    @property
    def counters(self) -> dict[str, int]: ...
    @property
    def users(self) -> list[int]: ...
    @property
    def cut_updates(self) -> int: ...
    @property
    def head(self) -> bytes: ...
    @property
    def data_offset(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
class _Lease:
    """The common part of Slot and Item: their arrays.

    A single array is used through the object: numpy.asarray, torch.from_dlpack and `[…]` take it.  For a
    dict, `[name]` is an Array; for a tuple, `[number]`.  After the slot was given away all of these raise
    ValueError.
    """

    @property
    def array(self) -> Array:
        """The Array.  TypeError: there are several."""
    @property
    def value(self) -> Any:
        """The Array, or the tuple or dict of Arrays."""
    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def keys(self) -> tuple[str, ...]:
        """The names of a dict's arrays.  TypeError: it isn't a dict."""
    def numpy(self) -> Any:
        """`value` with numpy arrays of the same memory."""
    def torch(self) -> Any:
        """`value` with tensors of the same memory."""
    def __len__(self) -> int: ...
    def __getitem__(self, at: Any, /) -> Any: ...
    def __setitem__(self, at: Any, value: Any, /) -> None:
        """Fills the array, or the array with that name or number."""
    def __iter__(self) -> Iterator[Any]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class Slot(_Lease):
    """A slot of a channel that is being filled: a `with` block sends it at its end, but not after an
    exception.

    Don't write to its arrays after it was sent: a consumer may be reading them.
    """

    def publish(self) -> None:
        """Sends it."""
    def abandon(self) -> None:
        """Sends nothing; the slot is free again."""
    def __enter__(self) -> Slot: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Item(_Lease):
    """An item from a channel, in its slot, which no other process reads or writes.

    The slot is returned when the item and everything made from it are gone.  After release(), or at the end
    of a `with` block, it is returned when everything made from the item is gone.
    """

    @property
    def sequence(self) -> int:
        """Its number among the items of its producer, from 1."""
    @property
    def producer(self) -> int:
        """The index of its producer, from 0."""
    def release(self) -> None:
        """Returns the slot once everything made from the item is gone."""
    def __enter__(self) -> Item: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Producer:
    """The end of a channel that sends items: a `with` block closes it at its end, and detaches it after an
    exception.  One thread at a time; not in a forked process (RuntimeError).

    `timeout` is in seconds; None waits forever, 0 not at all; TimeoutError: there was no slot.  PeerDied: a
    consumer died; nothing was sent.  BrokenPipeError: with pipes, all consumers are gone.
    """

    def put(self, value: Any, timeout: Optional[float] = None) -> None:
        """Copies an array (any object with a buffer or __dlpack__), or a tuple, list or dict of arrays, into
        a slot and sends it.  ValueError: it doesn't match the channel's items, or is too large.
        """
    def slot(self, like: Any = None, timeout: Optional[float] = None) -> Slot:
        """A slot to fill in place.  If the channel's items may have any form, `like` gives the form by example
        arrays.
        """
    def close(self) -> None:
        """Sends nothing more.  Consumers end when all producers have closed."""
    def detach(self) -> None:
        """Leaves without close(): another producer may take the place, and consumers get PeerLeft."""
    def fileno(self) -> int:
        """Readable when there may be a free slot.  ValueError: it is not one of a PipeChannel."""
    @property
    def closed(self) -> bool: ...
    @property
    def index(self) -> Optional[int]:
        """Its index in the channel, from 0; None with pipes."""
    def __enter__(self) -> Producer: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Consumer:
    """The end of a channel that receives items: `for item in consumer` ends when all producers have
    closed.  One thread at a time, but any thread may release items; not in a forked process.
    """

    def get(self, timeout: Optional[float] = None) -> Item:
        """The next item.  `timeout` is in seconds; None waits forever, 0 not at all.

        EOFError: all producers have closed.  TimeoutError: there was no item.  PeerDied: a producer died.
        """
    def close(self) -> None:
        """Takes no more items.  Items in use are copied for this process, at the same addresses."""
    def fileno(self) -> int:
        """Readable when there may be an item, and at the end.  ValueError: as for Producer."""
    @property
    def closed(self) -> bool: ...
    @property
    def index(self) -> Optional[int]: ...
    def __iter__(self) -> Consumer: ...
    def __next__(self) -> Item: ...
    def __enter__(self) -> Consumer: ...
    def __exit__(self, *exception: object) -> None: ...

_Spec = tuple[str, list[tuple[str, str, tuple[int, ...]]]]  # "array", "tuple" or "dict"; name, dtype, shape

@final
class Channel:
    """The memory of a channel (src/share/channel.h); the public class is pergpu.share.Channel."""

    @classmethod
    def create(
        cls,
        name: str,
        slots: SupportsIndex,
        slot_bytes: SupportsIndex,
        producers: SupportsIndex,
        consumers: SupportsIndex,
        note: str = "",
    ) -> Channel: ...
    @classmethod
    def adopt(cls, fd: int, /) -> Channel:
        """The channel of a descriptor, which the caller still owns.  ValueError: it isn't a channel."""
    def fileno(self) -> int: ...
    def producer(self, item: Optional[_Spec] = None, skip: bool = False, pinned: bool = False) -> Producer: ...
    def consumer(self, item: Optional[_Spec] = None, skip: bool = False, pinned: bool = False) -> Consumer: ...
    def complete(self) -> None: ...
    def describe(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def note(self) -> str: ...
    @property
    def geometry(self) -> dict[str, Any]: ...

@final
class Pipes:
    """The memory and the pipes of a channel (src/share/pipe_channel.h); the public class is PipeChannel."""

    @classmethod
    def create(
        cls,
        name: str,
        slots: SupportsIndex,
        slot_bytes: SupportsIndex,
        producers: SupportsIndex,
        consumers: SupportsIndex,
        note: str = "",
    ) -> Pipes: ...
    @classmethod
    def adopt(cls, *fds: int) -> Pipes:
        """The channel of five descriptors, which the caller still owns."""
    def fds(self) -> tuple[int, int, int, int, int]: ...
    def producer(self, item: Optional[_Spec] = None, skip: bool = False, pinned: bool = False) -> Producer: ...
    def consumer(self, item: Optional[_Spec] = None, skip: bool = False, pinned: bool = False) -> Consumer: ...
    def close(self) -> None: ...

def spec_of_example(like: Any, /) -> _Spec:
    """The description of a channel's items that look like this example."""

def size_of_spec(spec: _Spec, /) -> int:
    """The bytes of a slot that such an item needs.  ValueError, TypeError: there is no such item."""
class Loader:
    """Gathers rows of arrays into batches, by threads that need no interpreter lock.

    They read `arrays`: each is an Array and either None or a transform of its rows, which are images:
    (height and width of the crop, padding, random crop, flip, means, deviations, scale, dtype).  They
    start with the first take() or wait(), and end with the object.  ValueError: the arguments don't match;
    MemoryError.
    """

    def __new__(
        cls,
        arrays: tuple[tuple[Array, Optional[tuple[object, ...]]], ...],
        batch: SupportsIndex,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        shard: SupportsIndex = 0,
        shards: SupportsIndex = 1,
        ahead: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pinned: bool = False,
    ) -> Loader: ...
    @property
    def batches(self) -> int:
        """The number of batches in an epoch."""
    @property
    def offsets(self) -> tuple[int, ...]:
        """The place of each array in a Batch."""
    @property
    def forked(self) -> bool:
        """Whether the threads belong to another process: then every other method raises RuntimeError."""
    def take(self, seconds: Optional[float], /) -> Optional[tuple[Batch, int, int, int]]:
        """The next batch, across the ends of epochs: the batch, its epoch, its number there, its rows.

        None: it takes longer than `seconds`, which may be None for no limit.  MemoryError: you hold so many
        batches that there is no memory for another.  ValueError: it was stopped.
        """
    def wait(self, seconds: Optional[float], /) -> bool:
        """Waits up to `seconds` for a batch; returns whether take() would not wait."""
    def seek(self, epoch: int, number: int, /) -> None:
        """Makes this batch of that epoch the next one."""
    def stop(self) -> None:
        """Ends the threads; batches stay valid.  Then no more batches can be taken."""

@final
class Batch:
    """A slot of a Loader, as a buffer of bytes.  It is filled again when this object, and every buffer of it,
    is gone.
    """

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def map_file(fd: int, offset: SupportsIndex, nbytes: SupportsIndex, view: _View) -> Region:
    """Maps a part of an ordinary file as a Region, from any byte on; then you may close the descriptor.

    ValueError: the part exceeds the file.  If another process shortens the file later, reading the lost
    pages is a SIGBUS.
    """

@final
class MetricsTable:
    """The newest metrics of many processes, in a writable buffer that they share.

    Each process that reports has a slot of it.  Its values stay after it ends, until a process of another
    job needs the slot and no other is free.

    `key` makes a new table, in zeroed memory, with as many slots as fit; readers see the key.
    ValueError: the memory is too small, or the key too long.  OSError: without a key, it isn't a table.
    """

    def __new__(cls, memory: Any, key: Optional[str] = None) -> MetricsTable: ...
    @staticmethod
    def bytes(slots: SupportsIndex, /) -> int:
        """The bytes that a table of N slots needs."""
    def read(self) -> list[tuple[int, int, int, bool, int, int, int, str, dict[str, Any]]]:
        """For each process that has reported: job, attempt, pid, whether it lives, the time of its first
        and its last report (ns, wall clock), the number of reports, the place, and for each name (last,
        least, greatest).  Each of these is (value, step), or None if only NaN was reported.
        """
    def writer(self, job: int, attempt: int, place: str) -> MetricsWriter:
        """A slot for this process.  If an ended process of the same job and place has one, its values are
        kept.  MemoryError: all slots belong to running processes.  ValueError: the place is longer than
        512 bytes.
        """
    @property
    def key(self) -> str: ...

@final
class MetricsWriter:
    """The slot of this process in a MetricsTable; in a forked child it belongs to the parent, and put()
    does nothing."""

    def put(self, values: dict[str, Any], /) -> bool:
        """Writes the integers and floats among the values, all at once: readers see the whole dict or none of
        it.  "step" is the step of the other values.  Names of more than 40 bytes, and those beyond 64, are
        left out.  False: the slot doesn't belong to this process (any more).
        """
    def release(self) -> None:
        """Writes nothing more; the values stay."""

def write_mean(
    dtype: str, sources: Iterable[tuple[int, SupportsIndex, float]], count: SupportsIndex, into: tuple[int, SupportsIndex]
) -> None:
    """Writes the mean of `count` values from each of the sources, (descriptor, offset, weight), to a file,
    (descriptor, offset).  The weights are divided by their sum.

    `dtype` is "float16", "bfloat16", "float32" or "float64"; sums are float32 (float64 for float64).  A
    few megabytes of each file are mapped at a time.  ValueError: another dtype, weights without a sum,
    or a source exceeds its file.  OSError: it can't be written.
    """
