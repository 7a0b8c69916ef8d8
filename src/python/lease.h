// A slot of a channel in the hands of Python: of a producer, which fills it (Slot), or of a
// consumer, which reads it (Item).  Both show the arrays that lie in it; each Array, and all that
// is made of one, keeps the slot from being given back.
#pragma once

#include <cstddef>

#include "python/item_layout.h"
#include "python/limited_api.h"
#include "python/object.h"

namespace pergpu::python {

/// The begin of a Slot and of an Item.
struct Lease {
  PyObject_HEAD;
  PyObject* end;  // the Producer or Consumer; owned
  std::byte* data;
  unsigned exports;  // Arrays that there are
  bool over;         // published, abandoned or released: no more Arrays are made
  Plan plan;
};

/// A reference to a new one with that data, of a type that begins as Lease; the rest is zero.
PyObject* make_lease(PyTypeObject* type, PyObject* end, std::byte* data, Plan plan);
/// What a dealloc does at the end of its own work.
void end_lease(PyObject* object);

// What both types have: getset, methods and slots.
PyObject* lease_array(PyObject* object, void*);
PyObject* lease_value(PyObject* object, void*);
PyObject* lease_nbytes(PyObject* object, void*);
PyObject* lease_interface(PyObject* object, void*);
PyObject* lease_keys(PyObject* object, PyObject*);
PyObject* lease_numpy(PyObject* object, PyObject*);
PyObject* lease_torch(PyObject* object, PyObject*);
PyObject* lease_dlpack(PyObject* object, PyObject* arguments, PyObject* named);
PyObject* lease_dlpack_device(PyObject* object, PyObject*);
PyObject* lease_item(PyObject* object, PyObject* at);
int lease_set_item(PyObject* object, PyObject* at, PyObject* value);
Py_ssize_t lease_length(PyObject* object);
PyObject* lease_iterator(PyObject* object);
int lease_buffer(PyObject* object, Py_buffer* view, int flags);

#define PERGPU_LEASE_METHODS                                                                      \
  {"keys", lease_keys, METH_NOARGS, "keys($self)\n--\n\nThe names of a dict's arrays, a tuple."}, \
      {"numpy", lease_numpy, METH_NOARGS,                                                         \
       "numpy($self)\n--\n\nvalue with numpy arrays of the same memory."},                        \
      {"torch", lease_torch, METH_NOARGS,                                                         \
       "torch($self)\n--\n\nvalue with tensors of the same memory."},                             \
      {"__dlpack__", method(lease_dlpack), METH_VARARGS | METH_KEYWORDS,                          \
       "__dlpack__($self, **options)\n--\n\n__dlpack__() of the array."},                         \
  {                                                                                               \
    "__dlpack_device__", lease_dlpack_device, METH_NOARGS,                                        \
        "__dlpack_device__($self)\n--\n\n(1, 0): the CPU's memory."                               \
  }
#define PERGPU_LEASE_PROPERTIES                                                                   \
  {"array", lease_array, nullptr, "The Array.  TypeError: there are several.", nullptr},          \
      {"value", lease_value, nullptr, "The Array, or the tuple or dict of Arrays.", nullptr},     \
      {"nbytes", lease_nbytes, nullptr, "The size of the arrays in bytes.", nullptr}, {           \
    "__array_interface__", lease_interface, nullptr, "The array interface of the array.", nullptr \
  }
#define PERGPU_LEASE_SLOTS                                                                \
  {Py_bf_getbuffer, slot(lease_buffer)}, {Py_mp_length, slot(lease_length)},              \
      {Py_mp_subscript, slot(lease_item)}, {Py_mp_ass_subscript, slot(lease_set_item)}, { \
    Py_tp_iter, slot(lease_iterator)                                                      \
  }

}  // namespace pergpu::python
