// What every type of this folder needs: references, the types by their module, work without the
// interpreter lock.
//
// References are counted by Py_IncRef() and Py_DecRef(), functions of the interpreter: the macros
// would put what 3.11 does into the binary, and None of 3.12 is counted otherwise.
#pragma once

#include <new>
#include <utility>

#include "python/limited_api.h"
#include "result.h"

namespace pergpu::python {

/// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* object) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_DecRef(object_); }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

inline PyObject* another(PyObject* object) {
  Py_IncRef(object);
  return object;
}

/// The module's types; they cannot be subclassed, so each knows its module.
struct Types {
  PyTypeObject* memory = nullptr;
  PyTypeObject* region = nullptr;
  PyTypeObject* array = nullptr;
  PyTypeObject* parameters = nullptr;
  PyTypeObject* metrics_table = nullptr;
  PyTypeObject* metrics_writer = nullptr;
  PyTypeObject* channel = nullptr;
  PyTypeObject* pipes = nullptr;
  PyTypeObject* producer = nullptr;
  PyTypeObject* slot = nullptr;
  PyTypeObject* consumer = nullptr;
  PyTypeObject* item = nullptr;
  PyTypeObject* loader = nullptr;
  PyTypeObject* batch = nullptr;
};
inline Types* types_of(PyTypeObject* type) {
  return static_cast<Types*>(PyType_GetModuleState(type));
}
inline Types* types_of(PyObject* object) { return types_of(Py_TYPE(object)); }

PyType_Spec* memory_spec();
PyType_Spec* region_spec();
PyType_Spec* array_spec();
PyType_Spec* parameters_spec();
PyType_Spec* metrics_table_spec();
PyType_Spec* metrics_writer_spec();
PyType_Spec* channel_spec();
PyType_Spec* pipes_spec();
PyType_Spec* producer_spec();
PyType_Spec* slot_spec();
PyType_Spec* consumer_spec();
PyType_Spec* item_spec();
PyType_Spec* loader_spec();
PyType_Spec* batch_spec();

/// The object as the structure of its type.
template <typename T>
T* as(PyObject* object) {
  return reinterpret_cast<T*>(object);
}

/// For the tables of methods and slots, whose functions differ.
template <typename F>
PyCFunction method(F* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
template <typename F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

/// `work()`, which returns a Result: what the library throws ends here.
template <typename Work>
auto caught(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::Full, ENOMEM, "out of memory"};
  }
}

/// For the tables, too: the function, where too little memory is a MemoryError.
template <auto kFunction>
struct Guarded;
template <typename... Arguments, PyObject* (*kFunction)(Arguments...)>
struct Guarded<kFunction> {
  static PyObject* call(Arguments... arguments) {
    try {
      return kFunction(arguments...);
    } catch (const std::bad_alloc&) {
      return PyErr_NoMemory();
    }
  }
};
template <auto kFunction>
constexpr auto guarded = &Guarded<kFunction>::call;

/// The same without the interpreter lock.  No object of C++ that holds a reference may live across
/// this: at the end of an interpreter a thread may end where it asks for the lock.
template <typename Work>
auto unlocked(Work&& work) -> decltype(work()) {
  PyThreadState* state = PyEval_SaveThread();
  auto done = caught(work);
  PyEval_RestoreThread(state);
  return done;
}

/// Of the arguments of __exit__(): whether an exception ends the block.
inline bool has_failed(PyObject* arguments) {
  return PyTuple_Size(arguments) > 0 && PyTuple_GetItem(arguments, 0) != Py_None;
}

/// `end()`, which gives back `size` bytes: without the lock where that may take longer than to
/// switch to another thread.
template <typename End>
void give_back(Py_ssize_t size, End&& end) {
  bool much = size >= Py_ssize_t{1} << 20 && Py_IsInitialized() != 0;
  PyThreadState* state = much ? PyEval_SaveThread() : nullptr;
  end();
  if (state != nullptr) PyEval_RestoreThread(state);
}

}  // namespace pergpu::python
