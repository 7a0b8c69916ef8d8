"""A call of an executor in its own process: `python .../pergpu/_start.py _call FILE`.

The file holds the function and its arguments.  The result or the exception is written to `result` in the
job's folder, where _future.py reads it.  The interpreter gets the search path and the arguments of the
program that submitted the call.

Like _payload.py, this module is loaded without the rest of the package.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

if TYPE_CHECKING or __package__:
    from . import _main_module, _payload, _private
else:
    import _main_module
    import _payload
    import _private


def main() -> None:
    at = _private.open_private(os.path.dirname(sys.argv[1]))
    call = _payload.Payload(sys.argv[1], at)
    sys.path[:] = call.head["path"]
    sys.argv[:] = call.head["argv"]
    set_environment(call.head)
    owner = os.getpid()
    folder = os.environ["PERGPU_OUT"]  # the function may change the environment
    head: dict[str, object] = {"ok": True, "attempt": int(os.environ.get("PERGPU_ATTEMPT", "1"))}
    try:
        head["loading"] = True
        _main_module.take_place(call.head["main"])
        function, args, kwargs, initializer = call.load()
        os.close(at)
        del head["loading"], call
        if initializer is not None:
            head["initializer"] = True
            initializer[0](*initializer[1])
            end_if_promised("the initializer has returned")
            del head["initializer"]
        value = function(*args, **kwargs)
        end_if_forked(owner)
        end_if_promised("the call has returned")
        del function, args, kwargs
        pickled, buffers = dump(value)
    except SystemExit:
        raise  # the function's own way to end the job: 75 asks for the next attempt
    except BaseException as error:
        end_if_forked(owner, error)
        told, pickled, buffers = failure(error)
        end_if_promised("the call has raised an exception")
        _write(folder, {**head, **told}, pickled, buffers)
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None
    _write(folder, head, pickled, buffers)
    if _lives_on():
        _tell_returned()
    _leave()


def set_environment(head: "dict[str, Any]") -> None:
    """Sets the environment of the submit; variables that pergpu sets for a job stay as they are."""
    os.environ.update(head["env"])
    for name in head.get("unset", ()):
        os.environ.pop(name, None)


def end_if_forked(owner: int, error: "BaseException | None" = None) -> None:
    """Ends a child that the function forked and that returned from it.  Only the parent reports a result."""
    if os.getpid() == owner:
        return
    if error is not None:
        import traceback

        say("".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip("\n"))
    say(f"pergpu: process {os.getpid()}, forked by the call, returned from the function and ends here; end it with os._exit()")
    flush()
    os._exit(1)


def end_if_promised(what: str) -> None:
    """Ends the process for its next attempt, if the function kept the SystemExit of pergpu.requeue()."""
    ending: Any = sys.modules.get("pergpu._ending")
    if ending is not None:
        ending.end_if_promised(what)


def say(line: str) -> None:
    """Writes a line to the log, wherever sys.stderr goes."""
    try:
        os.write(2, (line + "\n").encode("utf-8", "backslashreplace"))  # names of files may have lone surrogates
    except OSError:
        pass


def flush() -> None:
    """Flushes printed output.  If that fails, the log gets a warning, and the result still counts."""
    streams: list[Any] = [getattr(sys, name, None) for name in ("stdout", "stderr", "__stdout__", "__stderr__")]  # `del` is allowed
    for stream in {id(stream): stream for stream in streams}.values():
        try:
            if not getattr(stream, "closed", False) and hasattr(stream, "flush"):
                stream.flush()
        except BaseException as error:  # it may run the function's code
            say(f"pergpu: can't write all printed output: {_words(error)}")


def _lives_on() -> bool:
    """Whether the process can't end yet: an interpreter waits for threads and for children of multiprocessing."""
    threading: Any = sys.modules.get("threading")
    processes: Any = sys.modules.get("multiprocessing.process")
    others: "list[Any]" = []
    try:
        if threading is not None:
            others += [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
        if processes is not None:
            others += processes.active_children()
        return any(not one.daemon for one in others)
    except Exception:  # the function may have replaced anything
        return False


def _tell_returned() -> None:
    """Makes the result count from now on, not from the end of the process (Future.see)."""
    try:
        from pergpu import _notify

        _notify._tell(f"STATUS={_payload.RETURNED}", patience_s=1)
    except Exception:  # then the result counts at the end
        pass


def _leave() -> None:
    """Ends the process as an interpreter does, but without unloading its modules: that costs milliseconds,
    and a library that crashes in it would turn a result into a failure."""
    import atexit

    threading: Any = sys.modules.get("threading")
    ends = [atexit._run_exitfuncs] if threading is None else [threading._shutdown, atexit._run_exitfuncs]
    for end in ends:  # the first waits for the other threads
        try:
            end()
        except BaseException as error:  # the result is written
            say(f"pergpu: after the call: {type(error).__name__}: {error}")
    flush()
    os._exit(0)


def failure(error: BaseException) -> "tuple[dict[str, Any], bytes, list[memoryview]]":
    """Describes an exception: a head, and a pickle from which _future.py rebuilds it.  Also prints it."""
    import traceback

    words = _words(error)
    try:
        begin = error.__traceback__ and error.__traceback__.tb_next  # our own line is no news
        text = "".join(traceback.format_exception(type(error), error, begin))
    except BaseException:  # it runs code of the exception
        text = words + "\n"
    flush()
    say(text.rstrip("\n"))
    head = {"ok": False, "traceback": text, "words": words[:10_000]}
    return (head, *(_dump_readable(error) or _dump_readable(_parts(error)) or (b"", [])))


def _parts(error: BaseException) -> "Any":
    """The exception itself, if it can be pickled and read.  Otherwise a tuple of its type, args and attributes,
    without attributes that can't be pickled; members of a group are replaced in the same way.  Otherwise its text."""
    if _dump_readable(error):  # many exceptions can be pickled and not be read
        return error
    try:
        args: Any = error.args
        group = getattr(__import__("builtins"), "BaseExceptionGroup", ())
        if isinstance(error, group):
            members: Any = error
            args = (members.message, [_parts(member) for member in members.exceptions])
        attributes = {**vars(error)}
        if _dump_readable((type(error), args, attributes)):
            return type(error), args, attributes
        kept = {name: value for name, value in attributes.items() if _dump_readable((value,))}
        if len(kept) < len(attributes):
            names = ", ".join(str(name) for name in attributes if name not in kept)
            say(f"pergpu: {_name(error)}: these attributes can't be pickled and are left out: {names}")
        if not isinstance(error, group):
            stripped = _with_attributes(error, kept)
            if _dump_readable(stripped):
                return stripped
        if _dump_readable((type(error), args, kept)):
            return type(error), args, kept
    except BaseException:  # it runs code of the exception
        pass
    return _words(error)


def _with_attributes(error: BaseException, attributes: "dict[str, Any]") -> "BaseException | None":
    """A copy with these and no others.  Some types pickle more than their `args`, such as the file name of an OSError."""
    try:
        reduced: Any = error.__reduce__()
        if reduced[0] is not type(error):
            return None
        copy: BaseException = type(error).__new__(type(error), *reduced[1])
        copy.args = error.args
        state = reduced[2] if len(reduced) > 2 and reduced[2] else {}
        for name, value in state.items():
            if name in attributes or name not in vars(error):
                setattr(copy, name, value)
        return copy
    except BaseException:
        return None


def _dump_readable(what: "Any") -> "tuple[bytes, list[memoryview]] | None":
    """Like dump(); None: it can't be pickled, or the pickle can't be read."""
    if what is None:
        return None
    try:
        pickled, buffers = dump(what)
        return None if _payload.c_pickle().loads(pickled, buffers=buffers) is None else (pickled, buffers)
    except BaseException:
        return None


def _words(error: BaseException) -> str:
    try:
        return f"{_name(error)}: {error}"
    except BaseException:
        return f"{_name(error)}: <its text can't be read: str() failed>"


def _name(error: BaseException) -> str:
    of = type(error)
    return of.__qualname__ if of.__module__ in ("builtins", *_main_module.NAMES) else f"{of.__module__}.{of.__qualname__}"


def _write(folder: str, head: "dict[str, object]", pickled: bytes, buffers: "list[memoryview]") -> None:
    try:
        _payload.write(folder + "/result", head, pickled, buffers)
    except FileNotFoundError:  # the function may do with its folder what it likes
        os.close(_private.open_folder(folder, 0o777))
        _payload.write(folder + "/result", head, pickled, buffers)


def dump(value: object) -> "tuple[bytes, list[memoryview]]":
    """A pickle and its separate buffers.  Uses cloudpickle only for objects that pickle can't write."""
    buffers = _payload.Buffers()
    by_value = sys.modules.get("cloudpickle")
    if by_value is None and "torch" not in sys.modules:
        try:
            return _payload.c_pickle().dumps(value, 5, buffer_callback=buffers.take), buffers
        except Exception:
            buffers.clear()
    return _dump_by_value(value, buffers), buffers


def _dump_by_value(value: object, buffers: _payload.Buffers) -> bytes:
    import io
    import warnings

    import cloudpickle

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, what: "Any") -> "Any":
            kind = type(what)
            is_class_of_main = isinstance(what, type) and what.__module__ == "__main__"
            if kind.__name__ in _SPECIAL or is_class_of_main or kind.__name__ == "function" and "registry" in vars(what):
                from pergpu import _by_value

                reduced = _by_value.reduced(what)
                if reduced is not None:
                    return reduced
                if is_class_of_main:
                    return _by_value.of_result(what, super().reducer_override(what))
            if kind.__name__ in ("Tensor", "Parameter") and kind.__module__.startswith("torch"):
                from pergpu import _tensors

                reduced = _tensors.reduced(what)
                if reduced is not None:
                    return reduced
            if kind is io.TextIOWrapper and what is not sys.stdout and what is not sys.stderr:
                raise TypeError("cannot pickle an open file")  # cloudpickle would take its content along
            if kind.__name__.endswith("Storage") and _is_of_gpu(what):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return what.cpu().__reduce_ex__(5)  # that GPU is another one's in a moment
            return super().reducer_override(what)

    file = io.BytesIO()
    Pickler(file, 5, buffer_callback=buffers.take).dump(value)
    return file.getvalue()


# Types that _by_value.py knows: it comes with the package, which takes milliseconds.
_SPECIAL = {"_lru_cache_wrapper", "cached_property", "singledispatchmethod", "_FIELD_BASE", "_MISSING_TYPE", "_KW_ONLY_TYPE", "_HAS_DEFAULT_FACTORY_CLASS"}


def _is_of_gpu(what: "Any") -> bool:
    """Pickles torch tensors as views of their storages."""
    return type(what).__module__.startswith("torch") and str(what.device.type) == "cuda"
