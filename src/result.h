// Result<T>: a value or an Error.  Failure is part of what pergpu reports (a missing binary, a lost
// GPU, a full disk), so it is a value that can be journalled, not an exception.
//
// An error's message names the object, the value, what was expected and what to do.
#pragma once

#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace pergpu {

enum class ErrorKind {
  NotFound,     // the named thing does not exist
  Busy,         // another process holds it; may work later
  Invalid,      // the request itself is wrong: a user's mistake
  Unavailable,  // a peer, device or service does not answer
  Corrupt,      // bytes on disk or on a wire make no sense
  Denied,       // permissions
  Full,         // no space, quota, read-only
  Io,           // any other failure of the operating system
};

/// What went wrong.  `message` names the object ("open /a/b: No such file or directory").
struct Error {
  ErrorKind kind = ErrorKind::Io;
  int os_errno = 0;  // 0 when no system call was involved
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    assert(state_.index() == 1);
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    assert(state_.index() == 1);
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  T& value() {
    assert(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  const T& value() const {
    assert(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}

  explicit operator bool() const { return !failed_; }
  const Error& error() const& {
    assert(failed_);
    return error_;
  }
  Error&& error() && {
    assert(failed_);
    return std::move(error_);
  }

 private:
  bool failed_ = false;
  Error error_;
};

/// A user's mistake.
inline Error invalid(std::string what) { return {ErrorKind::Invalid, 0, std::move(what)}; }

/// The one place where an errno becomes an ErrorKind.
inline ErrorKind kind_of_errno(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
      return ErrorKind::NotFound;
    case EAGAIN:
    case EBUSY:
    case EADDRINUSE:
      return ErrorKind::Busy;
    case EACCES:
    case EPERM:
      return ErrorKind::Denied;
    case ENOSPC:
    case EDQUOT:
    case EROFS:
      return ErrorKind::Full;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return ErrorKind::Unavailable;
    default:
      return ErrorKind::Io;
  }
}

/// "`what`: strerror(code)".  Name the object in `what`: "open /a/b".
inline Error os_error(std::string what, int code = errno) {
  return Error{kind_of_errno(code), code, std::move(what) + ": " + std::strerror(code)};
}

/// Visits a std::variant with one lambda per alternative.
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace pergpu
