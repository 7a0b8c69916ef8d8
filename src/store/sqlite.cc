// Return values of sqlite3_bind_* are not looked at: they fail only for wrong indexes (a mistake in
// store/rows.cc that every test would meet) and lengths above 1 GB, where the insert then fails.
#include "store/sqlite.h"

#include <fmt/format.h>

namespace pergpu::store {
namespace {

ErrorKind kind_of(int code, int os_errno) {
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_READONLY:
    case SQLITE_TOOBIG:
      return ErrorKind::Full;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
      return ErrorKind::Corrupt;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorKind::Busy;
    case SQLITE_CONSTRAINT:
      return ErrorKind::Invalid;
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return ErrorKind::Denied;
    default:
      // Quotas and read-only mounts reach us as I/O errors with their errno.
      return os_errno != 0 ? kind_of_errno(os_errno) : ErrorKind::Io;
  }
}

}  // namespace

Error sqlite_error(sqlite3* db, int code, const std::string& what) {
  const int os_errno = db != nullptr ? sqlite3_system_errno(db) : 0;
  const bool system = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN ||
                      (code & 0xff) == SQLITE_FULL;
  const int shown = system ? os_errno : 0;
  std::string message =
      fmt::format("{}: {}", what, db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code));
  if (shown != 0) message = os_error(std::move(message), shown).message;
  return Error{kind_of(code, shown), shown, std::move(message)};
}

Error Statement::error(int code) const {
  return sqlite_error(sqlite3_db_handle(statement_.get()), code, path_);
}

void Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
}

void Statement::bind(int index, std::string_view text) {
  // A null pointer would bind NULL: an empty view may have one.
  sqlite3_bind_text64(statement_.get(), index, text.data() != nullptr ? text.data() : "",
                      text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::bind_blob(int index, std::span<const std::uint8_t> bytes) {
  sqlite3_bind_blob64(statement_.get(), index, bytes.data(), bytes.size(), SQLITE_STATIC);
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  Error failure = error(code);
  reset();
  return failure;
}

Result<void> Statement::run() {
  Result<bool> row = step();
  if (!row) return std::move(row).error();
  if (*row) reset();
  return {};
}

void Statement::reset() { sqlite3_reset(statement_.get()); }

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::string_view Statement::text(int column) const {
  const unsigned char* bytes = sqlite3_column_text(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::span<const std::uint8_t> Statement::blob(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const std::uint8_t*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Result<Database> Database::open(const std::string& path, int flags) {
  // To count what SQLite allocates takes a lock for each piece, and the count is not used.
  static const int uncounted = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)uncounted;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database database;
  database.db_.reset(raw);  // set even when opening failed
  database.path_ = path;
  if (code != SQLITE_OK) return sqlite_error(raw, code, "open " + path);
  sqlite3_extended_result_codes(raw, 1);
  return database;
}

Result<void> Database::exec(const std::string& sql) {
  const int code = sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return sqlite_error(db_.get(), code, path_);
  return {};
}

Result<Statement> Database::prepare(const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(db_.get(), sql.c_str(), static_cast<int>(sql.size()) + 1,
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return sqlite_error(db_.get(), code, path_);
  Statement statement;
  statement.statement_.reset(raw);
  statement.path_ = path_;
  return statement;
}

Result<std::string> Database::query_text(const std::string& sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return std::move(statement).error();
  Result<bool> row = statement->step();
  if (!row) return std::move(row).error();
  if (!*row) return std::string{};
  return std::string(statement->text(0));
}

}  // namespace pergpu::store
