// pergpu._share: the shared memory of share/ for Python.  Types are made for each interpreter that
// imports it; nothing is global.
#include "python/object.h"
#include "python/region.h"

namespace pergpu::python {
namespace {

Types* types_in(PyObject* module) { return static_cast<Types*>(PyModule_GetState(module)); }

/// `*type` is the module's, until it is cleared.
bool add(PyObject* module, const char* name, PyType_Spec* spec, PyTypeObject** type) {
  PyObject* made = PyType_FromModuleAndSpec(module, spec, nullptr);
  *type = reinterpret_cast<PyTypeObject*>(made);
  if (made == nullptr) return false;
  if (PyModule_AddObject(module, name, another(made)) == 0) return true;
  Py_DecRef(made);
  return false;
}

int fill(PyObject* module) {
  Types* types = types_in(module);
  bool filled = add(module, "Memory", memory_spec(), &types->memory) &&
                add(module, "Region", region_spec(), &types->region) &&
                add(module, "Array", array_spec(), &types->array) &&
                add(module, "Parameters", parameters_spec(), &types->parameters) &&
                add(module, "MetricsTable", metrics_table_spec(), &types->metrics_table) &&
                add(module, "MetricsWriter", metrics_writer_spec(), &types->metrics_writer) &&
                PyModule_AddStringConstant(module, "__version__", PERGPU_VERSION) == 0;
  return filled ? 0 : -1;
}

int traverse(PyObject* module, visitproc visit, void* arg) {
  Types* types = types_in(module);
  if (types == nullptr) return 0;
  Py_VISIT(reinterpret_cast<PyObject*>(types->memory));
  Py_VISIT(reinterpret_cast<PyObject*>(types->region));
  Py_VISIT(reinterpret_cast<PyObject*>(types->array));
  Py_VISIT(reinterpret_cast<PyObject*>(types->parameters));
  Py_VISIT(reinterpret_cast<PyObject*>(types->metrics_table));
  Py_VISIT(reinterpret_cast<PyObject*>(types->metrics_writer));
  return 0;
}

int clear(PyObject* module) {
  Types* types = types_in(module);
  if (types == nullptr) return 0;
  for (PyTypeObject** type : {&types->memory, &types->region, &types->array, &types->parameters,
                              &types->metrics_table, &types->metrics_writer}) {
    Py_DecRef(reinterpret_cast<PyObject*>(std::exchange(*type, nullptr)));
  }
  return 0;
}

void end(void* module) { clear(static_cast<PyObject*>(module)); }

PyMethodDef kFunctions[] = {
    {"map_file", method(map_file), METH_VARARGS | METH_KEYWORDS,
     "map_file($module, fd, offset, nbytes, view)\n--\n\n"
     "A part of an ordinary file as a Region, from any byte on; the descriptor may be closed "
     "then.\n"
     "Who shortens the file takes the pages away: to read them is a SIGBUS."},
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
