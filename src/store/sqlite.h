// SQLite's C API with owners and Results: just what store/ needs.  Errors name the database file
// and carry SQLite's own words.  Not thread-safe: one thread at a time uses a Database and its
// Statements.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "result.h"

namespace pergpu::store {

/// The one place where a result code of SQLite becomes an ErrorKind.  `db` may be null.
Error sqlite_error(sqlite3* db, int code, const std::string& what);

/// A prepared statement, used again and again: bind, then run() or step() … reset().
/// Texts and blobs are not copied: they must live until run(), or reset().
class Statement {
 public:
  void bind(int index, std::int64_t value);
  void bind(int index, std::string_view text);
  void bind_blob(int index, std::span<const std::uint8_t> bytes);

  /// True: a row can be read.  False: done; the statement was reset.
  Result<bool> step();
  /// For statements without rows.
  Result<void> run();
  void reset();

  std::int64_t integer(int column) const;
  bool is_null(int column) const;
  /// Valid until the next step().
  std::string_view text(int column) const;
  std::span<const std::uint8_t> blob(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
  };
  Error error(int code) const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
};

/// Leaves the statement ready for its next use.
class Resetting {
 public:
  explicit Resetting(Statement& statement) : statement_(statement) {}
  ~Resetting() { statement_.reset(); }
  Resetting(const Resetting&) = delete;
  Resetting& operator=(const Resetting&) = delete;

 private:
  Statement& statement_;
};

class Database {
 public:
  /// `flags`: SQLITE_OPEN_….
  static Result<Database> open(const std::string& path, int flags);

  Result<void> exec(const std::string& sql);
  Result<Statement> prepare(const std::string& sql);
  /// First column of the first row; empty when there is none.
  Result<std::string> query_text(const std::string& sql);

  sqlite3* get() const { return db_.get(); }
  const std::string& path() const { return path_; }
  bool in_transaction() const { return sqlite3_get_autocommit(db_.get()) == 0; }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  std::unique_ptr<sqlite3, Close> db_;
  std::string path_;
};

}  // namespace pergpu::store
