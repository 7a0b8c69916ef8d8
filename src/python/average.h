// Means of arrays in files (share/average.h).
#pragma once

#include "python/limited_api.h"

namespace pergpu::python {

/// write_mean(dtype, sources, count, into) of the module.
PyObject* write_mean(PyObject* module, PyObject* arguments, PyObject* named);

}  // namespace pergpu::python
