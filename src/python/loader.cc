// Loader: batches of rows of arrays (share/loader.h).  Its threads know nothing of Python: they
// read arrays, to which the object holds references, and write slots, which a Batch gives back.
//
// Who waits does so without the interpreter lock, and looks for signals (Ctrl-C) now and then. What
// is there already is taken with the lock held: to let it go and wait for it costs more.
#include "share/loader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "os/clock.h"
#include "python/array.h"
#include "python/batch.h"
#include "python/errors.h"
#include "python/forks.h"
#include "python/object.h"

namespace pergpu::python {
namespace {

using share::ImageKernel;
using share::ImageTransform;
using std::chrono::nanoseconds;

constexpr nanoseconds kBetweenSignals = std::chrono::milliseconds(50);

struct Loader {
  PyObject_HEAD;
  std::shared_ptr<share::Loader> loader;
  PyObject* arrays;  // whose memory is read
  unsigned forks;
};

void dealloc(PyObject* object) {
  Loader* self = as<Loader>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->loader && self->forks == forks_so_far()) {
    share::Loader* loader = self->loader.get();
    PyThreadState* state = PyEval_SaveThread();
    loader->stop();
    PyEval_RestoreThread(state);
  }
  self->loader.~shared_ptr();
  Py_DecRef(self->arrays);
  PyObject_GC_Del(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  Py_VISIT(as<Loader>(object)->arrays);
  return 0;
}

// Has nothing to do: the threads read the arrays until dealloc, and a cycle through one of them has
// an attribute or an item in it (array.cc).
int clear(PyObject*) { return 0; }

bool type_named(const char* name, share::Type* type) {
  constexpr std::pair<const char*, share::Type> kTypes[] = {
      {"uint8", share::Type::UInt8},
      {"float32", share::Type::Float32},
      {"float16", share::Type::Float16},
      {"bfloat16", share::Type::BFloat16},
  };
  for (const auto& [known, one] : kTypes) {
    *type = one;
    if (std::string_view(name) == known) return true;
  }
  PyErr_Format(PyExc_ValueError, "images can become uint8, float32, float16 or bfloat16, not %s",
               name);
  return false;
}

bool floats(PyObject* tuple, std::vector<float>* values) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
    double value = PyFloat_AsDouble(PyTuple_GetItem(tuple, i));
    if (value == -1.0 && PyErr_Occurred() != nullptr) return false;
    values->push_back(static_cast<float>(value));
  }
  return true;
}

/// Of images as rows of `array`.
std::optional<ImageKernel> kernel_of(Array* array, PyObject* image) {
  ImageTransform transform;
  int random_crop = 0, random_flip = 0;
  PyObject *mean = nullptr, *deviation = nullptr;
  const char* dtype = nullptr;
  if (PyArg_ParseTuple(image, "IIIppO!O!fs", &transform.crop_height, &transform.crop_width,
                       &transform.padding, &random_crop, &random_flip, &PyTuple_Type, &mean,
                       &PyTuple_Type, &deviation, &transform.scale, &dtype) == 0) {
    return std::nullopt;
  }
  if (!type_named(dtype, &transform.type)) return std::nullopt;
  const bool bytes = std::string_view(array->element->name) == "uint8";
  if (!bytes || array->ndim < 3 || array->ndim > 4) {
    PyErr_Format(PyExc_ValueError,
                 "images must be uint8 with 3 or 4 dimensions (images, height, width, channels), "
                 "not %s with %d",
                 array->element->name, array->ndim);
    return std::nullopt;
  }
  auto side = [array](int i) {
    return static_cast<std::uint32_t>(std::min<Py_ssize_t>(array->shape()[i], 0xffffffff));
  };
  transform.height = side(1);
  transform.width = side(2);
  transform.channels = array->ndim == 4 ? side(3) : 1;
  transform.random_crop = random_crop != 0;
  transform.random_flip = random_flip != 0;
  if (!floats(mean, &transform.mean) || !floats(deviation, &transform.deviation)) {
    return std::nullopt;
  }
  Result<ImageKernel> kernel = caught([&] { return ImageKernel::make(std::move(transform)); });
  if (kernel) return std::move(*kernel);
  raise(kernel.error());
  return std::nullopt;
}

/// `pair`: an Array, and None or what becomes of its rows.
bool add_field(PyTypeObject* array_type, PyObject* pair, share::LoaderOptions* options) {
  PyObject *object = nullptr, *image = nullptr;
  if (PyArg_ParseTuple(pair, "O!O", array_type, &object, &image) == 0) return false;
  Array* array = as<Array>(object);
  if (array->ndim == 0) {
    PyErr_SetString(PyExc_ValueError, "an array without dimensions has no rows");
    return false;
  }
  auto rows = static_cast<std::uint64_t>(array->shape()[0]);
  if (!options->fields.empty() && rows != options->rows) {
    PyErr_Format(PyExc_ValueError, "arrays of %llu and of %llu rows have no rows in common",
                 static_cast<unsigned long long>(options->rows),
                 static_cast<unsigned long long>(rows));
    return false;
  }
  options->rows = rows;
  share::LoaderField field;
  field.data = array->data;
  field.row_bytes = rows == 0 ? 0 : static_cast<std::size_t>(array->nbytes) / rows;
  if (image != Py_None) {
    field.kernel = kernel_of(array, image);
    if (!field.kernel) return false;
  }
  options->fields.push_back(std::move(field));
  return true;
}

/// Of the size that the options have for it.
bool number(PyObject* object, const char* what, std::uint32_t* value) {
  Py_ssize_t size = as_size(object, what);
  if (size >= 0 && size <= 0xffffffff) {
    *value = static_cast<std::uint32_t>(size);
    return true;
  }
  if (size >= 0) PyErr_Format(PyExc_ValueError, "%s is %zd, which is too large", what, size);
  return false;
}

PyObject* make_new(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* names[] = {"arrays", "batch", "shuffle", "seed",   "drop_last", "shard",
                         "shards", "ahead", "threads", "pinned", nullptr};
  share::LoaderOptions options;
  PyObject *arrays = nullptr, *batch = nullptr, *shard = nullptr, *shards = nullptr;
  PyObject *ahead = nullptr, *threads = nullptr;
  unsigned long long seed = 0;
  int shuffle = 0, drop_last = 0, pinned = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "O!O|$pKpOOOOp:Loader",
                                  const_cast<char**>(names), &PyTuple_Type, &arrays, &batch,
                                  &shuffle, &seed, &drop_last, &shard, &shards, &ahead, &threads,
                                  &pinned) == 0) {
    return nullptr;
  }
  options.shuffle = shuffle != 0;
  options.drop_last = drop_last != 0;
  options.pinned = pinned != 0;
  options.seed = seed;
  if (!number(batch, "batch", &options.batch) ||
      (shard != nullptr && !number(shard, "shard", &options.shard)) ||
      (shards != nullptr && !number(shards, "shards", &options.shards)) ||
      (ahead != nullptr && !number(ahead, "ahead", &options.ahead)) ||
      (threads != nullptr && !number(threads, "threads", &options.threads))) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(arrays); ++i) {
    if (!add_field(types_of(type)->array, PyTuple_GetItem(arrays, i), &options)) return nullptr;
  }
  // To pin memory takes its time.
  Result<std::unique_ptr<share::Loader>> loader =
      unlocked([&] { return share::Loader::open(std::move(options)); });
  if (!loader) return raise(loader.error());
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (object == nullptr) return nullptr;
  Loader* self = as<Loader>(object);
  new (&self->loader) std::shared_ptr<share::Loader>(std::move(*loader));
  self->arrays = another(arrays);
  self->forks = forks_so_far();
  return object;
}

/// nullptr: the threads are those of another process, and an exception is set.
share::Loader* own(PyObject* object) {
  Loader* self = as<Loader>(object);
  if (self->forks == forks_so_far()) return self->loader.get();
  PyErr_SetString(PyExc_RuntimeError, "the threads of this loader are in the process that forked");
  return nullptr;
}

/// None: no end; else seconds.  false: an exception is set.
bool patience_of(PyObject* seconds, nanoseconds* longest) {
  *longest = nanoseconds::max();
  if (seconds == Py_None) return true;
  double value = PyFloat_AsDouble(seconds);
  if (value == -1.0 && PyErr_Occurred() != nullptr) return false;
  if (!(value >= 0)) {
    PyErr_Format(PyExc_ValueError, "seconds is %R; expected None, or a number of at least 0",
                 seconds);
    return false;
  }
  if (value < 1e9) *longest = nanoseconds(static_cast<nanoseconds::rep>(value * 1e9));
  return true;
}

/// `once(time)` until it is true or an error, or the time is over, or a signal's handler raised:
/// then an exception is set, as with an error.
template <typename Once>
std::optional<bool> patiently(PyObject* seconds, Once&& once) {
  nanoseconds left = nanoseconds::zero();
  if (!patience_of(seconds, &left)) return std::nullopt;
  const std::int64_t begin = os::awake_now_ns();
  Result<bool> done = caught([&] { return once(nanoseconds::zero()); });
  while (true) {
    if (!done) {
      raise(done.error());
      return std::nullopt;
    }
    nanoseconds passed(os::awake_now_ns() - begin);
    if (*done || passed >= left) return *done;
    if (PyErr_CheckSignals() != 0) return std::nullopt;
    nanoseconds now = std::min(left - passed, kBetweenSignals);
    done = unlocked([&] { return once(now); });
  }
}

PyObject* take(PyObject* object, PyObject* seconds) {
  share::Loader* loader = own(object);
  if (loader == nullptr) return nullptr;
  share::Loader::Batch batch;
  std::optional<bool> taken =
      patiently(seconds, [&](nanoseconds longest) { return loader->next(batch, longest); });
  if (!taken) return nullptr;
  if (!*taken) return another(Py_None);
  Ref memory(make_batch(types_of(object)->batch, as<Loader>(object)->loader, batch));
  if (!memory) return nullptr;
  return Py_BuildValue("(OKKI)", memory.get(), static_cast<unsigned long long>(batch.epoch),
                       static_cast<unsigned long long>(batch.number), batch.rows);
}

PyObject* wait(PyObject* object, PyObject* seconds) {
  share::Loader* loader = own(object);
  if (loader == nullptr) return nullptr;
  std::optional<bool> there = patiently(
      seconds, [&](nanoseconds longest) -> Result<bool> { return loader->wait(longest); });
  return there ? PyBool_FromLong(*there) : nullptr;
}

PyObject* seek(PyObject* object, PyObject* place) {
  share::Loader* loader = own(object);
  unsigned long long epoch = 0, number = 0;
  if (loader == nullptr || PyArg_ParseTuple(place, "KK:seek", &epoch, &number) == 0) {
    return nullptr;
  }
  Result<void> there = caught([&] { return loader->seek(epoch, number); });
  return there ? another(Py_None) : raise(there.error());
}

PyObject* stop(PyObject* object, PyObject*) {
  share::Loader* loader = own(object);
  if (loader == nullptr) return nullptr;
  PyThreadState* state = PyEval_SaveThread();
  loader->stop();
  PyEval_RestoreThread(state);
  return another(Py_None);
}

PyObject* batches(PyObject* object, void*) {
  return PyLong_FromUnsignedLongLong(as<Loader>(object)->loader->batches());
}
PyObject* forked(PyObject* object, void*) {
  return PyBool_FromLong(as<Loader>(object)->forks != forks_so_far());
}
PyObject* offsets(PyObject* object, void*) {
  const share::Loader& loader = *as<Loader>(object)->loader;
  const std::size_t count = loader.options().fields.size();
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; tuple && i < count; ++i) {
    PyObject* offset = PyLong_FromSize_t(loader.offset_of(i));
    if (offset == nullptr ||
        PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), offset) != 0) {
      return nullptr;
    }
  }
  return tuple.release();
}

PyMethodDef kMethods[] = {
    {"take", take, METH_O,
     "take($self, seconds, /)\n--\n\n"
     "The next batch, across the ends of epochs: (Batch, epoch, number in the epoch, rows).\n\n"
     "None: it takes longer than `seconds`, which may be None for no limit."},
    {"wait", wait, METH_O,
     "wait($self, seconds, /)\n--\n\nWaits up to `seconds` for a batch; returns whether take() "
     "would not wait."},
    {"seek", seek, METH_VARARGS,
     "seek($self, epoch, number, /)\n--\n\nMakes this batch of that epoch the next one."},
    {"stop", stop, METH_NOARGS,
     "stop($self)\n--\n\nEnds the threads; batches stay valid.  Then no more batches can be "
     "taken."},
    {},
};
PyGetSetDef kProperties[] = {
    {"batches", batches, nullptr, "The number of batches in an epoch.", nullptr},
    {"offsets", offsets, nullptr, "The offset of each array in a Batch.", nullptr},
    {"forked", forked, nullptr, "Whether the threads belong to another process.", nullptr},
    {},
};
constexpr char kDoc[] =
    "Loader(arrays, batch, *, shuffle=False, seed=0, drop_last=False, shard=0, shards=1, ahead=2,\n"
    "       threads=1, pinned=False)\n--\n\n"
    "Gathers rows of arrays into batches, by threads that need no interpreter lock.\n\n"
    "arrays: a tuple of (Array, None) or (Array, (crop_height, crop_width, padding, random_crop,\n"
    "flip, mean, deviation, scale, dtype)).  The threads start with the first take() or wait().";
PyType_Slot kSlots[] = {
    {Py_tp_new, slot(make_new)},
    {Py_tp_dealloc, slot(dealloc)},
    {Py_tp_traverse, slot(traverse)},
    {Py_tp_clear, slot(clear)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},
    {Py_tp_doc, const_cast<char*>(kDoc)},
    {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Loader", sizeof(Loader), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, kSlots};

}  // namespace

PyType_Spec* loader_spec() { return &kSpec; }

}  // namespace pergpu::python
