// Channel and Pipes: the memory of a channel before it has ends here.  Each end gets its own
// mapping, so that what a consumer keeps at its end is out of the way of all others.
#include <fcntl.h>

#include <algorithm>
#include <new>
#include <string>

#include "python/ends.h"
#include "python/errors.h"
#include "python/given.h"

namespace pergpu::python {
namespace {

struct Channel {
  PyObject_HEAD;
  std::optional<share::Channel> channel;  // empty: closed
};

struct Pipes {
  PyObject_HEAD;
  std::optional<share::PipeEnds> ends;  // empty: closed, or an end has them
};

void dealloc_channel(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  as<Channel>(object)->channel.~optional();
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

void dealloc_pipes(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  as<Pipes>(object)->ends.~optional();
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "use create() or adopt()");
  return nullptr;
}

PyObject* wrap(PyObject* type, share::Channel channel) {
  PyObject* object = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0);
  if (object != nullptr) {
    new (&as<Channel>(object)->channel) std::optional<share::Channel>(std::move(channel));
  }
  return object;
}

PyObject* wrap(PyObject* type, share::PipeEnds ends) {
  PyObject* object = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0);
  if (object != nullptr) {
    new (&as<Pipes>(object)->ends) std::optional<share::PipeEnds>(std::move(ends));
  }
  return object;
}

bool as_count(PyObject* object, const char* what, std::uint32_t* count) {
  Py_ssize_t size = as_size(object, what);
  if (size < 0) return false;
  *count = static_cast<std::uint32_t>(std::min<Py_ssize_t>(size, UINT32_MAX));
  return true;
}

/// Of (name, slots, slot_bytes, producers, consumers, note="").  False: an exception is set.
bool read_options(PyObject* arguments, PyObject* named, share::ChannelOptions* options) {
  const char* names[] = {"name", "slots", "slot_bytes", "producers", "consumers", "note", nullptr};
  const char *name = nullptr, *note = "";
  Py_ssize_t note_size = 0;
  PyObject *slots = nullptr, *bytes = nullptr, *producers = nullptr, *consumers = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "sOOOO|s#:create", const_cast<char**>(names),
                                  &name, &slots, &bytes, &producers, &consumers, &note,
                                  &note_size) == 0) {
    return false;
  }
  Py_ssize_t slot_bytes = as_size(bytes, "slot_bytes");
  if (slot_bytes < 0 || !as_count(slots, "slots", &options->slots_per_lane) ||
      !as_count(producers, "producers", &options->producers) ||
      !as_count(consumers, "consumers", &options->consumers)) {
    return false;
  }
  options->name = name;
  options->slot_bytes = static_cast<std::uint64_t>(slot_bytes);
  options->note.assign(note, static_cast<std::size_t>(note_size));
  return true;
}

// ---- Channel ----

share::Channel* open_channel(PyObject* object) {
  std::optional<share::Channel>& channel = as<Channel>(object)->channel;
  if (channel) return &*channel;
  PyErr_SetString(PyExc_ValueError, "the channel was closed");
  return nullptr;
}

PyObject* create(PyObject* type, PyObject* arguments, PyObject* named) {
  share::ChannelOptions options;
  if (!read_options(arguments, named, &options)) return nullptr;
  Result<share::Channel> made = unlocked([&] { return share::Channel::create(options); });
  return made ? wrap(type, std::move(*made)) : raise(made.error());
}

/// The descriptor is a copy.
Result<share::Channel> adopted(int number) {
  os::UniqueFd fd(::fcntl(number, F_DUPFD_CLOEXEC, 0));
  if (!fd) return os_error("duplicate the descriptor of a channel");
  return share::Channel::adopt(std::move(fd));
}

PyObject* adopt(PyObject* type, PyObject* arguments) {
  int fd = -1;
  if (PyArg_ParseTuple(arguments, "i:adopt", &fd) == 0) return nullptr;
  Result<share::Channel> made = caught([&] { return adopted(fd); });
  if (made) return wrap(type, std::move(*made));
  if (made.error().kind != ErrorKind::Corrupt) return raise(made.error());
  PyErr_SetString(PyExc_ValueError, made.error().message.c_str());
  return nullptr;
}

PyObject* fileno(PyObject* object, PyObject*) {
  share::Channel* channel = open_channel(object);
  return channel == nullptr ? nullptr : PyLong_FromLong(channel->fd());
}

PyObject* close(PyObject* object, PyObject*) {
  as<Channel>(object)->channel.reset();
  return another(Py_None);
}

PyObject* complete(PyObject* object, PyObject*) {
  share::Channel* channel = open_channel(object);
  if (channel == nullptr) return nullptr;
  channel->complete();
  return another(Py_None);
}

PyObject* attach(PyObject* object, PyObject* arguments, PyObject* named, bool is_producer) {
  share::Channel* channel = open_channel(object);
  EndOptions options;
  if (channel == nullptr || !read_options(arguments, named, &options)) return nullptr;
  Result<share::Channel> own = caught([&] { return adopted(channel->fd()); });
  if (!own) return raise(own.error());
  Types* types = types_of(object);
  return is_producer ? make_producer(types->producer, std::move(*own), std::move(options))
                     : make_consumer(types->consumer, std::move(*own), std::move(options));
}

PyObject* producer(PyObject* object, PyObject* arguments, PyObject* named) {
  return attach(object, arguments, named, true);
}
PyObject* consumer(PyObject* object, PyObject* arguments, PyObject* named) {
  return attach(object, arguments, named, false);
}

/// [{"pid": …, "alive": …, "sequence": …}, …]
PyObject* ends_of(const std::vector<share::ChannelState::End>& ends) {
  Ref list(PyList_New(0));
  for (const share::ChannelState::End& end : ends) {
    bool is_known = end.owner.state != share::PlaceState::Vacant;
    Ref pid(is_known ? PyLong_FromUnsignedLong(end.owner.pid) : another(Py_None));
    const char* state = end.alive ? "alive" : "vacant";
    if (!end.alive && end.owner.state == share::PlaceState::Closed) state = "closed";
    if (!end.alive && end.owner.state == share::PlaceState::Left) state = "left";
    bool is_dead = end.owner.state == share::PlaceState::Dead ||
                   end.owner.state == share::PlaceState::Attached;
    if (!end.alive && is_dead) state = "dead";
    Ref told(pid ? Py_BuildValue("{s:O,s:s,s:O,s:K}", "pid", pid.get(), "state", state, "sleeping",
                                 end.sleeping ? Py_True : Py_False, "sequence",
                                 static_cast<unsigned long long>(end.sequence))
                 : nullptr);
    if (!list || !told || PyList_Append(list.get(), told.get()) != 0) return nullptr;
  }
  return list.release();
}

PyObject* describe(PyObject* object, PyObject*) {
  share::Channel* channel = open_channel(object);
  if (channel == nullptr) return nullptr;
  share::ChannelState state = channel->describe();
  std::uint64_t ready = 0, lost = 0;
  for (const share::ChannelState::LaneState& lane : state.lanes) {
    ready += lane.ready;
    lost += lane.lost;
  }
  Ref producers(ends_of(state.producers));
  Ref consumers(ends_of(state.consumers));
  if (!producers || !consumers) return nullptr;
  return Py_BuildValue("{s:O,s:O,s:K,s:K,s:O}", "producers", producers.get(), "consumers",
                       consumers.get(), "ready", static_cast<unsigned long long>(ready), "lost",
                       static_cast<unsigned long long>(lost), "complete",
                       state.complete ? Py_True : Py_False);
}

PyObject* note(PyObject* object, void*) {
  share::Channel* channel = open_channel(object);
  if (channel == nullptr) return nullptr;
  std::string text = channel->note();
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PyObject* geometry(PyObject* object, void*) {
  share::Channel* channel = open_channel(object);
  if (channel == nullptr) return nullptr;
  const share::Geometry& g = channel->geometry();
  return Py_BuildValue("{s:I,s:K,s:I,s:I}", "slots", g.slots_per_lane, "slot_bytes",
                       static_cast<unsigned long long>(g.slot_bytes), "producers", g.producers,
                       "consumers", g.consumers);
}

// ---- Pipes ----

share::PipeEnds* open_pipes(PyObject* object) {
  std::optional<share::PipeEnds>& ends = as<Pipes>(object)->ends;
  if (ends) return &*ends;
  PyErr_SetString(PyExc_ValueError,
                  "the channel was closed, or has given its descriptors to a producer or consumer");
  return nullptr;
}

PyObject* create_pipes(PyObject* type, PyObject* arguments, PyObject* named) {
  share::ChannelOptions options;
  if (!read_options(arguments, named, &options)) return nullptr;
  Result<share::PipeEnds> made = unlocked([&] { return share::PipeEnds::create(options); });
  return made ? wrap(type, std::move(*made)) : raise(made.error());
}

PyObject* adopt_pipes(PyObject* type, PyObject* arguments) {
  int numbers[5];
  if (PyArg_ParseTuple(arguments, "iiiii:adopt", &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                       &numbers[4]) == 0) {
    return nullptr;
  }
  share::PipeEnds ends;
  os::UniqueFd* fds[] = {&ends.segment, &ends.ready_read, &ends.ready_write, &ends.free_read,
                         &ends.free_write};
  for (int i = 0; i < 5; ++i) {
    fds[i]->reset(::fcntl(numbers[i], F_DUPFD_CLOEXEC, 0));
    if (!*fds[i]) return raise(os_error("duplicate descriptor " + std::to_string(numbers[i])));
  }
  return wrap(type, std::move(ends));
}

PyObject* fds(PyObject* object, PyObject*) {
  share::PipeEnds* ends = open_pipes(object);
  if (ends == nullptr) return nullptr;
  return Py_BuildValue("(iiiii)", ends->segment.get(), ends->ready_read.get(),
                       ends->ready_write.get(), ends->free_read.get(), ends->free_write.get());
}

PyObject* close_pipes(PyObject* object, PyObject*) {
  as<Pipes>(object)->ends.reset();
  return another(Py_None);
}

PyObject* attach_pipe(PyObject* object, PyObject* arguments, PyObject* named, bool is_producer) {
  EndOptions options;
  if (open_pipes(object) == nullptr || !read_options(arguments, named, &options)) return nullptr;
  share::PipeEnds ends = *std::exchange(as<Pipes>(object)->ends, std::nullopt);
  Types* types = types_of(object);
  return is_producer ? make_producer(types->producer, std::move(ends), std::move(options))
                     : make_consumer(types->consumer, std::move(ends), std::move(options));
}

PyObject* pipe_producer(PyObject* object, PyObject* arguments, PyObject* named) {
  return attach_pipe(object, arguments, named, true);
}
PyObject* pipe_consumer(PyObject* object, PyObject* arguments, PyObject* named) {
  return attach_pipe(object, arguments, named, false);
}

// ---- types ----

PyMethodDef kMethods[] = {
    {"create", method(guarded<create>), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "create($type, name, slots, slot_bytes, producers, consumers, note='')\n--\n\nMakes a "
     "channel."},
    {"adopt", adopt, METH_VARARGS | METH_CLASS,
     "adopt($type, fd, /)\n--\n\nThe channel of a descriptor, which the caller still owns."},
    {"fileno", fileno, METH_NOARGS, "fileno($self)\n--\n\nThe descriptor."},
    {"producer", method(guarded<producer>), METH_VARARGS | METH_KEYWORDS,
     "producer($self, item=None, skip=False, pinned=False)\n--\n\nTakes a producer's place."},
    {"consumer", method(guarded<consumer>), METH_VARARGS | METH_KEYWORDS,
     "consumer($self, item=None, skip=False, pinned=False)\n--\n\nTakes a consumer's place."},
    {"complete", complete, METH_NOARGS,
     "complete($self)\n--\n\nDeclares that no more producers will come."},
    {"describe", guarded<describe>, METH_NOARGS,
     "describe($self)\n--\n\nThe state of the channel."},
    {"close", close, METH_NOARGS,
     "close($self)\n--\n\nCloses it here; its producers and consumers stay open."},
    {},
};
PyGetSetDef kProperties[] = {
    {"note", guarded<note>, nullptr, "The note given to create().", nullptr},
    {"geometry", geometry, nullptr, "slots, slot_bytes, producers, consumers.", nullptr},
    {},
};
constexpr char kDoc[] = "The memory of a channel (share/channel.h).";
PyType_Slot kSlots[] = {
    {Py_tp_dealloc, slot(dealloc_channel)},
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},
    {Py_tp_doc, const_cast<char*>(kDoc)},
    {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Channel", sizeof(Channel), 0, Py_TPFLAGS_DEFAULT, kSlots};

PyMethodDef kPipeMethods[] = {
    {"create", method(guarded<create_pipes>), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "create($type, name, slots, slot_bytes, producers, consumers, note='')\n--\n\nMakes a "
     "channel."},
    {"adopt", guarded<adopt_pipes>, METH_VARARGS | METH_CLASS,
     "adopt($type, *fds)\n--\n\nThe channel of five descriptors, which the caller still owns."},
    {"fds", fds, METH_NOARGS, "fds($self)\n--\n\nThe five descriptors."},
    {"producer", method(guarded<pipe_producer>), METH_VARARGS | METH_KEYWORDS,
     "producer($self, item=None, skip=False, pinned=False)\n--\n\nMakes a producer, which takes "
     "the descriptors."},
    {"consumer", method(guarded<pipe_consumer>), METH_VARARGS | METH_KEYWORDS,
     "consumer($self, item=None, skip=False, pinned=False)\n--\n\nMakes a consumer, which takes "
     "the descriptors."},
    {"close", close_pipes, METH_NOARGS, "close($self)\n--\n\nCloses the descriptors."},
    {},
};
constexpr char kPipeDoc[] = "The memory and the pipes of a channel (share/pipe_channel.h).";
PyType_Slot kPipeSlots[] = {
    {Py_tp_dealloc, slot(dealloc_pipes)},
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_methods, kPipeMethods},
    {Py_tp_doc, const_cast<char*>(kPipeDoc)},
    {0, nullptr},
};
PyType_Spec kPipeSpec = {"pergpu._share.Pipes", sizeof(Pipes), 0, Py_TPFLAGS_DEFAULT, kPipeSlots};

}  // namespace

PyType_Spec* channel_spec() { return &kSpec; }
PyType_Spec* pipes_spec() { return &kPipeSpec; }

PyObject* spec_of_example(PyObject* module, PyObject* like) {
  Types* types = static_cast<Types*>(PyModule_GetState(module));
  std::unique_ptr<Given> given = open_given(like, types->array);
  Plan plan = given ? plan_of(*given) : nullptr;
  return plan ? spec_of(*plan) : nullptr;
}

PyObject* size_of_spec(PyObject*, PyObject* spec) {
  Plan plan = plan_of_spec(spec);
  return plan ? PyLong_FromUnsignedLongLong(plan->nbytes) : nullptr;
}

}  // namespace pergpu::python
