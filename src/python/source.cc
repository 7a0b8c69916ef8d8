// Buffers come first, as they cost least.  A tensor of torch has none, but on the CPU its numpy(),
// which is far faster than its DLPack, and knows bool in old versions; DLPack has bfloat16.
#include "python/source.h"

#include <cstring>
#include <utility>

#include "python/array.h"
#include "python/dlpack_tensor.h"
#include "python/object.h"

namespace pergpu::python {
namespace {

/// `inner`: the number of last dimensions that lie row by row, `block` bytes of them.
std::byte* copy(std::byte* to, const std::byte* from, const Py_ssize_t* shape,
                const Py_ssize_t* strides, std::size_t outer, std::size_t block) {
  if (outer == 0) {
    std::memcpy(to, from, block);
    return to + block;
  }
  for (Py_ssize_t i = 0; i < *shape; ++i) {
    to = copy(to, from + i * *strides, shape + 1, strides + 1, outer - 1, block);
  }
  return to;
}

bool is_other_order(const char* format) { return *format == '>' || *format == '!'; }

}  // namespace

Source::Source(Source&& other) noexcept
    : buffer_(std::exchange(other.buffer_, Py_buffer{})),
      capsule_(std::exchange(other.capsule_, nullptr)),
      element_(other.element_),
      data_(other.data_),
      shape_(std::move(other.shape_)),
      strides_(std::move(other.strides_)),
      nbytes_(other.nbytes_) {}

Source& Source::operator=(Source&& other) noexcept {
  std::swap(buffer_, other.buffer_);
  std::swap(capsule_, other.capsule_);
  std::swap(element_, other.element_);
  std::swap(data_, other.data_);
  std::swap(shape_, other.shape_);
  std::swap(strides_, other.strides_);
  std::swap(nbytes_, other.nbytes_);
  return *this;
}

Source::~Source() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  Py_DecRef(capsule_);  // calls the deleter, as it still has its name
}

/// One of numpy.ma.  The last type that was none is remembered: mostly it is the next one's, too.
bool Source::is_masked(PyObject* value) {
  static PyTypeObject* plain = nullptr;
  PyTypeObject* type = Py_TYPE(value);
  if (type == plain) return false;
  if (PyObject_HasAttrString(value, "mask") != 0 && PyObject_HasAttrString(value, "filled") != 0) {
    return true;
  }
  Py_INCREF(type);
  Py_XDECREF(plain);
  plain = type;
  return false;
}

bool Source::open(PyObject* value, const char* what, PyTypeObject* array) {
  if (is_masked(value)) {
    PyErr_Format(
        PyExc_TypeError,
        "%s is a masked array, and its mask would be lost: pass filled(), or data and mask", what);
    return false;
  }
  if (open_buffer(value, what, array)) return true;
  if (PyErr_Occurred() != nullptr) return false;
  return open_as_numpy(value, what, array) || open_dlpack(value, what);
}

/// False, without an exception: it cannot be had so.
bool Source::open_as_numpy(PyObject* value, const char* what, PyTypeObject* array) {
  bool has_both = PyObject_HasAttrString(value, "numpy") != 0 &&
                  PyObject_HasAttrString(value, "__dlpack__") != 0;
  Ref same(has_both ? PyObject_CallMethod(value, "numpy", nullptr) : nullptr);
  if (same && open_buffer(same.get(), what, array)) return true;
  PyErr_Clear();
  return false;
}

/// False without an exception: it has no buffer.
bool Source::open_buffer(PyObject* value, const char* what, PyTypeObject* array) {
  if (PyObject_GetBuffer(value, &buffer_, ask::kStrides | ask::kFormat) != 0) {
    PyErr_Clear();
    buffer_ = {};
    return false;
  }
  const char* format = buffer_.format == nullptr ? "B" : buffer_.format;
  element_ =
      Py_TYPE(value) == array ? as<Array>(value)->element : element_of(format, buffer_.itemsize);
  if (element_ == nullptr) {
    PyErr_Format(PyExc_TypeError, "%s holds elements of format '%s'%s; expected numbers", what,
                 format, is_other_order(format) ? ", in another byte order" : "");
    return false;
  }
  data_ = static_cast<const std::byte*>(buffer_.buf);
  if (buffer_.ndim > 0) {
    shape_.assign(buffer_.shape, buffer_.shape + buffer_.ndim);
    if (buffer_.strides != nullptr) {
      strides_.assign(buffer_.strides, buffer_.strides + buffer_.ndim);
    }
  }
  measure();
  return true;
}

bool Source::open_dlpack(PyObject* value, const char* what) {
  if (PyObject_HasAttrString(value, "__dlpack__") == 0) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected an array", what, Py_TYPE(value));
    return false;
  }
  capsule_ = PyObject_CallMethod(value, "__dlpack__", nullptr);
  if (capsule_ == nullptr) return false;
  auto* managed =
      static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule_, DLManagedTensor::kName));
  if (managed == nullptr) return false;
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.device.device_type != kCpu) {
    PyErr_Format(PyExc_TypeError,
                 "%s is not in CPU memory: pass `.cpu()`, since other processes have no access to "
                 "GPU memory",
                 what);
    return false;
  }
  element_ = element_of(tensor.dtype.code, tensor.dtype.bits);
  if (element_ == nullptr || tensor.dtype.lanes != 1) {
    PyErr_Format(PyExc_TypeError,
                 "%s holds numbers of a type that can't be passed (DLPack %d, %d bits)", what,
                 int{tensor.dtype.code}, int{tensor.dtype.bits});
    return false;
  }
  data_ = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  shape_.assign(tensor.shape, tensor.shape + tensor.ndim);
  if (tensor.strides != nullptr) {
    for (int i = 0; i < tensor.ndim; ++i) strides_.push_back(tensor.strides[i] * element_->size);
  }
  measure();
  return true;
}

void Source::measure() {
  nbytes_ = static_cast<std::size_t>(element_->size);
  for (Py_ssize_t count : shape_) nbytes_ *= static_cast<std::size_t>(count);
}

void Source::copy_to(std::byte* to) const {
  if (nbytes_ == 0) return;
  auto block = static_cast<std::size_t>(element_->size);
  std::size_t outer = strides_.size();
  while (outer > 0 &&
         (shape_[outer - 1] == 1 || strides_[outer - 1] == static_cast<Py_ssize_t>(block))) {
    block *= static_cast<std::size_t>(shape_[--outer]);
  }
  if (strides_.empty()) block = nbytes_;
  copy(to, data_, shape_.data(), strides_.data(), outer, block);
}

}  // namespace pergpu::python
