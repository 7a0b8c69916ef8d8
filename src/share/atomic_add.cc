// std::atomic_ref of floats adds by comparing and exchanging; of integers the processor has it. The
// values may lie anywhere and are copied out one by one.
#include "share/atomic_add.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace pergpu::share {
namespace {

template <typename T>
void add(std::byte* into, const std::byte* values, std::size_t count) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  T* numbers = reinterpret_cast<T*>(into);
  for (std::size_t i = 0; i < count; ++i) {
    T value = 0;
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    if (value != 0) std::atomic_ref(numbers[i]).fetch_add(value, std::memory_order_relaxed);
  }
}

}  // namespace

std::size_t size_of(Number number) {
  switch (number) {
    case Number::Float32:
    case Number::Int32:
      return 4;
    case Number::Float64:
    case Number::Int64:
      return 8;
  }
  return 8;
}

void atomic_add(Number number, std::byte* into, const std::byte* values, std::size_t count) {
  switch (number) {
    case Number::Float32:
      return add<float>(into, values, count);
    case Number::Float64:
      return add<double>(into, values, count);
    case Number::Int32:
      return add<std::int32_t>(into, values, count);
    case Number::Int64:
      return add<std::int64_t>(into, values, count);
  }
}

bool atomic_add_rows(Number number, std::byte* into, std::size_t height, std::size_t width,
                     std::span<const std::int64_t> rows, const std::byte* values) {
  bool all_there = std::all_of(rows.begin(), rows.end(), [height](std::int64_t row) {
    return row >= 0 && static_cast<std::size_t>(row) < height;
  });
  if (!all_there) return false;
  std::size_t row_bytes = width * size_of(number);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::byte* row = into + static_cast<std::size_t>(rows[i]) * row_bytes;
    atomic_add(number, row, values + i * row_bytes, width);
  }
  return true;
}

}  // namespace pergpu::share
