// DLPack: how libraries hand tensors to each other without a copy.
#pragma once

#include "python/limited_api.h"

namespace pergpu::python {

/// __dlpack__ and __dlpack_device__ of an Array.
PyObject* dlpack(PyObject* object, PyObject* arguments, PyObject* named);
PyObject* dlpack_device(PyObject* object, PyObject* none);

}  // namespace pergpu::python
