// The Python C API as all of this folder sees it: the limited one of 3.9, so that one binary serves
// every CPython from 3.9 on, and of the buffer protocol what that one hides.
//
// The protocol came into the limited API with 3.11 (bpo-45459), with the words that its structure
// must never change; it is that of 3.0, but for `smalltable`, which went before 3.9.  From 3.9 on
// type specs take its slots (bpo-40724), whose numbers are in every typeslots.h.  So what stands
// here is what 3.9 and 3.10 have, too; tests/python/test_share_native.py is run with each.
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

extern "C" {

struct Py_buffer {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
};

PyAPI_FUNC(int) PyObject_GetBuffer(PyObject* object, Py_buffer* view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer* view);
PyAPI_FUNC(int) PyBuffer_FillInfo(Py_buffer* view, PyObject* object, void* buffer, Py_ssize_t size,
                                  int readonly, int flags);

}  // extern "C"

#ifndef Py_bf_getbuffer
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
#endif

namespace pergpu::python {

/// What a consumer of a buffer asks for: PyBUF_… of object.h.
namespace ask {
inline constexpr int kSimple = 0;
inline constexpr int kWritable = 0x0001;
inline constexpr int kFormat = 0x0004;
inline constexpr int kShape = 0x0008;
inline constexpr int kStrides = 0x0010 | kShape;
inline constexpr int kFortran = 0x0040 | kStrides;
}  // namespace ask

}  // namespace pergpu::python
