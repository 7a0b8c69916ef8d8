// Parameters: those of share/parameters.h in a buffer, which it keeps.  As a context manager it is
// an update; a wait for another process is without the interpreter lock, and Ctrl-C gets
// through.
#include "share/parameters.h"

#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string_view>

#include "os/clock.h"
#include "python/array.h"
#include "python/errors.h"
#include "python/object.h"
#include "share/atomic_add.h"

namespace pergpu::python {
namespace {

using share::Outcome;
using Shared = std::unique_ptr<share::Parameters>;

struct Parameters {
  PyObject_HEAD;
  Py_buffer base;  // keeps the memory
  Shared shared;
};

share::Parameters& shared_of(PyObject* object) { return *as<Parameters>(object)->shared; }

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  as<Parameters>(object)->shared.~unique_ptr();
  PyBuffer_Release(&as<Parameters>(object)->base);
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

/// What `open(memory)` makes of the buffer of `owner`.
template <typename Open>
PyObject* make(PyTypeObject* type, PyObject* owner, Open&& open) {
  Py_buffer base = {};
  if (PyObject_GetBuffer(owner, &base, ask::kWritable) != 0) return nullptr;
  std::span<std::byte> memory(static_cast<std::byte*>(base.buf),
                              static_cast<std::size_t>(base.len));
  Result<Shared> shared = caught([&] { return open(memory); });
  PyObject* object = shared ? PyType_GenericAlloc(type, 0) : nullptr;
  if (object == nullptr) {
    PyBuffer_Release(&base);
    return shared ? nullptr : raise(shared.error());
  }
  as<Parameters>(object)->base = base;
  new (&as<Parameters>(object)->shared) Shared(std::move(*shared));
  return object;
}

PyObject* make_new(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* names[] = {"memory", nullptr};
  PyObject* owner = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "O:Parameters", const_cast<char**>(names),
                                  &owner) == 0) {
    return nullptr;
  }
  return make(type, owner, share::Parameters::open);
}

PyObject* size(PyObject*, PyObject* arguments) {
  PyObject *head = nullptr, *data = nullptr;
  if (PyArg_ParseTuple(arguments, "OO:size", &head, &data) == 0) return nullptr;
  Py_ssize_t head_bytes = as_size(head, "head_bytes");
  Py_ssize_t data_bytes = head_bytes < 0 ? -1 : as_size(data, "data_bytes");
  if (data_bytes < 0) return nullptr;
  return PyLong_FromUnsignedLongLong(share::Parameters::size_for(
      static_cast<std::uint64_t>(head_bytes), static_cast<std::uint64_t>(data_bytes)));
}

PyObject* lay_out(PyObject* type, PyObject* arguments) {
  PyObject *owner = nullptr, *data = nullptr;
  const char* head = nullptr;
  Py_ssize_t head_bytes = 0;
  if (PyArg_ParseTuple(arguments, "Oy#O:lay_out", &owner, &head, &head_bytes, &data) == 0) {
    return nullptr;
  }
  Py_ssize_t data_bytes = as_size(data, "data_bytes");
  if (data_bytes < 0) return nullptr;
  return make(reinterpret_cast<PyTypeObject*>(type), owner, [&](std::span<std::byte> memory) {
    return share::Parameters::lay_out(memory, {head, static_cast<std::size_t>(head_bytes)},
                                      static_cast<std::uint64_t>(data_bytes));
  });
}

PyObject* complete(PyObject* object, PyObject*) {
  shared_of(object).complete();
  return another(Py_None);
}

PyObject* attach(PyObject* object, PyObject*) {
  Result<void> attached = caught([&] { return shared_of(object).gate().attach(); });
  return attached ? another(Py_None) : raise(attached.error());
}

// ---- updates ----

PyObject* enter(PyObject* object, PyObject*) {
  share::UpdateGate& gate = shared_of(object).gate();
  bool inside = gate.try_enter();
  while (!inside) {
    Result<Outcome> outcome = unlocked([&] { return gate.enter(share::kForever); });
    if (!outcome) return raise(outcome.error());
    inside = *outcome == Outcome::Ready;
    if (!inside && PyErr_CheckSignals() != 0) return nullptr;
  }
  return another(object);
}

PyObject* leave(PyObject* object, PyObject*) {
  if (shared_of(object).gate().leave()) return another(Py_None);
  PyErr_SetString(PyExc_RuntimeError, "this thread is not inside an update");
  return nullptr;
}

PyObject* add(PyObject* object, PyObject* arguments) {
  PyObject *into = nullptr, *values = nullptr, *rows = Py_None;
  PyTypeObject* array_type = types_of(object)->array;
  if (PyArg_ParseTuple(arguments, "O!O|O:add", array_type, &into, &values, &rows) == 0) {
    return nullptr;
  }
  Array* array = as<Array>(into);
  std::optional<share::Number> number;
  std::string_view dtype = array->element->name;
  if (dtype == "float32") number = share::Number::Float32;
  if (dtype == "float64") number = share::Number::Float64;
  if (dtype == "int32") number = share::Number::Int32;
  if (dtype == "int64") number = share::Number::Int64;
  if (!number) {
    return PyErr_Format(PyExc_TypeError,
                        "%s can't be added in one step; expected float32, float64, int32 or int64",
                        array->element->name);
  }
  if (array->readonly()) {
    PyErr_SetString(PyExc_BufferError, "the memory is read-only");
    return nullptr;
  }
  Py_buffer given = {}, places = {};
  if (PyObject_GetBuffer(values, &given, ask::kSimple) != 0) return nullptr;
  if (rows != Py_None && PyObject_GetBuffer(rows, &places, ask::kSimple) != 0) {
    PyBuffer_Release(&given);
    return nullptr;
  }
  auto* data = static_cast<const std::byte*>(given.buf);
  bool fits = true, all_there = true;
  Py_ssize_t height = array->ndim > 0 ? array->shape()[0] : 0;
  Py_ssize_t row_bytes = height > 0 ? array->nbytes / height : 0;
  Py_ssize_t count = rows == Py_None ? 0 : places.len / 8;
  if (rows == Py_None) {
    fits = given.len == array->nbytes;
  } else {
    Py_ssize_t needed = 0;
    fits = places.len % 8 == 0 && reinterpret_cast<std::uintptr_t>(places.buf) % 8 == 0 &&
           !__builtin_mul_overflow(count, row_bytes, &needed) && given.len == needed;
  }
  if (fits) {
    PyThreadState* state = PyEval_SaveThread();
    if (rows == Py_None) {
      share::atomic_add(*number, array->data, data,
                        static_cast<std::size_t>(array->nbytes) / share::size_of(*number));
    } else {
      all_there = share::atomic_add_rows(
          *number, array->data, static_cast<std::size_t>(height),
          static_cast<std::size_t>(row_bytes) / share::size_of(*number),
          {static_cast<const std::int64_t*>(places.buf), static_cast<std::size_t>(count)}, data);
    }
    PyEval_RestoreThread(state);
  }
  PyBuffer_Release(&given);
  if (rows != Py_None) PyBuffer_Release(&places);
  if (!fits) {
    PyErr_SetString(
        PyExc_ValueError,
        "the number of values differs from the number of elements that they are added to");
    return nullptr;
  }
  if (!all_there) {
    return PyErr_Format(PyExc_IndexError, "rows must be numbers from 0 to %zd", height - 1);
  }
  return another(Py_None);
}

// ---- counters and snapshots ----

PyObject* count(PyObject* object, PyObject* arguments) {
  const char* name = nullptr;
  Py_ssize_t length = 0;
  long long by = 1;
  if (PyArg_ParseTuple(arguments, "s#|L:count", &name, &length, &by) == 0) return nullptr;
  share::Parameters& shared = shared_of(object);
  Result<std::size_t> counter = caught([&] {
    return shared.counter({name, static_cast<std::size_t>(length)});
  });
  if (!counter) return raise(counter.error());
  return PyLong_FromLongLong(shared.count(*counter, by));
}

PyObject* as_dict(const std::vector<share::Parameters::Counter>& counters) {
  Ref dict(PyDict_New());
  for (const share::Parameters::Counter& one : counters) {
    Ref name(
        PyUnicode_DecodeUTF8(one.name.data(), static_cast<Py_ssize_t>(one.name.size()), "replace"));
    Ref value(PyLong_FromLongLong(one.value));
    if (!dict || !name || !value || PyDict_SetItem(dict.get(), name.get(), value.get()) != 0) {
      return nullptr;
    }
  }
  return dict.release();
}

PyObject* counters(PyObject* object, void*) { return as_dict(shared_of(object).counters()); }

PyObject* snapshot(PyObject* object, PyObject* arguments) {
  using share::Parameters;
  PyObject* owner = nullptr;
  double timeout = 0;
  int tear = 0;
  if (PyArg_ParseTuple(arguments, "Odp:snapshot", &owner, &timeout, &tear) == 0) return nullptr;
  if (!(timeout >= 0)) {
    PyErr_SetString(PyExc_ValueError, "timeout: expected a number of seconds of at least 0");
    return nullptr;
  }
  std::int64_t deadline = share::kForever;
  if (timeout < 1e9) deadline = os::awake_now_ns() + static_cast<std::int64_t>(timeout * 1e9);
  Py_buffer into = {};
  if (PyObject_GetBuffer(owner, &into, ask::kWritable) != 0) return nullptr;
  Parameters& shared = shared_of(object);
  Parameters::Snapshot taken;
  bool done = false;
  while (!done) {
    Result<Parameters::Snapshot> result = unlocked([&] {
      return shared.snapshot(
          {static_cast<std::byte*>(into.buf), static_cast<std::size_t>(into.len)}, deadline,
          tear != 0 ? Parameters::IfLate::Tear : Parameters::IfLate::Refuse);
    });
    if (!result) raise(result.error());
    if (result) taken = std::move(*result);
    done = !result || taken.outcome != Outcome::Interrupted || PyErr_CheckSignals() != 0;
  }
  PyBuffer_Release(&into);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (taken.outcome == Outcome::TimedOut) {
    PyErr_Format(PyExc_TimeoutError,
                 "process %u has been inside an update, or taking a snapshot, all the time",
                 taken.pid);
    return nullptr;
  }
  Ref counted(as_dict(taken.counters));
  if (!counted) return nullptr;
  return Py_BuildValue("(OKO)", counted.get(), static_cast<unsigned long long>(taken.cut_updates),
                       taken.torn ? Py_True : Py_False);
}

PyObject* users(PyObject* object, void*) {
  std::vector<pid_t> pids = shared_of(object).gate().users();
  Ref list(PyList_New(static_cast<Py_ssize_t>(pids.size())));
  for (std::size_t i = 0; list && i < pids.size(); ++i) {
    PyObject* pid = PyLong_FromLong(pids[i]);
    if (pid == nullptr || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), pid) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* cut_updates(PyObject* object, void*) {
  return PyLong_FromUnsignedLongLong(shared_of(object).gate().cut_updates());
}
PyObject* head(PyObject* object, void*) {
  std::string_view text = shared_of(object).head();
  return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
PyObject* data_offset(PyObject* object, void*) {
  return PyLong_FromUnsignedLongLong(shared_of(object).data_offset());
}
PyObject* nbytes(PyObject* object, void*) {
  return PyLong_FromSize_t(shared_of(object).data().size());
}

PyMethodDef kMethods[] = {
    {"size", size, METH_VARARGS | METH_STATIC,
     "size(head_bytes, data_bytes)\n--\n\nThe bytes of memory for a head and data of these sizes."},
    {"lay_out", lay_out, METH_VARARGS | METH_CLASS,
     "lay_out($type, memory, head, data_bytes, /)\n--\n\n"
     "Makes parameters in zeroed memory; the caller writes the data and then calls complete()."},
    {"complete", complete, METH_NOARGS,
     "complete($self)\n--\n\nFrom now on Parameters(memory) succeeds."},
    {"attach", attach, METH_NOARGS,
     "attach($self)\n--\n\nAdds this process to `users`, as a first update does."},
    {"__enter__", enter, METH_NOARGS, "__enter__($self)\n--\n\nBegins an update."},
    {"__exit__", leave, METH_VARARGS, "__exit__($self, *exception)\n--\n\nEnds the update."},
    {"add", add, METH_VARARGS,
     "add($self, into, values, rows=None, /)\n--\n\n"
     "into += values, each element atomically, or into[rows] += values (int64)."},
    {"count", count, METH_VARARGS,
     "count($self, name, by=1, /)\n--\n\nAdds to a counter; returns its new value."},
    {"snapshot", snapshot, METH_VARARGS,
     "snapshot($self, into, timeout, tear, /)\n--\n\n"
     "Copies the data into a buffer.  Returns (counters, cut_updates, whether it is torn)."},
    {},
};
PyGetSetDef kProperties[] = {
    {"counters", guarded<counters>, nullptr, "The counters, {name: value}.", nullptr},
    {"users", guarded<users>, nullptr, "The pids of the running processes that take part.",
     nullptr},
    {"cut_updates", cut_updates, nullptr, "The number of updates cut short by a process's death.",
     nullptr},
    {"head", head, nullptr, "The head given to lay_out().", nullptr},
    {"data_offset", data_offset, nullptr, "The offset of the data in the memory.", nullptr},
    {"nbytes", nbytes, nullptr, "The size of the data in bytes.", nullptr},
    {},
};
constexpr char kDoc[] =
    "Parameters(memory)\n--\n\n"
    "Data that processes update together, in a writable buffer that they share.\n\n"
    "`with parameters:` is an update: snapshots contain it completely or not at all.";
PyType_Slot kSlots[] = {
    {Py_tp_new, slot(make_new)}, {Py_tp_dealloc, slot(dealloc)},       {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties}, {Py_tp_doc, const_cast<char*>(kDoc)}, {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Parameters", sizeof(Parameters), 0, Py_TPFLAGS_DEFAULT, kSlots};

}  // namespace

PyType_Spec* parameters_spec() { return &kSpec; }

}  // namespace pergpu::python
