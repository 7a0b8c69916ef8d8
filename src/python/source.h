// Arrays that users hand over, of whichever library: read where they lie.
#pragma once

#include <cstddef>
#include <vector>

#include "python/element.h"
#include "python/limited_api.h"

namespace pergpu::python {

/// One of them, kept as it is while this is there.
class Source {
 public:
  Source() = default;
  Source(Source&& other) noexcept;
  Source& operator=(Source&& other) noexcept;
  ~Source();

  /// Of an object with a buffer (numpy's arrays, bytes, Array), or with __dlpack__ (torch, jax) on
  /// the CPU.  `array` is the type of Array.  Masked arrays are refused.  False: an exception is
  /// set, which calls it `what`.
  bool open(PyObject* value, const char* what, PyTypeObject* array);

  const Element& element() const { return *element_; }
  const std::vector<Py_ssize_t>& shape() const { return shape_; }
  std::size_t nbytes() const { return nbytes_; }
  /// Row by row.  Needs no interpreter lock.
  void copy_to(std::byte* to) const;

 private:
  static bool is_masked(PyObject* value);
  bool open_buffer(PyObject* value, const char* what, PyTypeObject* array);
  bool open_as_numpy(PyObject* value, const char* what, PyTypeObject* array);
  bool open_dlpack(PyObject* value, const char* what);
  void measure();

  Py_buffer buffer_ = {};        // buffer_.obj: nullptr where it is none
  PyObject* capsule_ = nullptr;  // owned
  const Element* element_ = nullptr;
  const std::byte* data_ = nullptr;
  std::vector<Py_ssize_t> shape_;
  std::vector<Py_ssize_t> strides_;  // in bytes; empty: row by row
  std::size_t nbytes_ = 0;
};

}  // namespace pergpu::python
