// pergpu._share: the shared memory of share/ for Python.  Types are made for each interpreter that
// imports it; nothing is global.
#include "python/average.h"
#include "python/ends.h"
#include "python/object.h"
#include "python/region.h"
#include "version.h"

namespace pergpu::python {
namespace {

Types* types_in(PyObject* module) { return static_cast<Types*>(PyModule_GetState(module)); }

struct Entry {
  const char* name;
  PyType_Spec* (*spec)();
  PyTypeObject* Types::*type;
};
constexpr Entry kTypes[] = {
    {"Memory", memory_spec, &Types::memory},
    {"Region", region_spec, &Types::region},
    {"Array", array_spec, &Types::array},
    {"Parameters", parameters_spec, &Types::parameters},
    {"MetricsTable", metrics_table_spec, &Types::metrics_table},
    {"MetricsWriter", metrics_writer_spec, &Types::metrics_writer},
    {"Channel", channel_spec, &Types::channel},
    {"Pipes", pipes_spec, &Types::pipes},
    {"Producer", producer_spec, &Types::producer},
    {"Slot", slot_spec, &Types::slot},
    {"Consumer", consumer_spec, &Types::consumer},
    {"Item", item_spec, &Types::item},
    {"Loader", loader_spec, &Types::loader},
    {"Batch", batch_spec, &Types::batch},
};

/// The type is the module's, until it is cleared.
bool add(PyObject* module, const Entry& entry) {
  PyObject* made = PyType_FromModuleAndSpec(module, entry.spec(), nullptr);
  types_in(module)->*entry.type = reinterpret_cast<PyTypeObject*>(made);
  if (made == nullptr) return false;
  if (PyModule_AddObject(module, entry.name, another(made)) == 0) return true;
  Py_DecRef(made);
  return false;
}

int fill(PyObject* module) {
  for (const Entry& entry : kTypes) {
    if (!add(module, entry)) return -1;
  }
  return PyModule_AddStringConstant(module, "__version__", PERGPU_VERSION);
}

int traverse(PyObject* module, visitproc visit, void* arg) {
  Types* types = types_in(module);
  if (types == nullptr) return 0;
  for (const Entry& entry : kTypes) Py_VISIT(reinterpret_cast<PyObject*>(types->*entry.type));
  return 0;
}

int clear(PyObject* module) {
  Types* types = types_in(module);
  if (types == nullptr) return 0;
  for (const Entry& entry : kTypes) {
    Py_DecRef(reinterpret_cast<PyObject*>(std::exchange(types->*entry.type, nullptr)));
  }
  return 0;
}

void end(void* module) { clear(static_cast<PyObject*>(module)); }

PyMethodDef kFunctions[] = {
    {"map_file", method(map_file), METH_VARARGS | METH_KEYWORDS,
     "map_file($module, fd, offset, nbytes, view)\n--\n\n"
     "Maps a part of an ordinary file as a Region, from any byte on; then you may close the\n"
     "descriptor.  If a process shortens the file later, reading the lost pages is a SIGBUS."},
    {"spec_of_example", guarded<spec_of_example>, METH_O,
     "spec_of_example($module, like, /)\n--\n\nThe description of a channel's items that look like "
     "this example."},
    {"size_of_spec", guarded<size_of_spec>, METH_O,
     "size_of_spec($module, spec, /)\n--\n\nThe bytes of a slot that such an item needs."},
    {"write_mean", method(write_mean), METH_VARARGS | METH_KEYWORDS,
     "write_mean($module, dtype, sources, count, into)\n--\n\n"
     "Writes the mean of `count` values from each of the sources, (descriptor, offset, weight),\n"
     "to a file, (descriptor, offset)."},
    {},
};
PyModuleDef_Slot kSlots[] = {
    {Py_mod_exec, slot(fill)},
    {0, nullptr},
};
PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT,
    "pergpu._share",
    "Shared memory without names, and arrays in it: the compiled part of pergpu.share.",
    sizeof(Types),
    kFunctions,
    kSlots,
    traverse,
    clear,
    end,
};

}  // namespace
}  // namespace pergpu::python

PyMODINIT_FUNC PyInit__share() { return PyModuleDef_Init(&pergpu::python::kModule); }
