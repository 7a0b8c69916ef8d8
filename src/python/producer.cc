// Producer and Slot.  put() is one call: a slot is taken, filled and sent.
//
// What holds references of Python is not in scope while the lock is let go (object.h): the arrays
// that are copied are not lent for that time.
#include <cstring>
#include <new>
#include <variant>

#include "python/ends.h"
#include "python/errors.h"
#include "python/given.h"
#include "python/lease.h"

namespace pergpu::python {
namespace {

using share::Outcome;

/// So much is copied without the lock: less takes no longer than to switch to another thread.
constexpr std::uint64_t kMuch = 1 << 20;

struct Ends {
  std::optional<share::Channel> channel;  // with its own mapping
  std::variant<std::monostate, std::unique_ptr<share::Producer>,
               std::unique_ptr<share::PipeProducer>>
      end;
  share::Pinned pinned;
  EndOptions options;
  Plan last;  // of the last item, where each has its own layout
  std::uint64_t slot_bytes = 0;
};

struct Producer {
  PyObject_HEAD;
  bool busy;
  bool closed;
  Ends its;
};

struct Slot {
  Lease lease;
  share::Slot slot;
};

template <typename Visit>
auto with(Producer* self, Visit&& visit) {
  if (auto* ring = std::get_if<1>(&self->its.end)) return visit(**ring);
  return visit(*std::get<2>(self->its.end));
}

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  as<Producer>(object)->its.~Ends();
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "use Channel.producer() to get a Producer, and its slot() to get a Slot");
  return nullptr;
}

bool is_open(Producer* self) {
  if (!is_free(self->busy)) return false;
  if (!self->closed) return true;
  PyErr_SetString(PyExc_ValueError, "this producer is closed");
  return false;
}

/// False: an exception is set.
bool acquire(Producer* self, std::int64_t deadline, share::Slot* slot) {
  while (true) {
    if (!is_open(self)) return false;
    Result<share::Acquired> tried = caught([&]() -> Result<share::Acquired> {
      return with(self, [](auto& end) { return end.acquire(0); });
    });
    if (!tried) return raise(tried.error()) != nullptr;
    switch (tried->outcome) {
      case Outcome::Ready:
        *slot = tried->slot;
        return true;
      case Outcome::PeerDied:
        if (self->its.options.skip) continue;
        raise_gone(true, "consumer", tried->peer);
        return false;
      case Outcome::PeerLeft:
        continue;  // what it did not take goes to others
      case Outcome::Ended:
        PyErr_SetString(PyExc_BrokenPipeError, "no consumer is left, and none can come");
        return false;
      case Outcome::Corrupt:
        raise_corrupt(tried->why);
        return false;
      case Outcome::Stale:
        raise_stale(tried->why);
        return false;
      case Outcome::TimedOut:
      case Outcome::Interrupted:
        break;
    }
    if (is_past(deadline)) {
      raise_timeout("all slots of this producer are full, or held by consumers");
      return false;
    }
    if (!doze(&self->busy, [&] { with(self, [&](auto& end) { end.wait(deadline); }); })) {
      return false;
    }
  }
}

bool publish(Producer* self, const share::Slot& slot, std::uint64_t bytes) {
  if (!is_free(self->busy)) return false;
  Result<void> done =
      caught([&] { return with(self, [&](auto& end) { return end.publish(slot, bytes); }); });
  return done || raise(done.error()) != nullptr;
}

void abandon(Producer* self, const share::Slot& slot) {
  // Not ours any more, or closed: then there is nothing to give up.
  Result<void> done = with(self, [&](auto& end) { return end.abandon(slot); });
  static_cast<void>(done);
}

/// How the item is to lie.  nullptr: an exception is set.
Plan plan_for(Producer* self, Given& given) {
  const Plan& wanted = self->its.options.plan;
  if (wanted) return bring_to(given, *wanted) ? wanted : nullptr;
  if (self->its.last && is_as(given, *self->its.last)) return self->its.last;
  Plan plan = plan_of(given);
  if (plan && plan->nbytes > self->its.slot_bytes) {
    PyErr_Format(PyExc_ValueError, "the item has %llu bytes with its head, but a slot has %llu",
                 static_cast<unsigned long long>(plan->nbytes),
                 static_cast<unsigned long long>(self->its.slot_bytes));
    return nullptr;
  }
  if (plan) self->its.last = plan;
  return plan;
}

void fill(const Given& given, const ItemLayout& plan, std::byte* data) {
  std::memcpy(data, plan.head.data(), plan.head.size());
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    given.sources[i].copy_to(data + plan.parts[i].offset);
  }
}

PyObject* put(PyObject* object, PyObject* arguments, PyObject* named) {
  const char* names[] = {"value", "timeout", nullptr};
  PyObject *value = nullptr, *timeout = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "O|O:put", const_cast<char**>(names), &value,
                                  &timeout) == 0) {
    return nullptr;
  }
  Producer* self = as<Producer>(object);
  std::int64_t deadline = 0;
  if (!deadline_of(timeout, &deadline)) return nullptr;
  std::unique_ptr<Given> given = open_given(value, types_of(object)->array);
  if (!given) return nullptr;
  Plan plan = plan_for(self, *given);
  if (!plan) return nullptr;
  share::Slot slot;
  Given* lent = given.release();
  bool acquired = acquire(self, deadline, &slot);
  if (acquired && plan->nbytes >= kMuch) {
    self->busy = true;  // who detached meanwhile would leave the slot to another process
    PyThreadState* state = PyEval_SaveThread();
    fill(*lent, *plan, slot.data);
    PyEval_RestoreThread(state);
    self->busy = false;
  } else if (acquired) {
    fill(*lent, *plan, slot.data);
  }
  given.reset(lent);
  if (!acquired) return nullptr;
  if (publish(self, slot, plan->nbytes)) return another(Py_None);
  abandon(self, slot);
  return nullptr;
}

PyObject* slot_of(PyObject* object, PyObject* arguments, PyObject* named) {
  const char* names[] = {"like", "timeout", nullptr};
  PyObject *like = Py_None, *timeout = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|OO:slot", const_cast<char**>(names), &like,
                                  &timeout) == 0) {
    return nullptr;
  }
  Producer* self = as<Producer>(object);
  Types* types = types_of(object);
  std::int64_t deadline = 0;
  if (!deadline_of(timeout, &deadline)) return nullptr;
  Plan plan = self->its.options.plan;
  if (like != Py_None) {
    std::unique_ptr<Given> given = open_given(like, types->array);
    if (!given) return nullptr;
    plan = plan_for(self, *given);
    if (!plan) return nullptr;
  } else if (!plan) {
    PyErr_SetString(PyExc_TypeError,
                    "items of this channel can have any form: pass slot(like=…) arrays of the form "
                    "that the slot will hold");
    return nullptr;
  }
  share::Slot slot;
  if (!acquire(self, deadline, &slot)) return nullptr;
  PyObject* made = make_lease(types->slot, object, slot.data, std::move(plan));
  if (made == nullptr) {
    abandon(self, slot);
    return nullptr;
  }
  as<Slot>(made)->slot = slot;
  return made;
}

PyObject* finish(PyObject* object, bool is_end) {
  Producer* self = as<Producer>(object);
  if (!is_free(self->busy)) return nullptr;
  if (!self->closed) {
    self->closed = true;
    with(self, [&](auto& end) { is_end ? end.close() : end.detach(); });
    self->its.pinned = share::Pinned();
  }
  return another(Py_None);
}

PyObject* close(PyObject* object, PyObject*) { return finish(object, true); }
PyObject* detach(PyObject* object, PyObject*) { return finish(object, false); }
PyObject* enter(PyObject* object, PyObject*) { return another(object); }
PyObject* exit(PyObject* object, PyObject* arguments) {
  return finish(object, !has_failed(arguments));
}

PyObject* fileno(PyObject* object, PyObject*) {
  auto* pipe = std::get_if<2>(&as<Producer>(object)->its.end);
  if (pipe != nullptr) return PyLong_FromLong((*pipe)->fd());
  PyErr_SetString(PyExc_ValueError, "only ends of a PipeChannel have a descriptor to wait for");
  return nullptr;
}

PyObject* closed(PyObject* object, void*) { return PyBool_FromLong(as<Producer>(object)->closed); }
PyObject* index(PyObject* object, void*) {
  auto* ring = std::get_if<1>(&as<Producer>(object)->its.end);
  if (ring == nullptr) return another(Py_None);
  return PyLong_FromUnsignedLong((*ring)->index());
}

// ---- Slot ----

void end_slot(PyObject* object) {
  Lease* lease = as<Lease>(object);
  if (!lease->over) abandon(as<Producer>(lease->end), as<Slot>(object)->slot);
  end_lease(object);
}

PyObject* publish_slot(PyObject* object, PyObject*) {
  Lease* lease = as<Lease>(object);
  if (lease->over) {
    PyErr_SetString(PyExc_ValueError, "the slot was already published or abandoned");
    return nullptr;
  }
  std::memcpy(lease->data, lease->plan->head.data(), lease->plan->head.size());
  if (!publish(as<Producer>(lease->end), as<Slot>(object)->slot, lease->plan->nbytes)) {
    return nullptr;
  }
  lease->over = true;
  return another(Py_None);
}

PyObject* abandon_slot(PyObject* object, PyObject*) {
  Lease* lease = as<Lease>(object);
  if (!is_free(as<Producer>(lease->end)->busy)) return nullptr;
  if (!lease->over) abandon(as<Producer>(lease->end), as<Slot>(object)->slot);
  lease->over = true;
  return another(Py_None);
}

PyObject* exit_slot(PyObject* object, PyObject* arguments) {
  if (as<Lease>(object)->over) return another(Py_None);
  return has_failed(arguments) ? abandon_slot(object, nullptr) : publish_slot(object, nullptr);
}

void release_array(PyObject* object, Py_buffer*) { --as<Lease>(object)->exports; }

// ---- types ----

PyMethodDef kMethods[] = {
    {"put", method(guarded<put>), METH_VARARGS | METH_KEYWORDS,
     "put($self, value, timeout=None)\n--\n\nCopies an array, or a tuple or dict of arrays, into a "
     "slot and sends it."},
    {"slot", method(guarded<slot_of>), METH_VARARGS | METH_KEYWORDS,
     "slot($self, like=None, timeout=None)\n--\n\nA slot to fill in place."},
    {"close", close, METH_NOARGS, "close($self)\n--\n\nSends nothing more."},
    {"detach", detach, METH_NOARGS,
     "detach($self)\n--\n\nLeaves without close(): another producer may take the place."},
    {"fileno", fileno, METH_NOARGS,
     "fileno($self)\n--\n\nReadable when there may be a free slot.  ValueError: not one of a "
     "PipeChannel."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", exit, METH_VARARGS, nullptr},
    {},
};
PyGetSetDef kProperties[] = {
    {"closed", closed, nullptr, "Whether it is closed or detached.", nullptr},
    {"index", index, nullptr, "Its index in the channel, from 0; None with pipes.", nullptr},
    {},
};
constexpr char kDoc[] = "The end of a channel that sends items.";
PyType_Slot kSlots[] = {
    {Py_tp_dealloc, slot(dealloc)}, {Py_tp_new, slot(refuse_new)},        {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},    {Py_tp_doc, const_cast<char*>(kDoc)}, {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Producer", sizeof(Producer), 0, Py_TPFLAGS_DEFAULT, kSlots};

PyMethodDef kSlotMethods[] = {
    PERGPU_LEASE_METHODS,
    {"publish", publish_slot, METH_NOARGS, "publish($self)\n--\n\nSends the slot."},
    {"abandon", abandon_slot, METH_NOARGS,
     "abandon($self)\n--\n\nSends nothing; the slot is free again."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", exit_slot, METH_VARARGS, nullptr},
    {},
};
PyGetSetDef kSlotProperties[] = {PERGPU_LEASE_PROPERTIES, {}};
constexpr char kSlotDoc[] = "A slot of a channel that is being filled.";
PyType_Slot kSlotSlots[] = {
    {Py_tp_dealloc, slot(end_slot)},
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_methods, kSlotMethods},
    {Py_tp_getset, kSlotProperties},
    {Py_tp_doc, const_cast<char*>(kSlotDoc)},
    {Py_bf_releasebuffer, slot(release_array)},
    PERGPU_LEASE_SLOTS,
    {0, nullptr},
};
PyType_Spec kSlotSpec = {"pergpu._share.Slot", sizeof(Slot), 0, Py_TPFLAGS_DEFAULT, kSlotSlots};

/// False: an exception is set.
bool fits(const EndOptions& options, std::uint64_t slot_bytes) {
  if (!options.plan || options.plan->nbytes <= slot_bytes) return true;
  PyErr_Format(PyExc_ValueError, "an item has %llu bytes with its head, but a slot has %llu",
               static_cast<unsigned long long>(options.plan->nbytes),
               static_cast<unsigned long long>(slot_bytes));
  return false;
}

PyObject* make(PyTypeObject* type, Ends ends) {
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (object != nullptr) new (&as<Producer>(object)->its) Ends(std::move(ends));
  return object;
}

}  // namespace

PyType_Spec* producer_spec() { return &kSpec; }
PyType_Spec* slot_spec() { return &kSlotSpec; }

PyObject* make_producer(PyTypeObject* type, share::Channel channel, EndOptions options) {
  Ends ends;
  ends.slot_bytes = channel.geometry().slot_bytes;
  if (!fits(options, ends.slot_bytes)) return nullptr;
  // First: an end that attaches and goes again is reported.
  if (options.pinned && !pin(slots_of(channel), &ends.pinned)) return nullptr;
  Result<std::unique_ptr<share::Producer>> end =
      unlocked([&] { return channel.attach_producer(); });
  if (!end) return raise(end.error());
  ends.end = std::move(*end);
  ends.channel = std::move(channel);
  ends.options = std::move(options);
  return make(type, std::move(ends));
}

PyObject* make_producer(PyTypeObject* type, share::PipeEnds given, EndOptions options) {
  Result<share::PipeProducer> end =
      caught([&] { return share::PipeProducer::attach(std::move(given)); });
  if (!end) return raise(end.error());
  auto producer = std::make_unique<share::PipeProducer>(std::move(*end));
  Ends ends;
  ends.slot_bytes = producer->slot_bytes();
  if (!fits(options, ends.slot_bytes)) return nullptr;
  SlotMemory memory = {.mapping = &producer->mapping(), .slots_at = producer->slots_at()};
  if (options.pinned && !pin(memory, &ends.pinned)) return nullptr;
  ends.end = std::move(producer);
  ends.options = std::move(options);
  return make(type, std::move(ends));
}

}  // namespace pergpu::python
