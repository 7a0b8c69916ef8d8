// A part of an ordinary file in this process's memory.  All that have it mapped read the same pages
// of the kernel's cache, and nothing is read before it is looked at.
#pragma once

#include <cstddef>
#include <cstdint>

#include "result.h"
#include "share/segment.h"

namespace pergpu::share {

class FileMapping {
 public:
  /// `offset` may be any.  ErrorKind::Invalid: not all of it is in the file, or it is no ordinary
  /// file.  Who shortens the file later takes the pages away: a reader gets SIGBUS.
  static Result<FileMapping> map(int fd, std::uint64_t offset, std::size_t size, View view);

  std::byte* data() const { return mapping_.data() + skip_; }
  std::size_t size() const { return mapping_.size() - skip_; }

 private:
  FileMapping(Mapping mapping, std::size_t skip) : mapping_(std::move(mapping)), skip_(skip) {}

  Mapping mapping_;
  std::size_t skip_ = 0;  // what lies before `offset` in its page
};

}  // namespace pergpu::share
