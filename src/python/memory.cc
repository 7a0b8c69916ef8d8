// Memory: a segment (share/segment.h) and its descriptor.  What is mapped of it does not need it
// any more.
#include <fcntl.h>

#include <new>
#include <optional>
#include <string>

#include "python/errors.h"
#include "python/object.h"
#include "python/region.h"
#include "share/segment.h"

namespace pergpu::python {
namespace {

using share::Segment;
using share::View;

struct Memory {
  PyObject_HEAD;
  std::optional<Segment> segment;  // empty: closed
};

/// A closed one.
PyObject* make(PyObject* type) {
  PyObject* object = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0);
  if (object != nullptr) new (&as<Memory>(object)->segment) std::optional<Segment>();
  return object;
}

/// If this is the last descriptor the pages go with it.
void close_segment(PyObject* object) {
  std::optional<Segment>& segment = as<Memory>(object)->segment;
  if (!segment) return;
  std::optional<Segment> last = std::exchange(segment, std::nullopt);
  give_back(static_cast<Py_ssize_t>(last->size()), [&] { last.reset(); });
}

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  close_segment(object);
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "use Memory.create() or Memory.adopt()");
  return nullptr;
}

/// nullptr: it was closed, and an exception is set.
Segment* open_segment(PyObject* object) {
  std::optional<Segment>& segment = as<Memory>(object)->segment;
  if (segment) return &*segment;
  PyErr_SetString(PyExc_ValueError, "the Memory was closed");
  return nullptr;
}

PyObject* create(PyObject* type, PyObject* arguments, PyObject* named) {
  const char* names[] = {"name", "size", "huge", nullptr};
  PyObject *name = nullptr, *count = nullptr;
  int huge = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "UO|p:create", const_cast<char**>(names), &name,
                                  &count, &huge) == 0) {
    return nullptr;
  }
  Py_ssize_t size = as_size(count, "size");
  if (size < 0) return nullptr;
  std::string words;
  if (!as_utf8(name, &words)) return nullptr;  // for people (/proc/PID/maps)
  share::Pages pages = huge != 0 ? share::Pages::Huge : share::Pages::Normal;
  // The kernel makes every page of it now.
  Result<Segment> segment =
      unlocked([&] { return Segment::create(words, static_cast<std::uint64_t>(size), pages); });
  if (!segment) return raise(segment.error());
  PyObject* object = make(type);
  if (object != nullptr) as<Memory>(object)->segment = std::move(*segment);
  return object;
}

PyObject* adopt(PyObject* type, PyObject* arguments, PyObject* named) {
  const char* names[] = {"fd", nullptr};
  int number = -1;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "i:adopt", const_cast<char**>(names),
                                  &number) == 0) {
    return nullptr;
  }
  Ref object(make(type));
  if (!object) return nullptr;
  os::UniqueFd fd(number);
  Result<Segment> segment = caught([&] { return Segment::adopt(std::move(fd)); });
  if (!segment) {
    fd.release();
    return raise(segment.error());
  }
  ::fcntl(number, F_SETFD, FD_CLOEXEC);  // the caller may have inherited it
  as<Memory>(object.get())->segment = std::move(*segment);
  return object.release();
}

PyObject* fileno(PyObject* object, PyObject*) {
  Segment* segment = open_segment(object);
  return segment == nullptr ? nullptr : PyLong_FromLong(segment->fd());
}

PyObject* seal(PyObject* object, PyObject*) {
  Segment* segment = open_segment(object);
  if (segment == nullptr) return nullptr;
  if (Result<void> sealed = caught([&] { return segment->seal(); }); !sealed) {
    return raise(sealed.error());
  }
  return another(Py_None);
}

PyObject* map(PyObject* object, PyObject* view_name) {
  View view = View::Private;
  Segment* segment = open_segment(object);
  if (segment == nullptr || !view_named(view_name, &view)) return nullptr;
  Result<share::Mapping> mapping = caught([&] { return segment->map(view); });
  if (!mapping) return raise(mapping.error());
  return make_region(types_of(object)->region, std::move(*mapping), view);
}

PyObject* close(PyObject* object, PyObject*) {
  close_segment(object);
  return another(Py_None);
}

PyObject* nbytes(PyObject* object, void*) {
  Segment* segment = open_segment(object);
  return segment == nullptr ? nullptr : PyLong_FromUnsignedLongLong(segment->size());
}
PyObject* sealed(PyObject* object, void*) {
  Segment* segment = open_segment(object);
  return segment == nullptr ? nullptr : PyBool_FromLong(segment->sealed());
}
PyObject* huge(PyObject* object, void*) {
  Segment* segment = open_segment(object);
  return segment == nullptr ? nullptr : PyBool_FromLong(segment->pages() == share::Pages::Huge);
}
PyObject* repr(PyObject* object) {
  const std::optional<Segment>& segment = as<Memory>(object)->segment;
  if (!segment) return PyUnicode_FromString("<pergpu Memory, closed>");
  return PyUnicode_FromFormat("<pergpu Memory: %llu bytes, descriptor %d%s>",
                              static_cast<unsigned long long>(segment->size()), segment->fd(),
                              segment->sealed() ? ", sealed" : "");
}

PyMethodDef kMethods[] = {
    {"create", method(create), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "create($type, name, size, huge=False)\n--\n\n"
     "Zeroed memory of `size` bytes, all of it reserved now.  `name` is for display.\n\n"
     "huge: uses the kernel's pool of huge pages if it has enough, else normal pages."},
    {"adopt", method(adopt), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "adopt($type, fd)\n--\n\n"
     "Memory that another process made.  This object now owns the descriptor; after an exception\n"
     "the caller still owns it."},
    {"fileno", fileno, METH_NOARGS,
     "fileno($self)\n--\n\nThe descriptor, to pass to a child or over a socket."},
    {"seal", seal, METH_NOARGS,
     "seal($self)\n--\n\nMakes the content read-only for all processes.  OSError (EBUSY): a "
     "process has it\nmapped as \"shared\"."},
    {"map", map, METH_O,
     "map($self, view, /)\n--\n\n"
     "Maps all of it: with \"cow\" only this process sees its writes; with \"ro\" a write is a\n"
     "SIGSEGV; with \"shared\" all processes see the writes."},
    {"close", close, METH_NOARGS, "close($self)\n--\n\nCloses the descriptor; mappings stay."},
    {},
};
PyGetSetDef kProperties[] = {
    {"nbytes", nbytes, nullptr, "The size in bytes.", nullptr},
    {"sealed", sealed, nullptr, "Whether the content is sealed.", nullptr},
    {"huge", huge, nullptr, "Whether it uses huge pages.", nullptr},
    {},
};
constexpr char kDoc[] =
    "Memory that processes share and that has no name.\n\n"
    "A process needs its descriptor to use it.  It is freed when the last descriptor and the last\n"
    "mapping are gone, however the processes ended.";
PyType_Slot kSlots[] = {
    {Py_tp_dealloc, slot(dealloc)},
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_repr, slot(repr)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},
    {Py_tp_doc, const_cast<char*>(kDoc)},
    {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT, kSlots};

}  // namespace

PyType_Spec* memory_spec() { return &kSpec; }

}  // namespace pergpu::python
