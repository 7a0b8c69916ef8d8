// A Region has no close(): an object with a buffer of it has a reference to it, and the pages go
// with the last one.
#include "python/region.h"

#include <new>

#include "python/errors.h"
#include "python/object.h"

namespace pergpu::python {
namespace {

using share::View;

struct Region {
  PyObject_HEAD;
  Pages pages;
  std::byte* data;
  Py_ssize_t size;
  View view;
};

const char* word(View view) {
  switch (view) {
    case View::Private:
      return "cow";
    case View::ReadOnly:
      return "ro";
    case View::Shared:
      return "shared";
  }
  return "";
}

void dealloc(PyObject* object) {
  Region* self = as<Region>(object);
  PyTypeObject* type = Py_TYPE(object);
  give_back(self->size, [&] { self->pages.~Pages(); });
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "use Memory.map() or map_file() to get a Region");
  return nullptr;
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  Region* self = as<Region>(object);
  int readonly = self->view == View::ReadOnly ? 1 : 0;
  return PyBuffer_FillInfo(view, object, self->data, self->size, readonly, flags);
}

PyObject* nbytes(PyObject* object, void*) { return PyLong_FromSsize_t(as<Region>(object)->size); }
Py_ssize_t length(PyObject* object) { return as<Region>(object)->size; }
PyObject* address(PyObject* object, void*) { return PyLong_FromVoidPtr(as<Region>(object)->data); }
PyObject* view(PyObject* object, void*) {
  return PyUnicode_FromString(word(as<Region>(object)->view));
}
PyObject* repr(PyObject* object) {
  Region* self = as<Region>(object);
  return PyUnicode_FromFormat("<pergpu Region: %zd bytes, %s>", self->size, word(self->view));
}

PyGetSetDef kProperties[] = {
    {"nbytes", nbytes, nullptr, "The number of mapped bytes.", nullptr},
    {"address", address, nullptr, "The address of the first byte in this process.", nullptr},
    {"view", view, nullptr, "\"cow\", \"ro\" or \"shared\".", nullptr},
    {},
};
constexpr char kDoc[] =
    "Mapped memory: a buffer of bytes, read-only if the view is \"ro\".\n\n"
    "It stays mapped as long as this object, or a buffer of it, exists.";
PyType_Slot kSlots[] = {
    {Py_tp_dealloc, slot(dealloc)},
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_repr, slot(repr)},
    {Py_tp_getset, kProperties},
    {Py_tp_doc, const_cast<char*>(kDoc)},
    {Py_bf_getbuffer, slot(get_buffer)},
    {Py_mp_length, slot(length)},
    {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Region", sizeof(Region), 0, Py_TPFLAGS_DEFAULT, kSlots};

}  // namespace

PyType_Spec* region_spec() { return &kSpec; }

bool view_named(PyObject* name, View* view) {
  for (View one : {View::Private, View::ReadOnly, View::Shared}) {
    *view = one;
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, word(one)) == 0) {
      return true;
    }
  }
  PyErr_Format(PyUnicode_Check(name) ? PyExc_ValueError : PyExc_TypeError,
               "view is %R; expected \"cow\", \"ro\" or \"shared\"", name);
  return false;
}

PyObject* make_region(PyTypeObject* type, Pages pages, View view) {
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (object == nullptr) return nullptr;
  Region* self = as<Region>(object);
  new (&self->pages) Pages(std::move(pages));
  self->data = std::visit([](const auto& mapping) { return mapping.data(); }, self->pages);
  self->size = static_cast<Py_ssize_t>(
      std::visit([](const auto& mapping) { return mapping.size(); }, self->pages));
  self->view = view;
  return object;
}

PyObject* map_file(PyObject* module, PyObject* arguments, PyObject* named) {
  const char* names[] = {"fd", "offset", "nbytes", "view", nullptr};
  int fd = -1;
  PyObject *first = nullptr, *count = nullptr, *view_name = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "iOOO:map_file", const_cast<char**>(names), &fd,
                                  &first, &count, &view_name) == 0) {
    return nullptr;
  }
  View view = View::Private;
  Py_ssize_t offset = as_size(first, "offset");
  if (offset < 0) return nullptr;
  Py_ssize_t size = as_size(count, "nbytes");
  if (size < 0 || !view_named(view_name, &view)) return nullptr;
  // The file may be far away.
  Result<share::FileMapping> mapping = unlocked([&] {
    return share::FileMapping::map(fd, static_cast<std::uint64_t>(offset),
                                   static_cast<std::size_t>(size), view);
  });
  if (!mapping) return raise(mapping.error());
  Types* types = static_cast<Types*>(PyModule_GetState(module));
  return make_region(types->region, std::move(*mapping), view);
}

}  // namespace pergpu::python
