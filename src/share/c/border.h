// What every function of the C interface has in common: nothing is thrown across it, errno stays,
// structs of the caller may be of another version, and NULL is a mistake that is reported.
#pragma once

#include <pergpu_share.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "result.h"
#include "share/slot.h"
#include "version.h"

namespace pergpu::share {

/// Writes it into `into`, unless that is NULL.  The code that says the same.
std::int32_t tell(pergpu_share_error* into, const Error& error) noexcept;
/// The same without an Error, whose words take memory.
std::int32_t tell(pergpu_share_error* into, ErrorKind kind, int os_errno,
                  std::string_view words) noexcept;

Error invalid(std::string message);
std::int32_t outcome_of(Outcome outcome);

/// A flag is 0 or 1.
Result<bool> flag(std::uint32_t value, const char* name);

/// Runs `body`, which returns a Result<void>, at the border.
template <typename Body>
std::int32_t guarded(pergpu_share_error* error, Body&& body) noexcept {
  const int before = errno;
  std::int32_t code = PERGPU_SHARE_OK;
  try {
    if (Result<void> done = body(); !done) code = tell(error, done.error());
  } catch (const std::bad_alloc&) {
    code = tell(error, ErrorKind::Full, ENOMEM, "out of memory");
  } catch (const std::exception& caught) {
    code = tell(error, ErrorKind::Io, 0, caught.what());
  }
  errno = before;
  return code;
}

/// The same for what returns nothing and cannot fail.
template <typename Body>
void quietly(Body&& body) noexcept {
  const int before = errno;
  body();
  errno = before;
}

/// ErrorKind::Invalid, if one of the pointers is NULL.
template <typename... Pointers>
Result<void> all_there(Pointers... pointers) {
  if ((... && (pointers != nullptr))) return {};
  return invalid("a required pointer is NULL");
}

// Structs that begin with struct_size.

/// Beyond this it was never set.
constexpr std::uint32_t kLargestStruct = 4096;

/// ErrorKind::Invalid: NULL, or smaller than in the first version, which has to be `first` bytes.
template <typename T>
Result<void> check_sized(const T* one, const char* name, std::uint32_t first = sizeof(T)) {
  if (one == nullptr) return invalid(std::string(name) + " is NULL");
  if (one->struct_size >= first && one->struct_size <= kLargestStruct) return {};
  return invalid(std::string(name) + ": struct_size is " + std::to_string(one->struct_size) +
                 ": expected sizeof the struct, " + std::to_string(sizeof(T)) + " in this version");
}

/// As this version knows it.  ErrorKind::Invalid: it asks for what a later version can do.
template <typename T>
Result<T> read_sized(const T* from, const char* name) {
  if (Result<void> good = check_sized(from, name); !good) return std::move(good).error();
  T value = {};
  std::memcpy(&value, from, sizeof(T));
  const char* bytes = reinterpret_cast<const char*>(from);
  for (std::uint32_t i = sizeof(T); i < from->struct_size; ++i) {
    if (bytes[i] == 0) continue;
    return invalid(std::string(name) + ": byte " + std::to_string(i) +
                   " is not zero: it needs a later version of the library than " + PERGPU_VERSION);
  }
  value.struct_size = sizeof(T);
  return value;
}

/// REQUIRES: check_sized().
template <typename T>
void write_sized(T* into, T value) {
  value.struct_size = into->struct_size;
  std::memset(reinterpret_cast<char*>(into), 0, into->struct_size);
  std::memcpy(into, &value, sizeof(T));
}

}  // namespace pergpu::share
