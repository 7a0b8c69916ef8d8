// Names travel as UTF-8.
#include "python/given.h"

#include <algorithm>
#include <utility>

#include "python/errors.h"
#include "python/object.h"

namespace pergpu::python {
namespace {

constexpr const char* kKinds[] = {"array", "tuple", "dict"};

bool text(PyObject* name, std::string* written) {
  Ref bytes(PyUnicode_AsUTF8String(name));
  char* begin = nullptr;
  Py_ssize_t size = 0;
  if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &begin, &size) != 0) return false;
  written->assign(begin, static_cast<std::size_t>(size));
  return true;
}

bool add(Given& given, PyObject* value, const char* what, PyTypeObject* array) {
  Source source;
  if (!source.open(value, what, array)) return false;
  given.sources.push_back(std::move(source));
  return true;
}

bool add_all_of_dict(Given& given, PyObject* value, PyTypeObject* array) {
  Ref items(PyDict_Items(value));
  for (Py_ssize_t i = 0; items && i < PyList_Size(items.get()); ++i) {
    PyObject* pair = PyList_GetItem(items.get(), i);
    PyObject* name = PyTuple_GetItem(pair, 0);
    if (!PyUnicode_Check(name)) {
      PyErr_Format(PyExc_TypeError, "a name in the dict is %R; expected a string", name);
      return false;
    }
    given.names.emplace_back();
    if (!text(name, &given.names.back())) return false;
    std::string what = "'" + given.names.back() + "'";
    if (!add(given, PyTuple_GetItem(pair, 1), what.c_str(), array)) return false;
  }
  return static_cast<bool>(items);
}

bool is_as(const Source& source, const Part& part) {
  return &source.element() == part.element && source.shape() == part.shape;
}

std::string named(const ItemLayout& plan, const Part& part) {
  if (plan.kind == ItemKind::One) return "the array";
  if (plan.kind == ItemKind::Dict) return "'" + part.name + "'";
  return "array " + std::to_string(&part - plan.parts.data());
}

void refuse(const std::string& words) { PyErr_SetString(PyExc_ValueError, words.c_str()); }

Plan arranged(ItemLayout layout) {
  if (Result<void> done = layout.arrange(); !done) {
    raise(done.error());
    return nullptr;
  }
  return std::make_shared<const ItemLayout>(std::move(layout));
}

}  // namespace

std::unique_ptr<Given> open_given(PyObject* value, PyTypeObject* array) {
  auto given = std::make_unique<Given>();
  bool opened = true;
  if (PyDict_Check(value)) {
    given->kind = ItemKind::Dict;
    opened = add_all_of_dict(*given, value, array);
  } else if (PyTuple_Check(value) || PyList_Check(value)) {
    given->kind = ItemKind::Tuple;
    Ref values(PySequence_Tuple(value));
    opened = static_cast<bool>(values);
    for (Py_ssize_t i = 0; opened && i < PyTuple_Size(values.get()); ++i) {
      std::string what = "array " + std::to_string(i);
      opened = add(*given, PyTuple_GetItem(values.get(), i), what.c_str(), array);
    }
  } else {
    opened = add(*given, value, "the item", array);
  }
  return opened ? std::move(given) : nullptr;
}

bool is_as(const Given& given, const ItemLayout& plan) {
  if (given.kind != plan.kind || given.sources.size() != plan.parts.size()) return false;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    if (!is_as(given.sources[i], plan.parts[i])) return false;
    if (plan.kind == ItemKind::Dict && given.names[i] != plan.parts[i].name) return false;
  }
  return true;
}

bool bring_to(Given& given, const ItemLayout& plan) {
  if (is_as(given, plan)) return true;
  if (given.kind != plan.kind) {
    refuse(std::string("items of this channel are of the kind \"") +
           kKinds[static_cast<int>(plan.kind)] + "\", not \"" +
           kKinds[static_cast<int>(given.kind)] + "\"");
    return false;
  }
  if (given.sources.size() != plan.parts.size()) {
    refuse(std::to_string(given.sources.size()) + " arrays: items of this channel have " +
           std::to_string(plan.parts.size()));
    return false;
  }
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    const Part& part = plan.parts[i];
    if (plan.kind == ItemKind::Dict) {
      auto found = std::find(given.names.begin() + static_cast<std::ptrdiff_t>(i),
                             given.names.end(), part.name);
      if (found == given.names.end()) {
        refuse("'" + part.name + "' is missing: items of this channel have it");
        return false;
      }
      auto at = static_cast<std::size_t>(found - given.names.begin());
      std::swap(given.names[i], given.names[at]);
      std::swap(given.sources[i], given.sources[at]);
    }
    const Source& source = given.sources[i];
    if (!is_as(source, part)) {
      Part there = {.element = &source.element(), .shape = source.shape()};
      refuse(named(plan, part) + " is " + words(there) + "; expected " + words(part));
      return false;
    }
  }
  return true;
}

Plan plan_of(const Given& given) {
  ItemLayout layout;
  layout.kind = given.kind;
  for (std::size_t i = 0; i < given.sources.size(); ++i) {
    Part part;
    if (given.kind == ItemKind::Dict) part.name = given.names[i];
    part.element = &given.sources[i].element();
    part.shape = given.sources[i].shape();
    layout.parts.push_back(std::move(part));
  }
  return arranged(std::move(layout));
}

Plan plan_of_spec(PyObject* spec) {
  PyObject *kind = nullptr, *parts = nullptr;
  if (!PyTuple_Check(spec) || PyArg_ParseTuple(spec, "UO", &kind, &parts) == 0) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "what items are: a tuple");
    return nullptr;
  }
  ItemLayout layout;
  int number = 0;
  while (number < 3 && PyUnicode_CompareWithASCIIString(kind, kKinds[number]) != 0) ++number;
  Ref list(PySequence_Tuple(parts));
  if (!list) return nullptr;
  Py_ssize_t count = PyTuple_Size(list.get());
  if (number == 3 || (number == 0 && count != 1)) {
    PyErr_Format(PyExc_ValueError, "items can't be %R", spec);
    return nullptr;
  }
  layout.kind = static_cast<ItemKind>(number);
  for (Py_ssize_t i = 0; i < count; ++i) {
    Part part;
    Ref fields(PySequence_Tuple(PyTuple_GetItem(list.get(), i)));
    PyObject *name = nullptr, *dtype = nullptr, *shape = nullptr;
    if (!fields || PyArg_ParseTuple(fields.get(), "UOO", &name, &dtype, &shape) == 0)
      return nullptr;
    part.element = element_named(dtype);
    if (part.element == nullptr || !text(name, &part.name)) return nullptr;
    Ref counts(PySequence_Tuple(shape));
    if (!counts) return nullptr;
    for (Py_ssize_t d = 0; d < PyTuple_Size(counts.get()); ++d) {
      Py_ssize_t size = as_size(PyTuple_GetItem(counts.get(), d), "a dimension");
      if (size < 0) return nullptr;
      part.shape.push_back(size);
    }
    layout.parts.push_back(std::move(part));
  }
  return arranged(std::move(layout));
}

PyObject* spec_of(const ItemLayout& plan) {
  Ref parts(PyList_New(0));
  for (const Part& part : plan.parts) {
    Ref shape(PyTuple_New(static_cast<Py_ssize_t>(part.shape.size())));
    for (std::size_t d = 0; shape && d < part.shape.size(); ++d) {
      PyObject* count = PyLong_FromSsize_t(part.shape[d]);
      if (count == nullptr ||
          PyTuple_SetItem(shape.get(), static_cast<Py_ssize_t>(d), count) != 0) {
        return nullptr;
      }
    }
    Ref fields(shape ? Py_BuildValue("(s#sO)", part.name.data(),
                                     static_cast<Py_ssize_t>(part.name.size()), part.element->name,
                                     shape.get())
                     : nullptr);
    if (!parts || !fields || PyList_Append(parts.get(), fields.get()) != 0) return nullptr;
  }
  return parts ? Py_BuildValue("(sO)", kKinds[static_cast<int>(plan.kind)], parts.get()) : nullptr;
}

}  // namespace pergpu::python
