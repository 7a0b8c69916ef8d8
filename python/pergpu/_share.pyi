"""Shared memory without names, and arrays in it: the compiled part of pergpu.share."""

from typing import Any, Callable, Iterable, Iterator, Literal, Optional, SupportsIndex, final

_View = Literal["cow", "ro", "shared"]

__version__: str

@final
class Memory:
    """Memory that processes share and that has no name.

    Whoever has its descriptor has it; it is gone when the last descriptor and the last mapping
    are, however the processes ended.
    """

    @classmethod
    def create(cls, name: str, size: SupportsIndex, huge: bool = False) -> Memory:
        """Zeroed memory of `size` bytes, all of it reserved now.  `name` is for people.

        huge: of the kernel's pool of huge pages, where it has enough, else of normal ones.
        ValueError: `size` is 0 or beyond what a file can have.  MemoryError: there is not so much.
        """
    @classmethod
    def adopt(cls, fd: int) -> Memory:
        """Memory that another process made.  From now on the descriptor is this object's to close;
        after an exception it is the caller's.  ValueError: it is no such memory.
        """
    def fileno(self) -> int:
        """The descriptor, for a child or for a socket."""
    def seal(self) -> None:
        """Nobody may change the content any more.  An OSError (EBUSY) while somebody has it mapped
        as "shared".
        """
    def map(self, view: _View, /) -> Region:
        """All of it, in this process's memory: "cow", writable, where what is written is seen by
        this process only; "ro", where a write is a SIGSEGV; "shared", where all see it.
        PermissionError: "shared" of what is sealed.
        """
    def close(self) -> None:
        """Closes the descriptor; what is mapped stays.  All else is a ValueError then."""
    @property
    def nbytes(self) -> int: ...
    @property
    def sealed(self) -> bool: ...
    @property
    def huge(self) -> bool: ...

@final
class Region:
    """Memory that is mapped: a buffer of bytes, read-only where the view is "ro".

    It stays mapped as long as it, or a buffer of it, is there.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int:
        """Where they begin in this process."""
    @property
    def view(self) -> _View: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Array:
    """What lies in the buffer of `base`, `offset` bytes from its begin, as an array, row by row.

    numpy.asarray, torch.from_dlpack and their like take it without a copy; what is in [], and
    iteration, are numpy's.  on_release() is called once, when the array and all that was made of it are gone, in whichever thread that happens; not
    if the process was forked off, nor when the interpreter is shutting down.

    `dtype` is a name of numpy, or "bfloat16", "float8_e4m3fn", "float8_e5m2": these are bytes
    without a meaning ("V2", "V1") for numpy, and themselves for DLPack.

    ValueError: it is not all in the buffer, or not where such numbers may lie.  on_release is not
    called then.
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
        """As numpy's array, of the same memory.  ImportError: there is no numpy."""
    def torch(self) -> Any:
        """As a tensor, of the same memory.  ImportError: there is no torch."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """A capsule for torch.from_dlpack and its like.

        BufferError: read-only memory, for a consumer that knows nothing of such (no max_version).
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU's memory."""

@final
class Parameters:
    """Data that processes update together, in a writable buffer that they share.

    `with parameters:` is an update: snapshots have all of it or nothing.  ValueError: there are no
    parameters in the memory, or they are of another version.
    """

    def __init__(self, memory: Any) -> None: ...
    @staticmethod
    def size(head_bytes: SupportsIndex, data_bytes: SupportsIndex, /) -> int:
        """Bytes of memory for a head and data of these sizes."""
    @classmethod
    def lay_out(cls, memory: Any, head: bytes, data_bytes: SupportsIndex, /) -> Parameters:
        """In zeroed memory; the caller writes the data and then calls complete()."""
    def complete(self) -> None:
        """From now on Parameters(memory) succeeds."""
    def attach(self) -> None:
        """This process is one of `users`; a first update does the same.  MemoryError: 256 are."""
    def __enter__(self) -> Parameters:
        """Begins an update."""
    def __exit__(self, *exception: object) -> None:
        """Ends it.  RuntimeError: this thread is not inside one."""
    def add(self, into: Array, values: Any, rows: Any = None, /) -> None:
        """into += values, each element in one step, or into[rows] += values (int64)."""
    def count(self, name: str, by: int = 1, /) -> int:
        """Adds to a counter; what it is then."""
    def snapshot(self, into: Any, timeout: float, tear: bool, /) -> tuple[dict[str, int], int, bool]:
        """Copies the data into a buffer.  (counters, cut_updates, whether it is torn)."""
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
    """What a Slot and an Item have in common: the arrays that lie in it.

    Where there is one array they stand for it: numpy.asarray, torch.from_dlpack and `[…]` take it.  Of a
    dict `[name]` and of a tuple `[number]` is an Array.  After the slot was given away all of these are
    a ValueError.
    """

    @property
    def array(self) -> Array:
        """The Array.  TypeError: there are several."""
    @property
    def value(self) -> Any:
        """The Array, or the tuple or dict of Arrays."""
    @property
    def nbytes(self) -> int:
        """How many bytes the arrays have."""
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def keys(self) -> tuple[str, ...]:
        """The names of a dict's arrays.  TypeError: it is no dict."""
    def numpy(self) -> Any:
        """`value`, with arrays of numpy, of the same memory."""
    def torch(self) -> Any:
        """`value`, with tensors, of the same memory."""
    def __len__(self) -> int: ...
    def __getitem__(self, at: Any, /) -> Any: ...
    def __setitem__(self, at: Any, value: Any, /) -> None:
        """Fills the array, or the one of that name or number."""
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
    """A slot of a channel that is being filled: as a block it is sent at its end, and not after an
    exception.

    Whoever writes into its arrays after it was sent writes into what a consumer reads.
    """

    def publish(self) -> None:
        """Sends it."""
    def abandon(self) -> None:
        """Sends nothing; the slot is free again."""
    def __enter__(self) -> Slot: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Item(_Lease):
    """What came through a channel, in its slot, which nobody else reads or writes.

    The slot is given back when the item and everything that was made of it are gone; after release(),
    or at the end of the item as a block, when everything that was made of it is.
    """

    @property
    def sequence(self) -> int:
        """Its number among those of its producer, from 1."""
    @property
    def producer(self) -> int:
        """The place of its producer, from 0."""
    def release(self) -> None:
        """Nothing more is made of it."""
    def __enter__(self) -> Item: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Producer:
    """The end of a channel that items are put into: as a block it is closed at its end, and only left
    after an exception.  One thread at a time; not in a forked process (RuntimeError).

    `timeout` is in seconds, None for ever, 0 not at all; TimeoutError: there was no slot.  PeerDied: a
    consumer died; nothing was put.  BrokenPipeError: with pipes, all consumers are gone.
    """

    def put(self, value: Any, timeout: Optional[float] = None) -> None:
        """Copies an array (anything with a buffer or __dlpack__), or a tuple, list or dict of arrays, into
        a slot and sends it.  ValueError: it is not what items of the channel are, or does not fit.
        """
    def slot(self, like: Any = None, timeout: Optional[float] = None) -> Slot:
        """A slot to be filled in place.  Where items of the channel are of any form, `like` says by arrays
        what it is to hold.
        """
    def close(self) -> None:
        """Nothing more will come from here.  Consumers end when all producers have closed."""
    def detach(self) -> None:
        """Goes without close(): another may take the place, and consumers are told (PeerLeft)."""
    def fileno(self) -> int:
        """Readable when there may be a free slot.  ValueError: it is not one of a PipeChannel."""
    @property
    def closed(self) -> bool: ...
    @property
    def index(self) -> Optional[int]:
        """Its place in the channel, from 0; None with pipes."""
    def __enter__(self) -> Producer: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Consumer:
    """The end of a channel that items are taken from: `for item in consumer` ends when all producers
    have closed.  One thread at a time, but items may be let go in any; not in a forked process.
    """

    def get(self, timeout: Optional[float] = None) -> Item:
        """The next item.  `timeout` is in seconds, None for ever, 0 not at all.

        EOFError: all producers have closed.  TimeoutError: nothing came.  PeerDied: a producer died.
        """
    def close(self) -> None:
        """Takes no more.  What is still looked at is copied for this process, at the same addresses."""
    def fileno(self) -> int:
        """Readable when there may be an item, and at the end.  ValueError: as with Producer."""
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
    """The memory of a channel (src/share/channel.h); people use pergpu.share.Channel."""

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
        """That of a descriptor, which stays the caller's.  ValueError: it is another thing."""
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
    """The memory and the pipes of a channel (src/share/pipe_channel.h); people use PipeChannel."""

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
        """That of five descriptors, which stay the caller's."""
    def fds(self) -> tuple[int, int, int, int, int]: ...
    def producer(self, item: Optional[_Spec] = None, skip: bool = False, pinned: bool = False) -> Producer: ...
    def consumer(self, item: Optional[_Spec] = None, skip: bool = False, pinned: bool = False) -> Consumer: ...
    def close(self) -> None: ...

def spec_of_example(like: Any, /) -> _Spec:
    """What items of a channel are that look like that."""

def size_of_spec(spec: _Spec, /) -> int:
    """How many bytes of a slot such an item takes.  ValueError, TypeError: there is no such item."""
class Loader:
    """Rows of arrays, gathered into batches by threads that need no interpreter lock.

    They read `arrays`: an Array each, and None, or what becomes of its rows, which are images: (height
    and width of the crop, padding, random crop, flip, means, deviations, scale, dtype).  They begin with
    the first take() or wait(), and end with the object.  ValueError: what does not fit; MemoryError.
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
        """How many an epoch has."""
    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each array lies in a Batch."""
    @property
    def forked(self) -> bool:
        """Whether the threads are those of another process: then all else is a RuntimeError."""
    def take(self, seconds: Optional[float], /) -> Optional[tuple[Batch, int, int, int]]:
        """The next batch, over the ends of epochs: it, its epoch, its number in that, its rows.

        None: it took longer than that; seconds None: it may take as long as it likes.  MemoryError: so
        many are held that there is no memory for another.  ValueError: it was stopped.
        """
    def wait(self, seconds: Optional[float], /) -> bool:
        """Whether take() would not wait; waits for it as long as that."""
    def seek(self, epoch: int, number: int, /) -> None:
        """What is taken next is this batch of that epoch."""
    def stop(self) -> None:
        """Ends the threads; batches stay.  Nothing can be taken then."""

@final
class Batch:
    """A slot of a Loader, as a buffer of bytes.  It is filled anew when this, and every buffer of it, is
    gone.
    """

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def map_file(fd: int, offset: SupportsIndex, nbytes: SupportsIndex, view: _View) -> Region:
    """A part of an ordinary file as a Region, from any byte on; the descriptor may be closed then.

    ValueError: not all of it is in the file.  Who shortens the file later takes the pages away: to
    read them is a SIGBUS.
    """

@final
class MetricsTable:
    """The newest metrics of many processes, in a writable buffer that they share.

    Each process that reports has a slot of it.  What it has reported stays when it ends, until a
    process of another job needs the slot and no other is free.

    With `key` a new table, in zeroed memory, with as many slots as fit; others see what it was called.
    ValueError: the memory is too small, or the key too long.  OSError: without a key, it is no table.
    """

    def __new__(cls, memory: Any, key: Optional[str] = None) -> MetricsTable: ...
    @staticmethod
    def bytes(slots: SupportsIndex, /) -> int:
        """How many a table of so many slots needs."""
    def read(self) -> list[tuple[int, int, int, bool, int, int, int, str, dict[str, Any]]]:
        """Of each process that has reported: job, attempt, pid, whether it lives, when it began to and
        when it last did (ns, wall clock), how often, the place, and of each name (last, least,
        greatest).  Each of these is (value, step), or None where only NaN was reported.
        """
    def writer(self, job: int, attempt: int, place: str) -> MetricsWriter:
        """A slot for this process.  Where a process of the same job and place has ended it goes on with
        what that one has reported.  MemoryError: as many processes as there are slots live and report.
        ValueError: the place is longer than 512 bytes.
        """
    @property
    def key(self) -> str: ...

@final
class MetricsWriter:
    """The slot of this process in a MetricsTable; in a forked child it is the parent's, and put() does
    nothing."""

    def put(self, values: dict[str, Any], /) -> bool:
        """The integers and floats among the values, all at once: readers see the whole dict or none of
        it.  "step" is what the others were reached at.  Names of more than 40 bytes, and those beyond 64,
        are left out.  False: the slot is not this process's (any more).
        """
    def release(self) -> None:
        """Nothing more will come; what was put stays."""

def write_mean(
    dtype: str, sources: Iterable[tuple[int, SupportsIndex, float]], count: SupportsIndex, into: tuple[int, SupportsIndex]
) -> None:
    """The mean of `count` values from each of the sources, (descriptor, offset, weight), into a file,
    (descriptor, offset).  The weights are divided by their sum.

    `dtype` is "float16", "bfloat16", "float32" or "float64"; sums are float32 (float64 of that).  A
    few megabytes of each file are mapped at a time.  ValueError: another dtype, weights without a sum,
    or not all of a source is in its file.  OSError: it cannot be written.
    """
