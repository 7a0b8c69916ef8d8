// What an array is made of: the names, and how each protocol calls them.
#pragma once

#include <cstdint>

#include "python/limited_api.h"

namespace pergpu::python {

struct Element {
  const char* name;    // of numpy; "bfloat16" and "float8_…" of ml_dtypes and torch
  const char* format;  // of the buffer protocol (PEP 3118)
  const char* type;    // of __array_interface__
  int size;
  int alignment;
  std::uint8_t code;  // DLDataTypeCode
};

/// nullptr: an exception is set, which has all names.
const Element* element_named(PyObject* name);
/// Of a format of the buffer protocol, in this machine's order of bytes.  nullptr: not supported.
const Element* element_of(const char* format, Py_ssize_t size);
/// Of DLPack.  nullptr: not supported.
const Element* element_of(std::uint8_t code, int bits);

}  // namespace pergpu::python
