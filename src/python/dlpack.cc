// The protocol is that of the Python array API, 2023.12.
//
// A capsule is called "dltensor", or "dltensor_versioned" where the consumer says that it knows
// version 1; only that one can say that memory is read-only.  Who takes the tensor out of it gives
// it the name "used_…" and calls `deleter` at the end, in any thread, with the interpreter's lock
// or without; a capsule that keeps its name calls it itself.
#include "python/dlpack.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "python/array.h"
#include "python/dlpack_tensor.h"
#include "python/errors.h"
#include "python/object.h"

namespace pergpu::python {
namespace {

constexpr std::size_t kAlignment = 64;  // what XLA and SIMD code like

/// What a consumer gets; `array` or `copy` is what it looks at.
template <typename Tensor>
struct Loan {
  Tensor tensor;
  PyObject* array;
  void* copy;
  std::int64_t sizes[1];  // the shape, then the strides
};

template <typename Tensor>
void end(Tensor* tensor) {
  auto* loan = static_cast<Loan<Tensor>*>(tensor->manager_ctx);
  // When the interpreter goes down no thread may ask for its lock, so the array is left as it is.
  if (loan->array != nullptr && Py_IsInitialized() != 0) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DecRef(loan->array);
    PyGILState_Release(state);
  }
  std::free(loan->copy);
  std::free(loan);
}

/// Of a capsule whose tensor was not taken.
template <typename Tensor>
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, Tensor::kName) == 0) return;
  end(static_cast<Tensor*>(PyCapsule_GetPointer(capsule, Tensor::kName)));
}

/// nullptr: no memory.
void* copied(Array* array) {
  std::size_t size = static_cast<std::size_t>(array->nbytes);
  std::size_t whole = (size + kAlignment - 1) / kAlignment * kAlignment;
  void* copy = std::aligned_alloc(kAlignment, whole);
  if (copy == nullptr) return nullptr;
  PyThreadState* state = PyEval_SaveThread();
  std::memcpy(copy, array->data, size);
  PyEval_RestoreThread(state);
  return copy;
}

template <typename Tensor>
PyObject* lend(PyObject* object, bool copy, Tensor** tensor) {
  Array* array = as<Array>(object);
  const Element& element = *array->element;
  std::size_t ndim = static_cast<std::size_t>(array->ndim);
  void* at = std::calloc(1, sizeof(Loan<Tensor>) + 2 * ndim * sizeof(std::int64_t));
  if (at == nullptr) return PyErr_NoMemory();
  auto* loan = new (at) Loan<Tensor>{};
  for (std::size_t i = 0; i < ndim; ++i) {
    loan->sizes[i] = array->shape()[i];
    loan->sizes[ndim + i] = array->strides()[i] / element.size;
  }
  bool empty = array->nbytes == 0;
  if (copy && !empty && (loan->copy = copied(array)) == nullptr) {
    std::free(loan);
    return PyErr_NoMemory();
  }
  if (!copy) loan->array = another(object);
  loan->tensor.manager_ctx = loan;
  loan->tensor.deleter = end<Tensor>;
  loan->tensor.dl_tensor = {
      .data = empty  ? nullptr
              : copy ? loan->copy
                     : array->data,  // "NULL if it has no elements"
      .device = {kCpu, 0},
      .ndim = array->ndim,
      .dtype = {element.code, static_cast<std::uint8_t>(element.size * 8), 1},
      .shape = loan->sizes,
      .strides = loan->sizes + ndim,
      .byte_offset = 0,
  };
  *tensor = &loan->tensor;
  PyObject* capsule = PyCapsule_New(&loan->tensor, Tensor::kName, end_capsule<Tensor>);
  if (capsule == nullptr) end(&loan->tensor);
  return capsule;
}

/// A tuple of two numbers; false: an exception is set.
bool read_pair(PyObject* pair, const char* what, Py_ssize_t* first, Py_ssize_t* second) {
  if (PyTuple_Check(pair) == 0 || PyTuple_Size(pair) != 2) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected None or two numbers", what, pair);
    return false;
  }
  *first = as_size(PyTuple_GetItem(pair, 0), what);
  if (*first < 0) return false;
  *second = as_size(PyTuple_GetItem(pair, 1), what);
  return *second >= 0;
}

/// BufferError where what is asked for cannot be had here.
bool on_this_device(PyObject* stream, PyObject* device) {
  if (stream != Py_None) {
    PyErr_Format(PyExc_BufferError, "stream is %R; expected None, since the memory is the CPU's",
                 stream);
    return false;
  }
  if (device == Py_None) return true;
  Py_ssize_t type = 0, index = 0;
  if (!read_pair(device, "dl_device", &type, &index)) return false;
  if (type == kCpu && index == 0) return true;
  PyErr_Format(PyExc_BufferError, "dl_device is %S: the memory is the CPU's, (1, 0)", device);
  return false;
}

}  // namespace

PyObject* dlpack(PyObject* object, PyObject* arguments, PyObject* named) {
  const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy_asked = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|$OOOO:__dlpack__", const_cast<char**>(names),
                                  &stream, &version, &device, &copy_asked) == 0) {
    return nullptr;
  }
  int copy = copy_asked == Py_None ? 0 : PyObject_IsTrue(copy_asked);
  if (copy < 0 || !on_this_device(stream, device)) return nullptr;
  Py_ssize_t major = 0, minor = 0;
  if (version != Py_None && !read_pair(version, "max_version", &major, &minor)) return nullptr;
  Array* array = as<Array>(object);
  if (!exportable(array)) return nullptr;
  bool readonly = array->readonly() && copy == 0;
  if (major >= 1) {
    DLManagedTensorVersioned* tensor = nullptr;
    PyObject* capsule = lend(object, copy != 0, &tensor);
    if (capsule == nullptr) return nullptr;
    tensor->version = {1, major == 1 && minor == 0 ? 0U : 1U};
    tensor->flags = (readonly ? kReadOnly : 0) | (copy != 0 ? kIsCopied : 0);
    return capsule;
  }
  if (readonly) {
    PyErr_SetString(PyExc_BufferError,
                    "the memory is read-only, which DLPack can't express before max_version=(1, "
                    "0): pass copy=True, or map it as \"cow\"");
    return nullptr;
  }
  DLManagedTensor* tensor = nullptr;
  return lend(object, copy != 0, &tensor);
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", kCpu, 0); }

}  // namespace pergpu::python
