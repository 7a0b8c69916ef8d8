// Consumer and Item.
//
// An item's slot is given back when the item and all that was made of it are gone, or, after
// release(), when all that was made of it is.  That may happen in any thread that has the
// interpreter's lock, also while another one waits in get() without it: share::Consumer allows
// that.
//
// A consumer that is closed gives all its slots back.  What is still looked at is kept before that,
// which its own mapping is for: the pages of those slots become this process's.
#include <cstring>
#include <new>
#include <variant>

#include "python/ends.h"
#include "python/errors.h"
#include "python/lease.h"

namespace pergpu::python {
namespace {

using share::Outcome;

struct Item;

struct Ends {
  std::optional<share::Channel> channel;
  std::variant<std::monostate, std::unique_ptr<share::Consumer>,
               std::unique_ptr<share::PipeConsumer>>
      end;
  SlotMemory memory;
  share::Pinned pinned;
  EndOptions options;
  Plan last;
};

struct Consumer {
  PyObject_HEAD;
  bool busy;
  bool closed;
  Item* first;  // of those whose slots are not given back
  Ends its;
};

struct Item {
  Lease lease;
  share::Item item;
  bool is_held;
  Item* next;
  Item* previous;
};

template <typename Visit>
auto with(Consumer* self, Visit&& visit) {
  if (auto* ring = std::get_if<1>(&self->its.end)) return visit(**ring);
  return visit(*std::get<2>(self->its.end));
}

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  as<Consumer>(object)->its.~Ends();
  PyObject_Free(object);
  Py_DecRef(reinterpret_cast<PyObject*>(type));
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "use Channel.consumer() to get a Consumer, and its get() to get an Item");
  return nullptr;
}

// ---- Item ----

void hold(Consumer* self, Item* item) {
  item->is_held = true;
  item->next = self->first;
  if (self->first != nullptr) self->first->previous = item;
  self->first = item;
}

void give_back(Item* item) {
  if (!item->is_held) return;
  item->is_held = false;
  Consumer* self = as<Consumer>(item->lease.end);
  if (item->next != nullptr) item->next->previous = item->previous;
  (item->previous != nullptr ? item->previous->next : self->first) = item->next;
  if (self->closed) return;
  // In a forked process the slot is its parent's: refused, which is right.
  Result<void> done = with(self, [&](auto& end) { return end.release(item->item); });
  static_cast<void>(done);
}

void end_item(PyObject* object) {
  give_back(as<Item>(object));
  end_lease(object);
}

void release_array(PyObject* object, Py_buffer*) {
  Lease* lease = as<Lease>(object);
  if (--lease->exports == 0 && lease->over) give_back(as<Item>(object));
}

PyObject* release(PyObject* object, PyObject*) {
  Lease* lease = as<Lease>(object);
  lease->over = true;
  if (lease->exports == 0) give_back(as<Item>(object));
  return another(Py_None);
}

PyObject* exit_item(PyObject* object, PyObject*) { return release(object, nullptr); }
PyObject* enter(PyObject* object, PyObject*) { return another(object); }
PyObject* sequence(PyObject* object, void*) {
  return PyLong_FromUnsignedLongLong(as<Item>(object)->item.sequence);
}
PyObject* producer(PyObject* object, void*) {
  return PyLong_FromUnsignedLong(as<Item>(object)->item.producer);
}

// ---- Consumer ----

enum class Came { Item, End, Error };

/// Error: an exception is set.
Came take(Consumer* self, std::int64_t deadline, share::Item* item) {
  while (true) {
    if (!is_free(self->busy)) return Came::Error;
    if (self->closed) {
      PyErr_SetString(PyExc_ValueError, "this consumer is closed");
      return Came::Error;
    }
    Result<share::Taken> tried = caught([&]() -> Result<share::Taken> {
      return with(self, [](auto& end) { return end.take(0); });
    });
    if (!tried) {
      raise(tried.error());
      return Came::Error;
    }
    switch (tried->outcome) {
      case Outcome::Ready:
        *item = tried->item;
        return Came::Item;
      case Outcome::Ended:
        return Came::End;
      case Outcome::PeerDied:
      case Outcome::PeerLeft:
        if (self->its.options.skip) continue;
        raise_gone(tried->outcome == Outcome::PeerDied, "producer", tried->peer);
        return Came::Error;
      case Outcome::Corrupt:
        raise_corrupt(tried->why);
        return Came::Error;
      case Outcome::Stale:
        raise_stale(tried->why);
        return Came::Error;
      case Outcome::TimedOut:
      case Outcome::Interrupted:
        break;
    }
    if (is_past(deadline)) {
      raise_timeout("nothing came");
      return Came::Error;
    }
    if (!doze(&self->busy, [&] { with(self, [&](auto& end) { end.wait(deadline); }); })) {
      return Came::Error;
    }
  }
}

/// What lies in the slot; that of the item before, as a rule.  nullptr: an exception is set.
Plan plan_of_item(Consumer* self, const share::Item& item) {
  const Plan& last = self->its.last;
  if (last && last->nbytes == item.bytes &&
      std::memcmp(last->head.data(), item.data, last->head.size()) == 0) {
    return last;
  }
  Result<ItemLayout> read = caught([&] { return read_layout(item.data, item.bytes); });
  if (!read) {
    raise(read.error());
    return nullptr;
  }
  self->its.last = std::make_shared<const ItemLayout>(std::move(*read));
  return self->its.last;
}

PyObject* made_of(PyObject* object, const share::Item& item) {
  Consumer* self = as<Consumer>(object);
  Plan plan = plan_of_item(self, item);
  PyObject* made =
      plan ? make_lease(types_of(object)->item, object, item.data, std::move(plan)) : nullptr;
  if (made == nullptr) {
    Result<void> done = with(self, [&](auto& end) { return end.release(item); });
    static_cast<void>(done);
    return nullptr;
  }
  as<Item>(made)->item = item;
  hold(self, as<Item>(made));
  return made;
}

PyObject* get(PyObject* object, PyObject* arguments, PyObject* named) {
  const char* names[] = {"timeout", nullptr};
  PyObject* timeout = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O:get", const_cast<char**>(names),
                                  &timeout) == 0) {
    return nullptr;
  }
  std::int64_t deadline = 0;
  if (!deadline_of(timeout, &deadline)) return nullptr;
  share::Item item;
  switch (take(as<Consumer>(object), deadline, &item)) {
    case Came::Item:
      return made_of(object, item);
    case Came::End:
      PyErr_SetString(PyExc_EOFError, "all producers have closed, and all items were taken");
      return nullptr;
    case Came::Error:
      return nullptr;
  }
  return nullptr;
}

PyObject* next(PyObject* object) {
  share::Item item;
  bool came = take(as<Consumer>(object), share::kForever, &item) == Came::Item;
  return came ? made_of(object, item) : nullptr;  // without an exception: the end
}

/// False: an exception is set.
bool keep_what_is_looked_at(Consumer* self) {
  for (Item* item = self->first; item != nullptr; item = item->next) {
    const share::Mapping& mapping = *self->its.memory.mapping;
    auto offset = static_cast<std::size_t>(item->item.data - mapping.data());
    Result<void> kept = mapping.keep(offset, item->lease.plan->nbytes);
    if (!kept) return raise(kept.error()) != nullptr;
  }
  return true;
}

PyObject* close(PyObject* object, PyObject*) {
  Consumer* self = as<Consumer>(object);
  if (!is_free(self->busy)) return nullptr;
  if (self->closed) return another(Py_None);
  self->its.pinned = share::Pinned();  // CUDA would go on to use the pages of before
  if (!keep_what_is_looked_at(self)) return nullptr;
  if (auto* ring = std::get_if<1>(&self->its.end)) {
    (*ring)->detach();
  } else {
    auto& pipe = std::get<2>(self->its.end);
    for (Item* item = self->first; item != nullptr; item = item->next) {
      Result<void> done = pipe->release(item->item);
      static_cast<void>(done);
    }
    pipe->close();
  }
  self->closed = true;
  return another(Py_None);
}

PyObject* exit(PyObject* object, PyObject*) { return close(object, nullptr); }

PyObject* fileno(PyObject* object, PyObject*) {
  auto* pipe = std::get_if<2>(&as<Consumer>(object)->its.end);
  if (pipe != nullptr) return PyLong_FromLong((*pipe)->fd());
  PyErr_SetString(PyExc_ValueError, "only ends of a PipeChannel have a descriptor to wait for");
  return nullptr;
}

PyObject* closed(PyObject* object, void*) { return PyBool_FromLong(as<Consumer>(object)->closed); }
PyObject* index(PyObject* object, void*) {
  auto* ring = std::get_if<1>(&as<Consumer>(object)->its.end);
  if (ring == nullptr) return another(Py_None);
  return PyLong_FromUnsignedLong((*ring)->index());
}

// ---- types ----

PyMethodDef kMethods[] = {
    {"get", method(guarded<get>), METH_VARARGS | METH_KEYWORDS,
     "get($self, timeout=None)\n--\n\nThe next item.  EOFError: no more will come."},
    {"close", close, METH_NOARGS,
     "close($self)\n--\n\nTakes no more items.  Items in use are copied for this process, at the "
     "same\naddresses."},
    {"fileno", fileno, METH_NOARGS,
     "fileno($self)\n--\n\nReadable when there may be an item, and at the end.  ValueError: not "
     "one of a\nPipeChannel."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", exit, METH_VARARGS, nullptr},
    {},
};
PyGetSetDef kProperties[] = {
    {"closed", closed, nullptr, "Whether it is closed.", nullptr},
    {"index", index, nullptr, "Its index in the channel, from 0; None with pipes.", nullptr},
    {},
};
constexpr char kDoc[] = "The end of a channel that receives items; iterable.";
PyType_Slot kSlots[] = {
    {Py_tp_dealloc, slot(dealloc)},
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},
    {Py_tp_iter, slot(PyObject_SelfIter)},
    {Py_tp_iternext, slot(guarded<next>)},
    {Py_tp_doc, const_cast<char*>(kDoc)},
    {0, nullptr},
};
PyType_Spec kSpec = {"pergpu._share.Consumer", sizeof(Consumer), 0, Py_TPFLAGS_DEFAULT, kSlots};

PyMethodDef kItemMethods[] = {
    PERGPU_LEASE_METHODS,
    {"release", release, METH_NOARGS,
     "release($self)\n--\n\nReturns the slot once everything made from the item is gone."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", exit_item, METH_VARARGS, nullptr},
    {},
};
PyGetSetDef kItemProperties[] = {
    PERGPU_LEASE_PROPERTIES,
    {"sequence", sequence, nullptr, "Its number among the items of its producer, from 1.", nullptr},
    {"producer", producer, nullptr, "The index of its producer, from 0.", nullptr},
    {},
};
constexpr char kItemDoc[] = "An item from a channel, in its slot.";
PyType_Slot kItemSlots[] = {
    {Py_tp_dealloc, slot(end_item)},
    {Py_tp_new, slot(refuse_new)},
    {Py_tp_methods, kItemMethods},
    {Py_tp_getset, kItemProperties},
    {Py_tp_doc, const_cast<char*>(kItemDoc)},
    {Py_bf_releasebuffer, slot(release_array)},
    PERGPU_LEASE_SLOTS,
    {0, nullptr},
};
PyType_Spec kItemSpec = {"pergpu._share.Item", sizeof(Item), 0, Py_TPFLAGS_DEFAULT, kItemSlots};

PyObject* make(PyTypeObject* type, Ends ends) {
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (object != nullptr) new (&as<Consumer>(object)->its) Ends(std::move(ends));
  return object;
}

}  // namespace

PyType_Spec* consumer_spec() { return &kSpec; }
PyType_Spec* item_spec() { return &kItemSpec; }

PyObject* make_consumer(PyTypeObject* type, share::Channel channel, EndOptions options) {
  Ends ends;
  ends.memory = slots_of(channel);
  if (options.pinned && !pin(ends.memory, &ends.pinned)) return nullptr;
  Result<std::unique_ptr<share::Consumer>> end =
      unlocked([&] { return channel.attach_consumer(); });
  if (!end) return raise(end.error());
  ends.end = std::move(*end);
  ends.channel = std::move(channel);
  ends.options = std::move(options);
  return make(type, std::move(ends));
}

PyObject* make_consumer(PyTypeObject* type, share::PipeEnds given, EndOptions options) {
  Result<share::PipeConsumer> end =
      caught([&] { return share::PipeConsumer::attach(std::move(given)); });
  if (!end) return raise(end.error());
  auto consumer = std::make_unique<share::PipeConsumer>(std::move(*end));
  Ends ends;
  ends.memory = {.mapping = &consumer->mapping(), .slots_at = consumer->slots_at()};
  if (options.pinned && !pin(ends.memory, &ends.pinned)) return nullptr;
  ends.end = std::move(consumer);
  ends.options = std::move(options);
  return make(type, std::move(ends));
}

}  // namespace pergpu::python
