// What a user hands over: an array, or a tuple, list or dict of arrays.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/item_layout.h"
#include "python/source.h"

namespace pergpu::python {

struct Given {
  ItemKind kind = ItemKind::One;
  std::vector<Source> sources;
  std::vector<std::string> names;  // Dict: of each
};

/// nullptr: an exception is set.  `array` is the type of Array.
std::unique_ptr<Given> open_given(PyObject* value, PyTypeObject* array);

/// Those of the plan, in its order.
bool is_as(const Given& given, const ItemLayout& plan);
/// The same, whatever the order of a dict; it is brought into that of the plan.  False: a
/// ValueError is set that says what was expected.
bool bring_to(Given& given, const ItemLayout& plan);

/// How they would lie.  nullptr: an exception is set.
Plan plan_of(const Given& given);

/// Of ("array" | "tuple" | "dict", [(name, dtype, shape), …]).  nullptr: an exception is set.
Plan plan_of_spec(PyObject* spec);
/// The same of a plan.
PyObject* spec_of(const ItemLayout& plan);

}  // namespace pergpu::python
