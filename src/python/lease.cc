// An Array holds a buffer of the lease, which has a reference to it; so the lease ends after all of
// its Arrays.  Arrays are made when they are asked for.
#include "python/lease.h"

#include <new>

#include "python/array.h"
#include "python/dlpack.h"

namespace pergpu::python {
namespace {

bool usable(Lease* lease) {
  if (!lease->over) return true;
  PyErr_SetString(
      PyExc_ValueError,
      "the slot has been sent or released: use only arrays that you took from it before");
  return false;
}

PyObject* make_part(PyObject* object, const Part& part) {
  Lease* lease = as<Lease>(object);
  if (!usable(lease)) return nullptr;
  Py_buffer base = {};
  base.buf = lease->data;
  base.len = static_cast<Py_ssize_t>(lease->plan->nbytes);
  base.itemsize = 1;
  base.ndim = 1;
  base.obj = another(object);
  ++lease->exports;
  PyObject* made = make_array(types_of(object)->array, base, static_cast<Py_ssize_t>(part.offset),
                              *part.element, part.shape);
  if (made == nullptr) PyBuffer_Release(&base);
  return made;
}

PyObject* name_of(const Part& part) {
  return PyUnicode_DecodeUTF8(part.name.data(), static_cast<Py_ssize_t>(part.name.size()),
                              "replace");
}

/// nullptr: an exception is set.
PyObject* the_array(PyObject* object) {
  const ItemLayout& plan = *as<Lease>(object)->plan;
  if (plan.kind == ItemKind::One) return make_part(object, plan.parts[0]);
  PyErr_Format(PyExc_TypeError, "the item is a %s of arrays: take one of them, by its %s",
               plan.kind == ItemKind::Dict ? "dict" : "tuple",
               plan.kind == ItemKind::Dict ? "name" : "number");
  return nullptr;
}

/// The value, with `of(part)` in the place of each array.
template <typename Of>
PyObject* built(PyObject* object, Of&& of) {
  Plan plan = as<Lease>(object)->plan;
  if (plan->kind == ItemKind::One) return of(plan->parts[0]);
  bool is_dict = plan->kind == ItemKind::Dict;
  Ref whole(is_dict ? PyDict_New() : PyTuple_New(static_cast<Py_ssize_t>(plan->parts.size())));
  for (std::size_t i = 0; whole && i < plan->parts.size(); ++i) {
    PyObject* one = of(plan->parts[i]);
    if (one == nullptr) return nullptr;
    if (!is_dict) {
      if (PyTuple_SetItem(whole.get(), static_cast<Py_ssize_t>(i), one) != 0) return nullptr;
      continue;
    }
    Ref value(one);
    Ref name(name_of(plan->parts[i]));
    if (!name || PyDict_SetItem(whole.get(), name.get(), one) != 0) return nullptr;
  }
  return whole.release();
}

PyObject* built_by(PyObject* object, const char* method) {
  return built(object, [&](const Part& part) -> PyObject* {
    Ref array(make_part(object, part));
    return array ? PyObject_CallMethod(array.get(), method, nullptr) : nullptr;
  });
}

/// nullptr: an exception is set.
const Part* part_at(const ItemLayout& plan, PyObject* at) {
  if (plan.kind == ItemKind::Dict) {
    if (PyUnicode_Check(at)) {
      for (const Part& part : plan.parts) {
        Ref name(name_of(part));
        if (!name) return nullptr;
        if (PyUnicode_Compare(name.get(), at) == 0) return &part;
      }
    }
    PyErr_SetObject(PyExc_KeyError, at);
    return nullptr;
  }
  Py_ssize_t index = PyNumber_AsSsize_t(at, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) return nullptr;
  auto count = static_cast<Py_ssize_t>(plan.parts.size());
  if (index < 0) index += count;
  if (index >= 0 && index < count) return &plan.parts[static_cast<std::size_t>(index)];
  PyErr_Format(PyExc_IndexError, "there are %zd arrays", count);
  return nullptr;
}

}  // namespace

PyObject* make_lease(PyTypeObject* type, PyObject* end, std::byte* data, Plan plan) {
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (object == nullptr) return nullptr;
  Lease* lease = as<Lease>(object);
  lease->end = another(end);
  lease->data = data;
  new (&lease->plan) Plan(std::move(plan));
  return object;
}

void end_lease(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* end = as<Lease>(object)->end;
  as<Lease>(object)->plan.~Plan();
  PyObject_Free(object);
  Py_DecRef(end);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

PyObject* lease_array(PyObject* object, void*) { return the_array(object); }

PyObject* lease_value(PyObject* object, void*) {
  return built(object, [&](const Part& part) { return make_part(object, part); });
}

PyObject* lease_nbytes(PyObject* object, void*) {
  std::uint64_t sum = 0;
  for (const Part& part : as<Lease>(object)->plan->parts) sum += part.nbytes;
  return PyLong_FromUnsignedLongLong(sum);
}

PyObject* lease_interface(PyObject* object, void*) {
  if (as<Lease>(object)->plan->kind != ItemKind::One) {
    PyErr_SetString(PyExc_AttributeError, "__array_interface__: the item is several arrays");
    return nullptr;
  }
  Ref array(the_array(object));
  return array ? PyObject_GetAttrString(array.get(), "__array_interface__") : nullptr;
}

PyObject* lease_keys(PyObject* object, PyObject*) {
  const ItemLayout& plan = *as<Lease>(object)->plan;
  if (plan.kind != ItemKind::Dict) {
    PyErr_SetString(PyExc_TypeError, "the item isn't a dict of arrays");
    return nullptr;
  }
  Ref names(PyTuple_New(static_cast<Py_ssize_t>(plan.parts.size())));
  for (std::size_t i = 0; names && i < plan.parts.size(); ++i) {
    PyObject* name = name_of(plan.parts[i]);
    if (name == nullptr) return nullptr;
    if (PyTuple_SetItem(names.get(), static_cast<Py_ssize_t>(i), name) != 0) return nullptr;
  }
  return names.release();
}

PyObject* lease_numpy(PyObject* object, PyObject*) { return built_by(object, "numpy"); }
PyObject* lease_torch(PyObject* object, PyObject*) { return built_by(object, "torch"); }

PyObject* lease_dlpack(PyObject* object, PyObject* arguments, PyObject* named) {
  Ref array(the_array(object));
  return array ? dlpack(array.get(), arguments, named) : nullptr;
}

PyObject* lease_dlpack_device(PyObject* object, PyObject* none) {
  return dlpack_device(object, none);
}

PyObject* lease_item(PyObject* object, PyObject* at) {
  const ItemLayout& plan = *as<Lease>(object)->plan;
  if (plan.kind == ItemKind::One) {
    Ref array(the_array(object));
    return array ? PyObject_GetItem(array.get(), at) : nullptr;
  }
  const Part* part = part_at(plan, at);
  return part == nullptr ? nullptr : make_part(object, *part);
}

int lease_set_item(PyObject* object, PyObject* at, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "arrays of an item can't be deleted");
    return -1;
  }
  const ItemLayout& plan = *as<Lease>(object)->plan;
  if (plan.kind == ItemKind::One) {
    Ref array(the_array(object));
    return array ? PyObject_SetItem(array.get(), at, value) : -1;
  }
  const Part* part = part_at(plan, at);
  if (part == nullptr) return -1;
  Ref array(make_part(object, *part));  // item["x"] = value fills the array that is there
  return array ? PyObject_SetItem(array.get(), Py_Ellipsis, value) : -1;
}

Py_ssize_t lease_length(PyObject* object) {
  const ItemLayout& plan = *as<Lease>(object)->plan;
  if (plan.kind != ItemKind::One) return static_cast<Py_ssize_t>(plan.parts.size());
  Ref array(the_array(object));
  return array ? PyObject_Size(array.get()) : -1;
}

PyObject* lease_iterator(PyObject* object) {
  const ItemLayout& plan = *as<Lease>(object)->plan;
  Ref what(plan.kind == ItemKind::Dict ? lease_keys(object, nullptr)
                                       : lease_value(object, nullptr));
  return what ? PyObject_GetIter(what.get()) : nullptr;
}

int lease_buffer(PyObject* object, Py_buffer* view, int flags) {
  view->obj = nullptr;
  if (as<Lease>(object)->plan->kind != ItemKind::One) {
    PyErr_SetString(PyExc_BufferError, "the item is several arrays: take one of them");
    return -1;
  }
  Ref array(the_array(object));
  if (array) return PyObject_GetBuffer(array.get(), view, flags);
  PyErr_SetString(PyExc_BufferError, "the slot has been sent or released");
  return -1;
}

}  // namespace pergpu::python
