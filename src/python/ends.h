// What the two kinds of ends of a channel have in common for Python: waiting without the
// interpreter's lock, and reporting what became of a peer.
#pragma once

#include <cstdint>
#include <optional>

#include "python/item_layout.h"
#include "python/limited_api.h"
#include "python/object.h"
#include "share/channel.h"
#include "share/pinning.h"
#include "share/pipe_channel.h"

namespace pergpu::python {

/// How an end is to behave.
struct EndOptions {
  Plan plan;          // what items are; nullptr: each has its own layout
  bool skip = false;  // deaths are not reported
  bool pinned = false;
};

/// Of the arguments (item=None, skip=False, pinned=False).  False: an exception is set.
bool read_options(PyObject* arguments, PyObject* named, EndOptions* options);

/// The slots, in a mapping that an end has for itself.
struct SlotMemory {
  const share::Mapping* mapping = nullptr;
  std::uint64_t slots_at = 0;
};
SlotMemory slots_of(const share::Channel& channel);
/// False: it cannot be pinned, and a RuntimeError is set.
bool pin(const SlotMemory& memory, share::Pinned* pinned);

/// Seconds; None is forever, 0 not at all.  False: an exception is set.
bool deadline_of(PyObject* timeout, std::int64_t* deadline_ns);
bool is_past(std::int64_t deadline_ns);

/// `wait()` without the lock, while no other thread may use the end.  False: an exception is set,
/// as by Ctrl-C.
template <typename Wait>
bool doze(bool* busy, Wait&& wait) {
  *busy = true;
  PyThreadState* state = PyEval_SaveThread();
  wait();
  PyEval_RestoreThread(state);
  *busy = false;
  return PyErr_CheckSignals() == 0;
}

/// False: another thread waits in this end, and a RuntimeError is set.
bool is_free(bool busy);

/// Sets the exception for a peer that died, or left without closing.
void raise_gone(bool died, const char* side, const share::Peer& peer);
void raise_corrupt(const char* why);
void raise_stale(const char* why);
void raise_timeout(const char* what);

/// spec_of_example(like), size_of_spec(spec) of the module.
PyObject* spec_of_example(PyObject* module, PyObject* like);
PyObject* size_of_spec(PyObject* module, PyObject* spec);

// ---- made by a channel; nullptr: an exception is set ----

PyObject* make_producer(PyTypeObject* type, share::Channel channel, EndOptions options);
PyObject* make_producer(PyTypeObject* type, share::PipeEnds given, EndOptions options);
PyObject* make_consumer(PyTypeObject* type, share::Channel channel, EndOptions options);
PyObject* make_consumer(PyTypeObject* type, share::PipeEnds given, EndOptions options);

}  // namespace pergpu::python
