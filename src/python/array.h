// Array: a typed view of any object with a buffer, for every library that computes with arrays.
#pragma once

#include <cstddef>
#include <vector>

#include "python/element.h"
#include "python/limited_api.h"

namespace pergpu::python {

struct Array {
  PyObject_VAR_HEAD;
  Py_buffer base;        // keeps the memory
  PyObject* on_release;  // nullptr: none, or it was called
  unsigned forks;        // those of the process that is to call it
  bool released;         // by the collector of garbage, which may show it to others once more
  std::byte* data;
  Py_ssize_t nbytes;
  const Element* element;
  int ndim;
  Py_ssize_t sizes[1];  // the shape, then the strides in bytes

  Py_ssize_t* shape() { return sizes; }
  Py_ssize_t* strides() { return sizes + ndim; }
  bool readonly() const { return base.readonly != 0; }
};

/// Of a buffer that its holder gives away; the part lies in it, and where such numbers may lie.
/// nullptr: an exception is set, and the buffer is the caller's.
PyObject* make_array(PyTypeObject* type, const Py_buffer& base, Py_ssize_t offset,
                     const Element& element, const std::vector<Py_ssize_t>& shape);

/// It may be looked at; else a BufferError is set.
bool exportable(Array* array);

}  // namespace pergpu::python
