// Errors of pergpu as exceptions of Python, and numbers and text that Python gives.
#pragma once

#include <string>

#include "python/limited_api.h"
#include "result.h"

namespace pergpu::python {

/// Sets the exception: ValueError for Invalid, MemoryError where there was too little of it, else
/// the OSError of the error number.  Returns nullptr.
PyObject* raise(const Error& error);

/// `object` as a number from 0 on.  -1: an exception is set, which calls it `what`.
Py_ssize_t as_size(PyObject* object, const char* what);

/// Text as UTF-8; what is none is written as "?".  False: an exception is set.
bool as_utf8(PyObject* text, std::string* written);

}  // namespace pergpu::python
