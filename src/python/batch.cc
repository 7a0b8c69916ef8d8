// The end of a Batch, and so of all arrays that were made of it, gives the slot back; no function
// of Python is called for that.  A forked process has a copy of the memory, and gives nothing back.
#include "python/batch.h"

#include <new>
#include <utility>

#include "python/forks.h"
#include "python/object.h"

namespace pergpu::python {
namespace {

struct Batch {
  PyObject_HEAD;
  std::shared_ptr<share::Loader> loader;
  std::byte* data;
  Py_ssize_t size;
  std::uint32_t slot;
  unsigned forks;
};

void dealloc(PyObject* object) {
  Batch* self = as<Batch>(object);
  PyTypeObject* type = Py_TYPE(object);
  std::shared_ptr<share::Loader> loader = std::move(self->loader);
  self->loader.~shared_ptr();
  const std::uint32_t slot = self->slot;
  const Py_ssize_t size = self->size;
  const bool ours = self->forks == forks_so_far();
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
  give_back(size, [&] {
    if (ours) loader->release(slot);
    loader.reset();
  });
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "use Loader.take() to get a Batch");
  return nullptr;
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  Batch* self = as<Batch>(object);
  return PyBuffer_FillInfo(view, object, self->data, self->size, 0, flags);
}

Py_ssize_t length(PyObject* object) { return as<Batch>(object)->size; }

constexpr char kDoc[] =
    "A slot of a Loader, as a buffer of bytes.\n\n"
    "It is filled again when this object, and every buffer of it, is gone.";
PyType_Slot kSlots[] = {
    {Py_tp_dealloc, slot(dealloc)},       {Py_tp_new, slot(refuse_new)},
    {Py_tp_doc, const_cast<char*>(kDoc)}, {Py_bf_getbuffer, slot(get_buffer)},
    {Py_mp_length, slot(length)},         {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Batch", sizeof(Batch), 0, Py_TPFLAGS_DEFAULT, kSlots};

}  // namespace

PyType_Spec* batch_spec() { return &kSpec; }

PyObject* make_batch(PyTypeObject* type, std::shared_ptr<share::Loader> loader,
                     const share::Loader::Batch& batch) {
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (object == nullptr) {
    loader->release(batch.slot);
    return nullptr;
  }
  Batch* self = as<Batch>(object);
  self->size = static_cast<Py_ssize_t>(loader->slot_bytes());
  new (&self->loader) std::shared_ptr<share::Loader>(std::move(loader));
  self->data = batch.data;
  self->slot = batch.slot;
  self->forks = forks_so_far();
  return object;
}

}  // namespace pergpu::python
