// Memory that a GPU copies from and to without the processor: pages that CUDA has pinned.
//
// The CUDA runtime is looked for when something is to be pinned, never linked: first the one that
// this process has loaded already (torch and similar libraries bring one), then libcudart.so by its
// usual names.  PERGPU_CUDART names another.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "result.h"

namespace pergpu::share {

class Pinned {
 public:
  /// For all GPUs of this process.  The pages have to stay mapped as long as this object is there.
  /// ErrorKind::NotFound: there is no CUDA runtime; Unavailable: it refused, in its own words.
  static Result<Pinned> pin(std::byte* data, std::size_t size);

  Pinned() = default;
  Pinned(Pinned&& other) noexcept;
  Pinned& operator=(Pinned&& other) noexcept;
  /// REQUIRES: no copy uses the pages any more.  Does nothing in a forked child, whose CUDA is
  /// dead.
  ~Pinned();

 private:
  using Unregister = int (*)(void*);
  Pinned(std::byte* data, Unregister unregister, pid_t pid)
      : data_(data), unregister_(unregister), pid_(pid) {}

  std::byte* data_ = nullptr;
  Unregister unregister_ = nullptr;
  pid_t pid_ = 0;
};

}  // namespace pergpu::share
