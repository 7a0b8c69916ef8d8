// Whatever is made of an Array holds a reference to it: a memoryview (which is what numpy holds), a
// DLPack capsule.  So its end is the end of all of them, and that is when on_release is called: in
// dealloc, or, where it is in a cycle of garbage, by finalize, for what it would call is taken
// apart behind that.  Not in a process that was forked from the one that made it, where the memory
// is still in use by that one; and not when the interpreter is going down, as little of what it
// would call is there.
#include "python/array.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "python/dlpack.h"
#include "python/errors.h"
#include "python/forks.h"
#include "python/object.h"

namespace pergpu::python {
namespace {

constexpr int kMostDimensions = 64;  // PyBUF_MAX_NDIM

/// Shape and strides, before there is an object to put them in.
struct Layout {
  int ndim = 0;
  Py_ssize_t nbytes = 0;
  std::array<Py_ssize_t, kMostDimensions> shape;
  std::array<Py_ssize_t, kMostDimensions> strides;
};

/// Rows one behind the other.  false: there are more bytes than can be addressed.  A dimension of 0
/// counts as 1 for that, as with numpy: its strides have to be numbers, too.
bool lay_out(Py_ssize_t item_size, Layout* layout) {
  Py_ssize_t step = item_size;
  bool empty = false;
  for (int i = layout->ndim; i-- > 0;) {
    Py_ssize_t count = layout->shape[static_cast<std::size_t>(i)];
    layout->strides[static_cast<std::size_t>(i)] = step;
    if (count == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(step, count, &step)) {
      return false;
    }
  }
  layout->nbytes = empty ? 0 : step;
  return true;
}

bool read_shape(PyObject* given, const Element& element, Layout* layout) {
  Ref shape(PySequence_Tuple(given));
  if (!shape) return false;
  Py_ssize_t ndim = PyTuple_Size(shape.get());
  if (ndim > kMostDimensions) {
    PyErr_Format(PyExc_ValueError, "shape has %zd dimensions; expected at most %d", ndim,
                 kMostDimensions);
    return false;
  }
  layout->ndim = static_cast<int>(ndim);
  for (Py_ssize_t i = 0; i < ndim; ++i) {
    Py_ssize_t count = as_size(PyTuple_GetItem(shape.get(), i), "a dimension");
    if (count < 0) return false;
    layout->shape[static_cast<std::size_t>(i)] = count;
  }
  if (lay_out(element.size, layout)) return true;
  PyErr_Format(PyExc_ValueError, "shape is %S of %s: more than %zd bytes", shape.get(),
               element.name, PY_SSIZE_T_MAX);
  return false;
}

bool fits(const Py_buffer& base, Py_ssize_t offset, const Element& element, Py_ssize_t nbytes) {
  if (offset > base.len || nbytes > base.len - offset) {
    PyErr_Format(PyExc_ValueError, "%zd bytes at offset %zd don't fit in a buffer of %zd bytes",
                 nbytes, offset, base.len);
    return false;
  }
  std::uintptr_t address = reinterpret_cast<std::uintptr_t>(base.buf) + std::uintptr_t(offset);
  if (nbytes == 0 || address % std::uintptr_t(element.alignment) == 0) return true;
  PyErr_Format(PyExc_ValueError, "offset %zd is the address %p; for %s it must be a multiple of %d",
               offset, reinterpret_cast<void*>(address), element.name, element.alignment);
  return false;
}

PyObject* make(PyTypeObject* type, const Py_buffer& base, Py_ssize_t offset, const Element& element,
               const Layout& layout) {
  PyObject* object = PyType_GenericAlloc(type, 2 * layout.ndim);
  if (object == nullptr) return nullptr;
  Array* self = as<Array>(object);
  self->base = base;
  self->data = static_cast<std::byte*>(base.buf) + offset;
  self->nbytes = layout.nbytes;
  self->element = &element;
  self->ndim = layout.ndim;
  for (int i = 0; i < layout.ndim; ++i) {
    self->shape()[i] = layout.shape[static_cast<std::size_t>(i)];
    self->strides()[i] = layout.strides[static_cast<std::size_t>(i)];
  }
  return object;
}

PyObject* make_new(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* names[] = {"base", "offset", "shape", "dtype", "on_release", nullptr};
  PyObject *owner = nullptr, *first = nullptr, *shape = nullptr, *dtype = nullptr;
  PyObject* on_release = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "OOOO|O:Array", const_cast<char**>(names),
                                  &owner, &first, &shape, &dtype, &on_release) == 0) {
    return nullptr;
  }
  const Element* element = element_named(dtype);
  if (element == nullptr) return nullptr;
  Py_ssize_t offset = as_size(first, "offset");
  if (offset < 0) return nullptr;
  Layout layout;
  if (!read_shape(shape, *element, &layout)) return nullptr;
  if (on_release != Py_None && PyCallable_Check(on_release) == 0) {
    PyErr_Format(PyExc_TypeError, "on_release is %R; expected a function", on_release);
    return nullptr;
  }
  Py_buffer base = {};
  if (PyObject_GetBuffer(owner, &base, ask::kSimple) != 0) return nullptr;
  PyObject* object = nullptr;
  if (fits(base, offset, *element, layout.nbytes)) {
    object = make(type, base, offset, *element, layout);
  }
  if (object == nullptr) {
    PyBuffer_Release(&base);
  } else if (on_release != Py_None) {
    as<Array>(object)->on_release = another(on_release);
    as<Array>(object)->forks = forks_so_far();
  }
  return object;
}

void tell(Array* self) {
  PyObject* callback = std::exchange(self->on_release, nullptr);
  if (callback == nullptr) return;
  self->released = true;
  if (Py_IsInitialized() != 0 && self->forks == forks_so_far()) {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* answer = PyObject_CallObject(callback, nullptr);
    if (answer == nullptr) PyErr_WriteUnraisable(callback);
    Py_DecRef(answer);
    PyErr_Restore(type, value, trace);
  }
  Py_DecRef(callback);
}

void finalize(PyObject* object) { tell(as<Array>(object)); }

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  tell(as<Array>(object));
  PyBuffer_Release(&as<Array>(object)->base);
  PyObject_GC_Del(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Array* self = as<Array>(object);
  Py_VISIT(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  Py_VISIT(self->base.obj);
  Py_VISIT(self->on_release);
  return 0;
}

// Has nothing to do: finalize has dropped on_release, and the buffer must stay as long as anything
// of the same cycle may look at it.  A cycle through the base has an attribute or an item in it.
int clear(PyObject*) { return 0; }

bool also_fortran(Array* self) {
  int longer = 0;
  for (int i = 0; i < self->ndim; ++i) longer += self->shape()[i] != 1 ? 1 : 0;
  return longer <= 1 || self->nbytes == 0;
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  Array* self = as<Array>(object);
  view->obj = nullptr;
  if (!exportable(self)) return -1;
  if ((flags & ask::kWritable) != 0 && self->readonly()) {
    PyErr_SetString(PyExc_BufferError, "the memory is read-only");
    return -1;
  }
  if ((flags & ask::kFortran) == ask::kFortran && !also_fortran(self)) {
    PyErr_SetString(PyExc_BufferError, "the array lies in memory row by row (order \"C\")");
    return -1;
  }
  bool shaped = (flags & ask::kShape) != 0;
  bool strided = (flags & ask::kStrides) == ask::kStrides;
  view->buf = self->data;
  view->len = self->nbytes;
  view->itemsize = self->element->size;
  view->readonly = self->readonly() ? 1 : 0;
  view->ndim = shaped ? self->ndim : 1;
  view->format = (flags & ask::kFormat) != 0 ? const_cast<char*>(self->element->format) : nullptr;
  view->shape = shaped && self->ndim > 0 ? self->shape() : nullptr;
  view->strides = strided && self->ndim > 0 ? self->strides() : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  view->obj = another(object);
  return 0;
}

PyObject* shape(PyObject* object, void*) {
  Array* self = as<Array>(object);
  Ref tuple(PyTuple_New(self->ndim));
  for (int i = 0; tuple && i < self->ndim; ++i) {
    PyObject* count = PyLong_FromSsize_t(self->shape()[i]);
    if (count == nullptr || PyTuple_SetItem(tuple.get(), i, count) != 0) return nullptr;
  }
  return tuple.release();
}

PyObject* dtype(PyObject* object, void*) {
  return PyUnicode_InternFromString(as<Array>(object)->element->name);
}
PyObject* nbytes(PyObject* object, void*) { return PyLong_FromSsize_t(as<Array>(object)->nbytes); }
PyObject* ndim(PyObject* object, void*) { return PyLong_FromLong(as<Array>(object)->ndim); }
PyObject* readonly(PyObject* object, void*) {
  return PyBool_FromLong(as<Array>(object)->readonly() ? 1 : 0);
}

PyObject* array_interface(PyObject* object, void*) {
  Array* self = as<Array>(object);
  if (!exportable(self)) return nullptr;
  Ref counts(shape(object, nullptr));
  Ref address(PyLong_FromVoidPtr(self->data));
  if (!counts || !address) return nullptr;
  return Py_BuildValue("{s:O,s:s,s:(OO),s:O,s:i}", "shape", counts.get(), "typestr",
                       self->element->type, "data", address.get(),
                       self->readonly() ? Py_True : Py_False, "strides", Py_None, "version", 3);
}

Py_ssize_t length(PyObject* object) {
  Array* self = as<Array>(object);
  if (self->ndim > 0) return self->shape()[0];
  PyErr_SetString(PyExc_TypeError, "an array without dimensions has no length");
  return -1;
}

PyObject* repr(PyObject* object) {
  Array* self = as<Array>(object);
  Ref counts(shape(object, nullptr));
  if (!counts) return nullptr;
  return PyUnicode_FromFormat("<pergpu Array: %S of %s%s>", counts.get(), self->element->name,
                              self->readonly() ? ", read-only" : "");
}

/// `function(self)` of a package that is imported now.
PyObject* given_to(const char* package, const char* function, PyObject* self) {
  Ref module(PyImport_ImportModule(package));
  return module ? PyObject_CallMethod(module.get(), function, "O", self) : nullptr;
}

PyObject* numpy(PyObject* object, PyObject*) { return given_to("numpy", "asarray", object); }

/// Torch before 2.3 refuses bool in DLPack: such an array goes as bytes, which become bool there.
PyObject* torch(PyObject* object, PyObject*) {
  Array* self = as<Array>(object);
  if (std::string_view(self->element->name) != "bool") {
    return given_to("torch", "from_dlpack", object);
  }
  Ref counts(shape(object, nullptr));
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  Ref bytes(counts ? PyObject_CallFunction(type, "OiOs", object, 0, counts.get(), "uint8")
                   : nullptr);
  Ref tensor(bytes ? given_to("torch", "from_dlpack", bytes.get()) : nullptr);
  Ref module(tensor ? PyImport_ImportModule("torch") : nullptr);
  Ref boolean(module ? PyObject_GetAttrString(module.get(), "bool") : nullptr);
  return boolean ? PyObject_CallMethod(tensor.get(), "view", "O", boolean.get()) : nullptr;
}

PyObject* item(PyObject* object, PyObject* at) {
  Ref array(numpy(object, nullptr));
  return array ? PyObject_GetItem(array.get(), at) : nullptr;
}

int set_item(PyObject* object, PyObject* at, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "elements of an array can't be deleted");
    return -1;
  }
  Ref array(numpy(object, nullptr));
  return array ? PyObject_SetItem(array.get(), at, value) : -1;
}

PyObject* iterator(PyObject* object) {
  Ref array(numpy(object, nullptr));
  return array ? PyObject_GetIter(array.get()) : nullptr;
}

PyMethodDef kMethods[] = {
    {"numpy", numpy, METH_NOARGS,
     "numpy($self)\n--\n\nAs a numpy array of the same memory.  ImportError: numpy is not "
     "installed."},
    {"torch", torch, METH_NOARGS,
     "torch($self)\n--\n\nAs a tensor of the same memory.  ImportError: torch is not installed."},
    {"__dlpack__", method(dlpack), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A capsule for torch.from_dlpack and similar functions."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\n(1, 0): the CPU's memory."},
    {},
};
PyGetSetDef kProperties[] = {
    {"shape", shape, nullptr, "The dimensions, a tuple.", nullptr},
    {"dtype", dtype, nullptr, "The element type, named as in numpy.", nullptr},
    {"nbytes", nbytes, nullptr, "The size in bytes.", nullptr},
    {"ndim", ndim, nullptr, "The number of dimensions.", nullptr},
    {"readonly", readonly, nullptr, "Whether the memory is read-only.", nullptr},
    {"__array_interface__", array_interface, nullptr, "The array interface, version 3, for numpy.",
     nullptr},
    {},
};
constexpr char kDoc[] =
    "Array(base, offset, shape, dtype, on_release=None)\n--\n\n"
    "The buffer of `base`, from byte `offset` on, as an array in C order.\n\n"
    "numpy.asarray, torch.from_dlpack and similar functions take it without a copy; [] and\n"
    "iteration give numpy's results.  on_release() is called once, in any thread, when the array\n"
    "and everything made from it are gone; not in a forked process, and not while the interpreter\n"
    "shuts down.";
PyType_Slot kSlots[] = {
    {Py_tp_new, slot(make_new)},
    {Py_tp_dealloc, slot(dealloc)},
    {Py_tp_finalize, slot(finalize)},
    {Py_tp_traverse, slot(traverse)},
    {Py_tp_clear, slot(clear)},
    {Py_tp_repr, slot(repr)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},
    {Py_tp_doc, const_cast<char*>(kDoc)},
    {Py_bf_getbuffer, slot(get_buffer)},
    {Py_mp_length, slot(length)},
    {Py_mp_subscript, slot(item)},
    {Py_mp_ass_subscript, slot(set_item)},
    {Py_tp_iter, slot(iterator)},
    {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Array", offsetof(Array, sizes), sizeof(Py_ssize_t),
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, kSlots};

}  // namespace

PyType_Spec* array_spec() {
  count_forks();
  return &kSpec;
}

PyObject* make_array(PyTypeObject* type, const Py_buffer& base, Py_ssize_t offset,
                     const Element& element, const std::vector<Py_ssize_t>& shape) {
  Layout layout;
  layout.ndim = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), layout.shape.begin());
  if (lay_out(element.size, &layout)) return make(type, base, offset, element, layout);
  PyErr_SetString(PyExc_ValueError, "more than can be addressed");
  return nullptr;
}

bool exportable(Array* array) {
  if (!array->released) return true;
  PyErr_SetString(PyExc_BufferError, "the memory of this array has been released");
  return false;
}

}  // namespace pergpu::python
