// Batches of rows of arrays, gathered by threads ahead of the one who wants them.
//
// The arrays lie in memory (shared data, mapped files); a batch lies in a slot of memory of the
// loader, which is given back when it is done with.  The order is computed (permutation.h): epoch
// and number of a batch say all of it, so a loader begins anywhere and needs no state but these.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "result.h"
#include "share/segment.h"
#include "share/transform.h"

namespace pergpu::share {

/// One of the arrays: `rows` times `row_bytes` bytes, borrowed for the life of the loader.
struct LoaderField {
  const std::byte* data = nullptr;
  std::size_t row_bytes = 0;
  std::optional<ImageKernel> kernel = std::nullopt;  // without one, rows are copied

  std::size_t out_bytes() const { return kernel ? kernel->transform().out_bytes() : row_bytes; }
};

struct LoaderOptions {
  std::vector<LoaderField> fields = {};
  std::uint64_t rows = 0;   // of each array
  std::uint32_t batch = 1;  // rows
  bool drop_last = false;   // the rest of an epoch, if it is less than a batch
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::uint32_t shard = 0;  // takes each row of the order whose place is `shard` modulo `shards`
  std::uint32_t shards = 1;
  std::uint64_t epoch = 0;  // where it begins
  std::uint64_t number = 0;
  std::uint32_t slots = 4;
  std::uint32_t threads = 1;
};

class Loader {
 public:
  struct Batch {
    std::uint32_t slot = 0;
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;  // in its epoch
    std::uint32_t rows = 0;
  };
  enum class Wait {
    Ready,
    TimedOut,
    NoSlot,  // all are held: nothing can come before one is given back
  };

  /// ErrorKind::Invalid: the options do not fit each other.  Full: there is not so much memory.
  static Result<std::unique_ptr<Loader>> open(LoaderOptions options);
  /// Its threads end first.
  ~Loader();

  /// The next batch, in order, over the ends of epochs; it is held until release().  One caller at
  /// a time.  REQUIRES: the process is the one that opened it (a forked one has no threads).
  Wait next(Batch& batch, std::chrono::nanoseconds longest);
  /// `slot` may be filled anew.
  void release(std::uint32_t slot);

  std::uint64_t batches() const;  // of an epoch
  const LoaderOptions& options() const;
  /// Where the slots lie; Shared mappings of it see the batches.
  const Segment& memory() const;
  std::size_t slot_bytes() const;
  /// Of a field in a slot, in bytes.
  std::size_t offset_of(std::size_t field) const;
  const std::byte* at(std::uint32_t slot, std::size_t field) const;

 private:
  struct Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu::share
