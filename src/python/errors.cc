// Python has subclasses of OSError for some error numbers (PermissionError, …); OSError(number,
// words) makes the right one.
#include "python/errors.h"

#include "python/object.h"

namespace pergpu::python {

PyObject* raise(const Error& error) {
  const char* words = error.message.c_str();
  if (error.kind == ErrorKind::Invalid) {
    PyErr_SetString(PyExc_ValueError, words);
  } else if (error.kind == ErrorKind::Full || error.os_errno == ENOMEM) {
    PyErr_SetString(PyExc_MemoryError, words);
  } else if (error.os_errno == 0) {
    PyErr_SetString(PyExc_OSError, words);
  } else {
    Ref arguments(Py_BuildValue("(is)", error.os_errno, words));
    if (arguments) PyErr_SetObject(PyExc_OSError, arguments.get());
  }
  return nullptr;
}

Py_ssize_t as_size(PyObject* object, const char* what) {
  Ref number(PyNumber_Index(object));
  if (!number) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Format(PyExc_TypeError, "%s is %R; expected an integer", what, object);
    }
    return -1;
  }
  Py_ssize_t value = PyLong_AsSsize_t(number.get());
  bool beyond = value == -1 && PyErr_Occurred() != nullptr;
  if (beyond || value < 0) {
    PyErr_Format(PyExc_ValueError, "%s is %S; expected a number from 0 to %zd", what, number.get(),
                 PY_SSIZE_T_MAX);
    return -1;
  }
  return value;
}

bool as_utf8(PyObject* text, std::string* written) {
  Ref bytes(PyUnicode_AsEncodedString(text, "utf-8", "replace"));
  char* begin = nullptr;
  Py_ssize_t size = 0;
  if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &begin, &size) != 0) return false;
  written->assign(begin, static_cast<std::size_t>(size));
  return true;
}

}  // namespace pergpu::python
