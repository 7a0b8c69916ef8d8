// The exceptions of channels are classes of pergpu/share/_channel.py, which is imported when one is
// raised.
#include "python/ends.h"

#include "os/clock.h"
#include "python/errors.h"
#include "python/given.h"

namespace pergpu::python {

bool read_options(PyObject* arguments, PyObject* named, EndOptions* options) {
  const char* names[] = {"item", "skip", "pinned", nullptr};
  PyObject* item = Py_None;
  int skip = 0, pinned = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|Opp", const_cast<char**>(names), &item, &skip,
                                  &pinned) == 0) {
    return false;
  }
  options->skip = skip != 0;
  options->pinned = pinned != 0;
  if (item == Py_None) return true;
  options->plan = plan_of_spec(item);
  return options->plan != nullptr;
}

SlotMemory slots_of(const share::Channel& channel) {
  return {.mapping = &channel.core().mapping, .slots_at = channel.geometry().slots_at};
}

bool pin(const SlotMemory& memory, share::Pinned* pinned) {
  std::byte* begin = memory.mapping->data() + memory.slots_at;
  std::size_t size = memory.mapping->size() - memory.slots_at;
  Result<share::Pinned> made = unlocked([&] { return share::Pinned::pin(begin, size); });
  if (!made) {
    PyErr_SetString(PyExc_RuntimeError, made.error().message.c_str());
    return false;
  }
  *pinned = std::move(*made);
  return true;
}

bool deadline_of(PyObject* timeout, std::int64_t* deadline_ns) {
  *deadline_ns = share::kForever;
  if (timeout == nullptr || timeout == Py_None) return true;
  double seconds = PyFloat_AsDouble(timeout);
  if (seconds == -1.0 && PyErr_Occurred() != nullptr) return false;
  if (!(seconds >= 0)) {
    PyErr_Format(PyExc_ValueError, "timeout is %R; expected a number of seconds of at least 0",
                 timeout);
    return false;
  }
  constexpr double kLongest = 1e9;
  if (seconds == 0) {
    *deadline_ns = 0;
  } else if (seconds < kLongest) {
    *deadline_ns = os::awake_now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  }
  return true;
}

bool is_past(std::int64_t deadline_ns) {
  return deadline_ns <= 0 || (deadline_ns != share::kForever && os::awake_now_ns() >= deadline_ns);
}

bool is_free(bool busy) {
  if (!busy) return true;
  PyErr_SetString(PyExc_RuntimeError,
                  "another thread of this process is using this end of the channel; open one end "
                  "per thread");
  return false;
}

void raise_gone(bool died, const char* side, const share::Peer& peer) {
  Ref module(PyImport_ImportModule("pergpu.share._channel"));
  if (!module) return;
  Ref error(PyObject_CallMethod(module.get(), "gone", "isIKI", died ? 1 : 0, side, peer.pid,
                                static_cast<unsigned long long>(peer.last_sequence), peer.lost));
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

void raise_corrupt(const char* why) {
  raise(Error{ErrorKind::Corrupt, 0, std::string("channel: ") + why});
}

void raise_stale(const char* why) { PyErr_Format(PyExc_RuntimeError, "channel: %s", why); }

void raise_timeout(const char* what) { PyErr_SetString(PyExc_TimeoutError, what); }

}  // namespace pergpu::python
