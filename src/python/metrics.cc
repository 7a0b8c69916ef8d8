// MetricsTable and MetricsWriter: the table of metrics (share/metrics_table.h) in an object's
// buffer.
//
// A report is made in each step of a training, so names are known by the address of their text:
// that of a keyword is the same in each call.
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <string>

#include "os/clock.h"
#include "python/errors.h"
#include "python/object.h"
#include "share/metrics_writer.h"

namespace pergpu::python {
namespace {

using share::JobMetrics;
using share::MetricReport;
using share::MetricsWriter;
using share::ReportedMetric;

constexpr std::size_t kUnfit = 64;                    // texts that are remembered as no names
constexpr double kLargestWhole = 9007199254740992.0;  // 2^53

struct Table {
  PyObject_HEAD;
  Py_buffer memory;
  std::optional<share::MetricsTable> table;
};

struct Known {
  PyObject* text = nullptr;  // owned
  std::optional<std::uint32_t> name = std::nullopt;
};

struct Writer {
  PyObject_HEAD;
  PyObject* table;                      // owned; keeps the memory
  std::optional<MetricsWriter> writer;  // empty: released
  std::array<Known, share::kMetricNames + kUnfit> known;
  std::size_t next_unfit;
  PyObject* step;  // owned: "step"
};

PyObject* text_of(const std::string& utf8) {
  return PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace");
}

// ---- the table ----

PyObject* new_table(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* names[] = {"memory", "key", nullptr};
  PyObject *owner = nullptr, *key = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "O|O:MetricsTable", const_cast<char**>(names),
                                  &owner, &key) == 0) {
    return nullptr;
  }
  std::string text;
  if (key != Py_None && PyUnicode_Check(key) == 0) {
    PyErr_Format(PyExc_TypeError, "key is %R; expected a string", key);
    return nullptr;
  }
  if (key != Py_None && !as_utf8(key, &text)) return nullptr;
  Ref object(PyType_GenericAlloc(type, 0));
  if (!object) return nullptr;
  Table* self = as<Table>(object.get());
  new (&self->table) std::optional<share::MetricsTable>();
  if (PyObject_GetBuffer(owner, &self->memory, ask::kWritable) != 0) return nullptr;
  auto* memory = static_cast<std::byte*>(self->memory.buf);
  auto size = static_cast<std::size_t>(self->memory.len);
  Result<share::MetricsTable> table = caught([&] {
    return key == Py_None ? share::MetricsTable::open(memory, size)
                          : share::MetricsTable::create(memory, size, text);
  });
  if (!table) return raise(table.error());
  self->table = std::move(*table);
  return object.release();
}

void end_table(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  as<Table>(object)->table.~optional();
  if (as<Table>(object)->memory.obj != nullptr) PyBuffer_Release(&as<Table>(object)->memory);
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

PyObject* number_of(double value, bool is_whole) {
  if (is_whole && std::abs(value) <= kLargestWhole) {
    return PyLong_FromLongLong(static_cast<long long>(value));
  }
  return PyFloat_FromDouble(value);
}

PyObject* step_of(double step) {
  if (std::isnan(step)) return another(Py_None);
  return number_of(step, std::trunc(step) == step);
}

PyObject* at_of(bool is_there, const ReportedMetric::At& at) {
  if (!is_there) return another(Py_None);
  Ref value(number_of(at.value, at.is_whole));
  Ref step(step_of(at.step));
  return value && step ? PyTuple_Pack(2, value.get(), step.get()) : nullptr;
}

PyObject* metrics_of(const JobMetrics& job) {
  Ref all(PyDict_New());
  for (const ReportedMetric& metric : job.metrics) {
    Ref name(text_of(metric.name));
    Ref last(at_of(true, metric.last));
    Ref least(at_of(metric.has_range, metric.least));
    Ref greatest(at_of(metric.has_range, metric.greatest));
    if (!all || !name || !last || !least || !greatest) return nullptr;
    Ref whole(PyTuple_Pack(3, last.get(), least.get(), greatest.get()));
    if (!whole || PyDict_SetItem(all.get(), name.get(), whole.get()) != 0) return nullptr;
  }
  return all.release();
}

PyObject* job_of(const JobMetrics& job) {
  Ref place(text_of(job.place));
  Ref metrics(metrics_of(job));
  if (!place || !metrics) return nullptr;
  return Py_BuildValue("(LLLOLLKOO)", static_cast<long long>(job.job),
                       static_cast<long long>(job.attempt), static_cast<long long>(job.pid),
                       job.alive ? Py_True : Py_False, static_cast<long long>(job.began_ns),
                       static_cast<long long>(job.reported_ns),
                       static_cast<unsigned long long>(job.reports), place.get(), metrics.get());
}

PyObject* read(PyObject* object, PyObject*) {
  std::vector<JobMetrics> jobs;
  Result<void> done = caught([&]() -> Result<void> {
    jobs = as<Table>(object)->table->read();
    return {};
  });
  if (!done) return raise(done.error());
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (const JobMetrics& job : jobs) {
    Ref one(job_of(job));
    if (!one || PyList_Append(list.get(), one.get()) != 0) return nullptr;
  }
  return list.release();
}

PyObject* nbytes_of(PyObject*, PyObject* slots) {
  Py_ssize_t count = as_size(slots, "slots");
  if (count < 0) return nullptr;
  if (count < 1 || count > 1 << 20) {
    PyErr_Format(PyExc_ValueError, "slots is %zd; expected 1 to %d", count, 1 << 20);
    return nullptr;
  }
  return PyLong_FromUnsignedLongLong(share::MetricsTable::bytes(static_cast<std::uint32_t>(count)));
}

PyObject* key_of(PyObject* object, void*) { return text_of(as<Table>(object)->table->key()); }

// ---- a process's own slot ----

PyObject* make_writer(PyObject* table, PyObject* arguments, PyObject* named) {
  const char* names[] = {"job", "attempt", "place", nullptr};
  long long job = 0, attempt = 0;
  PyObject* place = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "LLU:writer", const_cast<char**>(names), &job,
                                  &attempt, &place) == 0) {
    return nullptr;
  }
  MetricsWriter::Identity identity{.job = job, .attempt = attempt};
  if (!as_utf8(place, &identity.place)) return nullptr;
  os::RealClock clock;
  Result<MetricsWriter> writer = caught([&] {
    return MetricsWriter::claim(*as<Table>(table)->table, identity, clock.now().wall_ns);
  });
  if (!writer) return raise(writer.error());
  Ref step(PyUnicode_InternFromString("step"));
  PyTypeObject* type = types_of(table)->metrics_writer;
  PyObject* object = step ? PyType_GenericAlloc(type, 0) : nullptr;
  if (object == nullptr) return nullptr;
  Writer* self = as<Writer>(object);
  self->table = another(table);
  new (&self->writer) std::optional<MetricsWriter>(std::move(*writer));
  new (&self->known) decltype(self->known)();
  self->step = step.release();
  return object;
}

void end_writer(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Writer* self = as<Writer>(object);
  self->writer.~optional();
  for (Known& known : self->known) Py_DecRef(known.text);
  Py_DecRef(self->step);
  Py_DecRef(self->table);
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

/// false: an exception is set.
bool learn(Writer* self, PyObject* text, std::optional<std::uint32_t>* name) {
  std::string words;
  if (!as_utf8(text, &words)) return false;
  auto known =
      caught([&]() -> Result<std::optional<std::uint32_t>> { return self->writer->name(words); });
  if (!known) {
    raise(known.error());
    return false;
  }
  *name = *known;
  std::size_t at = *name ? **name : share::kMetricNames + self->next_unfit++ % kUnfit;
  Py_IncRef(text);
  Py_DecRef(std::exchange(self->known[at].text, text));
  self->known[at].name = *name;
  return true;
}

/// `hint`: where the one before was found.
bool find(Writer* self, PyObject* text, std::size_t* hint, std::optional<std::uint32_t>* name) {
  for (std::size_t i = 0; i < self->known.size(); ++i) {
    std::size_t at = (*hint + 1 + i) % self->known.size();
    if (self->known[at].text == text) {
      *hint = at;
      *name = self->known[at].name;
      return true;
    }
  }
  return learn(self, text, name);
}

/// false: it is no number, as far as the table goes.
bool as_number(PyObject* value, double* number, bool* is_whole) {
  *is_whole = Py_TYPE(value) == &PyLong_Type;
  if (Py_TYPE(value) == &PyFloat_Type) {
    *number = PyFloat_AsDouble(value);
    return true;
  }
  if (!*is_whole) return false;
  *number = PyLong_AsDouble(value);
  if (*number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return true;
}

PyObject* put(PyObject* object, PyObject* values) {
  Writer* self = as<Writer>(object);
  if (PyDict_Check(values) == 0) {
    PyErr_Format(PyExc_TypeError, "got %R; expected a dict", values);
    return nullptr;
  }
  if (!self->writer) return another(Py_False);
  std::array<MetricReport, share::kMetricNames> reports;
  std::size_t count = 0, hint = self->known.size() - 1;
  double step = std::numeric_limits<double>::quiet_NaN();
  PyObject *text = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(values, &at, &text, &value) != 0;) {
    MetricReport report;
    std::optional<std::uint32_t> name;
    if (!as_number(value, &report.value, &report.is_whole)) continue;
    if (PyUnicode_Check(text) == 0) {
      PyErr_Format(PyExc_TypeError, "%R is not a name; expected a string", text);
      return nullptr;
    }
    if (!find(self, text, &hint, &name)) return nullptr;
    bool is_step = text == self->step || PyUnicode_CompareWithASCIIString(text, "step") == 0;
    if (is_step) step = report.value;
    if (name && count < reports.size()) {
      report.name = *name;
      reports[count++] = report;
    }
  }
  os::RealClock clock;
  std::span<const MetricReport> all(reports.data(), count);
  bool done = self->writer->report(all, step, clock.now().wall_ns);
  return another(done ? Py_True : Py_False);
}

PyObject* release(PyObject* object, PyObject*) {
  as<Writer>(object)->writer.reset();
  return another(Py_None);
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "use MetricsTable.writer() to get a MetricsWriter");
  return nullptr;
}

PyMethodDef kTableMethods[] = {
    {"bytes", nbytes_of, METH_O | METH_STATIC,
     "bytes(slots, /)\n--\n\nThe bytes that a table of N slots needs."},
    {"read", read, METH_NOARGS,
     "read($self)\n--\n\n"
     "For each process that has reported: (job, attempt, pid, alive, began_ns, reported_ns,\n"
     "reports, place, {name: (last, least, greatest)}).  Each of these three is (value, step)."},
    {"writer", method(make_writer), METH_VARARGS | METH_KEYWORDS,
     "writer($self, job, attempt, place)\n--\n\nA slot for this process."},
    {},
};
PyGetSetDef kTableProperties[] = {
    {"key", key_of, nullptr, "The key that it was created with.", nullptr},
    {},
};
constexpr char kTableDoc[] =
    "MetricsTable(memory, key=None)\n--\n\n"
    "The newest metrics of many processes, in a writable buffer that they share.\n\n"
    "`key` makes a new table, in zeroed memory.";
PyType_Slot kTableSlots[] = {
    {Py_tp_new, slot(new_table)},
    {Py_tp_dealloc, slot(end_table)},
    {Py_tp_methods, kTableMethods},
    {Py_tp_getset, kTableProperties},
    {Py_tp_doc, const_cast<char*>(kTableDoc)},
    {0, nullptr},
};
PyType_Spec kTableSpec = {"pergpu._share.MetricsTable", sizeof(Table), 0, Py_TPFLAGS_DEFAULT,
                          kTableSlots};

PyMethodDef kWriterMethods[] = {
    {"put", put, METH_O,
     "put($self, values, /)\n--\n\n"
     "Writes the numbers of a dict, all at once.  False: the slot doesn't belong to this process."},
    {"release", release, METH_NOARGS,
     "release($self)\n--\n\nWrites nothing more; the values stay."},
    {},
};
PyType_Slot kWriterSlots[] = {
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_dealloc, slot(end_writer)},
    {Py_tp_methods, kWriterMethods},
    {Py_tp_doc, const_cast<char*>("The slot of this process in a MetricsTable.")},
    {0, nullptr},
};
PyType_Spec kWriterSpec = {"pergpu._share.MetricsWriter", sizeof(Writer), 0, Py_TPFLAGS_DEFAULT,
                           kWriterSlots};

}  // namespace

PyType_Spec* metrics_table_spec() { return &kTableSpec; }
PyType_Spec* metrics_writer_spec() { return &kWriterSpec; }

}  // namespace pergpu::python
