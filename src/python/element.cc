// The buffer protocol and __array_interface__ know neither bfloat16 nor floats of 8 bits.  There
// they are bytes that mean nothing ("2x", "|V2"), for numbers they are not: who knows the type says
// so, with .view(ml_dtypes.bfloat16), and adding them before that is an error and no wrong sum.
#include "python/element.h"

#include "python/object.h"

namespace pergpu::python {
namespace {

enum Code : std::uint8_t {  // DLDataTypeCode of DLPack 1.1; before 1.0 there was no bool
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E5M2 = 12,
};

constexpr Element kElements[] = {
    {"float32", "f", "<f4", 4, 4, kFloat},
    {"uint8", "B", "|u1", 1, 1, kUInt},
    {"int64", "l", "<i8", 8, 8, kInt},
    {"float16", "e", "<f2", 2, 2, kFloat},
    {"bfloat16", "2x", "|V2", 2, 2, kBfloat},
    {"float64", "d", "<f8", 8, 8, kFloat},
    {"int32", "i", "<i4", 4, 4, kInt},
    {"bool", "?", "|b1", 1, 1, kBool},
    {"int8", "b", "|i1", 1, 1, kInt},
    {"int16", "h", "<i2", 2, 2, kInt},
    {"uint16", "H", "<u2", 2, 2, kUInt},
    {"uint32", "I", "<u4", 4, 4, kUInt},
    {"uint64", "L", "<u8", 8, 8, kUInt},
    {"float8_e4m3fn", "1x", "|V1", 1, 1, kFloat8E4M3FN},
    {"float8_e5m2", "1x", "|V1", 1, 1, kFloat8E5M2},
    {"complex64", "Zf", "<c8", 8, 4, kComplex},
    {"complex128", "Zd", "<c16", 16, 8, kComplex},
};
static_assert(sizeof(long) == 8, "PEP 3118 calls 64 bits 'l' where a long has that many");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the types of __array_interface__");

void refuse(PyObject* name) {
  Ref names(PyUnicode_FromString(""));
  for (const Element& element : kElements) {
    if (!names) return;
    const char* format = &element == kElements ? "%U%s" : "%U, %s";
    names = Ref(PyUnicode_FromFormat(format, names.get(), element.name));
  }
  if (names) PyErr_Format(PyExc_ValueError, "dtype is %R; expected one of %U", name, names.get());
}

/// What a format's first letter is for DLPack; -1: nothing that we know.
int code_of(const char* letter) {
  switch (*letter) {
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return kInt;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
    case 'c':
      return kUInt;
    case 'e':
    case 'f':
    case 'd':
      return kFloat;
    case 'Z':
      return kComplex;
    case '?':
      return kBool;
    default:
      return -1;
  }
}

}  // namespace

const Element* element_of(const char* format, Py_ssize_t size) {
  if (*format == '@' || *format == '=' || *format == '<' || (*format == '>' && size == 1)) ++format;
  int code = code_of(format);
  bool is_one = code >= 0 && format[code == kComplex ? 2 : 1] == '\0';
  return is_one ? element_of(static_cast<std::uint8_t>(code), static_cast<int>(8 * size)) : nullptr;
}

const Element* element_of(std::uint8_t code, int bits) {
  for (const Element& element : kElements) {
    if (element.code == code && 8 * element.size == bits) return &element;
  }
  return nullptr;
}

const Element* element_named(PyObject* name) {
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "dtype is %R; expected a name such as \"float32\"", name);
    return nullptr;
  }
  for (const Element& element : kElements) {
    if (PyUnicode_CompareWithASCIIString(name, element.name) == 0) return &element;
  }
  refuse(name);
  return nullptr;
}

}  // namespace pergpu::python
