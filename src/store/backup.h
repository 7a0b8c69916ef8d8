// A copy of the store, made page by page while the store is being written: SQLite's online backup,
// which takes along what is committed meanwhile.  The copy is the state of the last step().
//
// Its header says that no log belongs to it (schema.h, mark_as_copy).  It is built beside its place
// under another name, synced, and moved there: nothing is overwritten, and half a copy never has
// the name that was asked for.
#pragma once

#include <cstdint>
#include <string>

#include "os/fd.h"
#include "result.h"
#include "store/sqlite.h"

namespace pergpu::store {

/// Why there is no backup in `file`.
Error backup_exists(const std::string& file);

class Backup {
 public:
  /// ErrorKind::Invalid: `file` exists.  REQUIRES: `source` outlives it and has no open
  /// transaction, here and in step(); no other user may write to the folder of `file`, for the
  /// draft is opened by its name.
  static Result<Backup> begin(Database& source, const std::string& file);
  Backup(Backup&& other) noexcept;
  Backup& operator=(Backup&&) = delete;
  /// Without a last step(): nothing of it stays.
  ~Backup();

  /// Copies at most `pages` pages.  True: the copy is complete, durable and in its place.
  Result<bool> step(int pages);
  /// REQUIRES: step() returned true.
  std::int64_t bytes() const { return bytes_; }

 private:
  Backup() = default;
  void close();
  Result<void> move_into_place();

  Database copy_;
  sqlite3_backup* running_ = nullptr;
  os::UniqueFd draft_fd_;
  std::string file_;
  std::string draft_;  // empty: none to remove
  std::int64_t bytes_ = 0;
};

}  // namespace pergpu::store
