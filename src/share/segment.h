// Memory that processes share and that has no name: a memfd of a fixed size.
//
// A process that has the descriptor has the memory; when the last descriptor and the last mapping
// are gone, so is the memory, however the processes ended.  The size is sealed when it is made, so
// no process can take a page away from under a reader (no SIGBUS); the content is sealed by seal().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "result.h"

namespace pergpu::share {

/// How a process sees a segment.
enum class View {
  Private,   // writable; what is written is this process's own, page by page (copy on write)
  ReadOnly,  // a write is a SIGSEGV
  Shared,    // what is written is seen by all; not of a sealed segment
};

/// A part of a segment, or of a file, or private, in this process's memory; unmapped at the
/// end of its life.
class Mapping {
 public:
  /// `offset` is a multiple of the page size; `size` > 0.
  static Result<Mapping> map(int fd, std::uint64_t offset, std::size_t size, View view);
  /// Zeroed memory of this process alone, of huge pages where the kernel likes to give them; a
  /// forked one has a copy.  ErrorKind::Full: there is not so much.
  static Result<Mapping> own(std::size_t size);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  /// What is in these bytes now stays in them, whatever others write: their pages become this
  /// process's own, where they are, and are there at every moment.  REQUIRES: the bytes are within.
  Result<void> keep(std::size_t offset, std::size_t size) const;

 private:
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What pages a segment is to be made of.
enum class Pages {
  Normal,
  Huge,  // of the kernel's pool of huge pages, where it has enough; else normal ones
};

class Segment {
 public:
  /// Zeroed memory of `size` bytes, all of it reserved now: what is not there is an error here, not
  /// a SIGBUS later.  `name` is for people (/proc/PID/maps), need not be unique.
  /// ErrorKind::Invalid: `size` is 0 or beyond what a file can have; Full: there is not so much.
  static Result<Segment> create(std::string_view name, std::uint64_t size,
                                Pages pages = Pages::Normal);

  /// One that another process made.  ErrorKind::Invalid: its size may still change, or it is no
  /// memfd: then a reader could be killed by a process that shortens it.  A caller that gets an
  /// error keeps the fd.
  static Result<Segment> adopt(os::UniqueFd&& fd);

  /// No content changes any more.  ErrorKind::Busy: a process still has it mapped as Shared.
  Result<void> seal();
  /// Whichever process did it.
  bool sealed() const;

  Result<Mapping> map(View view) const;

  int fd() const { return fd_.get(); }
  std::uint64_t size() const { return size_; }
  Pages pages() const { return pages_; }

 private:
  Segment(os::UniqueFd fd, std::uint64_t size, Pages pages)
      : fd_(std::move(fd)), size_(size), pages_(pages) {}

  os::UniqueFd fd_;
  std::uint64_t size_ = 0;
  Pages pages_ = Pages::Normal;
};

}  // namespace pergpu::share
