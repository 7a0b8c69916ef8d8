// A value that never changes, on the heap; copies share it.  For the large and rare ones of a
// variant that comes in millions: all its alternatives take as much as the largest.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace pergpu {

template <typename T>
class Boxed {
 public:
  Boxed() : Boxed(T{}) {}
  template <typename From>
  requires(std::constructible_from<T, From&&> && !std::same_as<std::remove_cvref_t<From>, Boxed>)
      Boxed(From&& value)  // NOLINT(google-explicit-constructor): is one, as far as others see
      : value_(std::make_shared<const T>(std::forward<From>(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  operator const T&() const { return *value_; }  // NOLINT(google-explicit-constructor): likewise

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace pergpu
