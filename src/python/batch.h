// Batch: the slot of a loader that a caller holds, as a buffer of bytes.
#pragma once

#include <memory>

#include "python/limited_api.h"
#include "share/loader.h"

namespace pergpu::python {

/// A new reference, or nullptr and an exception; then the slot is free again.
PyObject* make_batch(PyTypeObject* type, std::shared_ptr<share::Loader> loader,
                     const share::Loader::Batch& batch);

}  // namespace pergpu::python
