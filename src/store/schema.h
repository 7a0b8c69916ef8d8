// The store's file: its tables, its version, and the ceremony of opening it.
//
// A store is never replaced and never half made: a new one is built under another name and renamed
// into place; an existing file is looked at before SQLite may change a byte of it, and refused when
// it is damaged, not ours, or of a version this program does not know.
#pragma once

#include <cstdint>
#include <string>

#include "result.h"
#include "store/sqlite.h"

namespace pergpu::store {

inline constexpr std::int32_t kApplicationId = 0x70475055;  // "pGPU"
inline constexpr std::int32_t kSchemaVersion = 1;

/// Opens or creates `path`, locked against other processes.  Closing this connection leaves the
/// write-ahead log as it is until trust() was called.
Result<Database> open_store_file(const std::string& path);

/// The content was read and makes sense: from now on closing may checkpoint.
void trust(Database& database);

/// ErrorKind::Corrupt with the file's name, what is wrong and the way out.
Error refused(const std::string& path, const std::string& what);

}  // namespace pergpu::store
