// Batches of rows of arrays, gathered by threads ahead of the one who wants them.
//
// The arrays lie in memory (shared data, mapped files); a batch lies in a slot, memory of this
// process, which is filled again when it was given back.  A process that keeps batches keeps their
// slots, and others are made for those to come: no thread waits for a slot, and what is kept does
// not change, in a forked process either.  The order is computed (permutation.h): epoch and number
// of a batch say all of it, so a loader begins anywhere and needs no state but these.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "result.h"
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
  std::uint32_t ahead = 2;  // batches that are prepared beside those that are held
  std::uint32_t threads = 1;
  bool pinned = false;  // slots are pinned for GPUs (pinning.h)
};

class Loader {
 public:
  struct Batch {
    std::uint32_t slot = 0;
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;  // in its epoch
    std::uint32_t rows = 0;
    std::byte* data = nullptr;  // of the slot; fields lie at offset_of()
  };

  /// ErrorKind::Invalid: the options do not fit each other.  Full: there is not so much memory.
  /// Of Pinned::pin().
  static Result<std::unique_ptr<Loader>> open(LoaderOptions options);
  /// As stop(); what is held is gone.  In a forked process, where there are no threads, all of it
  /// is left as it is.
  ~Loader();

  /// The next batch, in order, over the ends of epochs; it is held until release().  false: it took
  /// longer.  ErrorKind::Full: so much is held that there is no memory for another batch; it is
  /// tried again by the next call.  The first call begins the threads.  Any thread may.
  /// Unavailable: there can be no thread. REQUIRES: neither stopped nor forked.
  Result<bool> next(Batch& batch, std::chrono::nanoseconds longest);
  /// Whether next() would not wait; waits for it as long as that.
  bool wait(std::chrono::nanoseconds longest);
  /// `slot` may be filled again.  REQUIRES: the process that opened it.
  void release(std::uint32_t slot);
  /// The batch that comes next is this one.  ErrorKind::Invalid: there is none.
  Result<void> seek(std::uint64_t epoch, std::uint64_t number);
  /// Ends the threads.  Of the memory, what is held stays.
  void stop();

  std::uint64_t batches() const;  // of an epoch
  const LoaderOptions& options() const;
  std::size_t slot_bytes() const;
  /// Of a field in a slot, in bytes.
  std::size_t offset_of(std::size_t field) const;

 private:
  struct Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu::share
