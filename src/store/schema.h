// The store's file and the ceremony of opening it.
//
// A store is never replaced and never half made: a new one is built under another name and renamed
// into place; an existing file is looked at before SQLite may change a byte of it, and refused when
// it is damaged, not ours, or of a version this program does not know.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "result.h"
#include "store/sqlite.h"

namespace pergpu::store {

inline constexpr std::int32_t kApplicationId = 0x70475055;  // "pGPU"

/// An existing store, locked against other processes.
struct LockedFile {
  Database database;
  std::int64_t version = 0;  // of its newest commit, which the header may not know: may be unknown
};
/// Without SQLite, so that no byte is changed.  ErrorKind::Corrupt: it isn't our store.
Result<std::int64_t> version_in_header(const std::string& path);
/// Nothing of it is changed, and closing leaves its log as it is.
Result<LockedFile> lock_store_file(const std::string& path);

/// SQLite makes a log even to read: an empty one that was not there before goes with this object.
/// REQUIRES: it is made before the database of `path` and outlives it, and no other process opens
/// it.
class LogOfReading {
 public:
  explicit LogOfReading(const std::string& path);
  LogOfReading(LogOfReading&& other) noexcept : made_(std::exchange(other.made_, {})) {}
  LogOfReading& operator=(LogOfReading&&) = delete;
  ~LogOfReading();

 private:
  std::string made_;  // empty: it was there
};

/// From now on a log that lies beside the file isn't its own, and the file is refused with it:
/// a copy put in the place of a store whose log stayed would get the pages of that log.  accept()
/// ends it.  REQUIRES: no connection to the file is open.
Result<void> mark_as_copy(int fd, const std::string& path);

/// Opens or creates `path`, locked against other processes; one of an older version reads like one
/// of this version.  Until accept() no byte of an existing store is changed.
Result<Database> open_store_file(const std::string& path);

/// The content was read and makes sense: the store is brought to this version, and from now on
/// closing may checkpoint.
Result<void> accept(Database& database);

/// ErrorKind::Corrupt with the file's name, what is wrong and the way out.
Error refused(const std::string& path, const std::string& what);

}  // namespace pergpu::store
