// Region: memory that is mapped, as a buffer of bytes.
#pragma once

#include <variant>

#include "python/limited_api.h"
#include "share/file_mapping.h"
#include "share/segment.h"

namespace pergpu::python {

using Pages = std::variant<share::Mapping, share::FileMapping>;

/// false: an exception is set.
bool view_named(PyObject* name, share::View* view);

/// A new reference, or nullptr and an exception.
PyObject* make_region(PyTypeObject* type, Pages pages, share::View view);

/// map_file(fd, offset, nbytes, view) of the module.
PyObject* map_file(PyObject* module, PyObject* arguments, PyObject* named);

}  // namespace pergpu::python
