// write_mean(): share/average.h for Python.
#include "python/average.h"

#include <cmath>
#include <string>
#include <vector>

#include "python/errors.h"
#include "python/object.h"
#include "share/average.h"

namespace pergpu::python {
namespace {

using share::InFile;
using share::Real;

bool real_named(PyObject* name, Real* real) {
  struct Named {
    const char* name;
    Real real;
  };
  for (const Named& one : {Named{"float16", Real::Float16}, Named{"bfloat16", Real::BFloat16},
                           Named{"float32", Real::Float32}, Named{"float64", Real::Float64}}) {
    *real = one.real;
    if (PyUnicode_CompareWithASCIIString(name, one.name) == 0) return true;
  }
  PyErr_Format(PyExc_ValueError, "dtype is %R; expected float16, bfloat16, float32 or float64",
               name);
  return false;
}

/// (descriptor, offset).
bool place(PyObject* pair, InFile* file) {
  PyObject* offset = nullptr;
  if (PyTuple_Check(pair) == 0) {
    PyErr_Format(PyExc_TypeError, "got %R; expected (descriptor, offset)", pair);
    return false;
  }
  if (PyArg_ParseTuple(pair, "iO", &file->fd, &offset) == 0) return false;
  Py_ssize_t at = as_size(offset, "offset");
  file->offset = static_cast<std::uint64_t>(at);
  return at >= 0;
}

/// (descriptor, offset, weight) of each.
bool sources(PyObject* list, std::vector<InFile>* from, std::vector<double>* weights) {
  Ref items(PySequence_Tuple(list));
  if (!items) return false;
  double whole = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(items.get()); ++i) {
    PyObject* one = PyTuple_GetItem(items.get(), i);
    InFile file;
    PyObject* offset = nullptr;
    double weight = 0;
    if (PyTuple_Check(one) == 0) {
      PyErr_Format(PyExc_TypeError, "got %R; expected (descriptor, offset, weight)", one);
      return false;
    }
    if (PyArg_ParseTuple(one, "iOd", &file.fd, &offset, &weight) == 0) return false;
    Py_ssize_t at = as_size(offset, "offset");
    if (at < 0) return false;
    file.offset = static_cast<std::uint64_t>(at);
    from->push_back(file);
    weights->push_back(weight);
    whole += weight;
  }
  if (std::isfinite(whole) && whole != 0) return true;
  PyErr_SetString(PyExc_ValueError, "the weights have no sum to divide by");
  return false;
}

}  // namespace

PyObject* write_mean(PyObject*, PyObject* arguments, PyObject* named) {
  const char* names[] = {"dtype", "sources", "count", "into", nullptr};
  PyObject *dtype = nullptr, *list = nullptr, *number = nullptr, *target = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "UOOO:write_mean", const_cast<char**>(names),
                                  &dtype, &list, &number, &target) == 0) {
    return nullptr;
  }
  Real real = Real::Float32;
  InFile into;
  if (!real_named(dtype, &real) || !place(target, &into)) return nullptr;
  Py_ssize_t count = as_size(number, "count");
  if (count < 0) return nullptr;
  if (count > PY_SSIZE_T_MAX / 8) {
    PyErr_Format(PyExc_ValueError, "count is %zd: no file has that many values", count);
    return nullptr;
  }
  Result<void> done = {};
  {
    std::vector<InFile> from;
    std::vector<double> weights;
    if (!sources(list, &from, &weights)) return nullptr;
    done = unlocked([&] {
      return share::write_mean(real, from, weights, static_cast<std::uint64_t>(count), into);
    });
  }
  return done ? another(Py_None) : raise(done.error());
}

}  // namespace pergpu::python
