// Locking: locking_mode = EXCLUSIVE holds SQLite's own lock on the file as long as the process
// lives, needs no shared-memory file and saves the locking calls of each commit.
#include "store/schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "os/fd.h"
#include "os/fs/file.h"
#include "os/fs/new_name.h"
#include "store/migrations.h"

namespace pergpu::store {
namespace {

// Never over an existing file: two programs may create the same store at the same time.
Result<void> move_into_place(const std::string& from, const std::string& to) {
  if (os::rename_exclusively(from, to)) {
    return os::sync_dir(os::parent_of(to));
  }
  if (errno == EEXIST) {
    ::unlink(from.c_str());
    return {};
  }
  // Some file systems lack the flag; a lock of the caller's home covers the gap there.
  if (errno != EINVAL && errno != ENOSYS) return os_error("rename " + from + " to " + to);
  if (::rename(from.c_str(), to.c_str()) != 0) return os_error("rename " + from + " to " + to);
  return os::sync_dir(os::parent_of(to));
}

Result<void> build(const std::string& path) {
  Result<Database> database =
      Database::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE);
  if (!database) return std::move(database).error();
  for (const std::string& sql :
       {std::string("PRAGMA locking_mode = EXCLUSIVE"), std::string("PRAGMA synchronous = EXTRA"),
        fmt::format("PRAGMA application_id = {}", kApplicationId), std::string("BEGIN")}) {
    Result<void> done = database->exec(sql);
    if (!done) return done;
  }
  Result<void> done = create_tables(*database);
  for (const char* sql : {"COMMIT", "PRAGMA journal_mode = WAL"}) {
    if (done) done = database->exec(sql);
  }
  return done;
}

Result<void> create(const std::string& path) {
  const std::string draft = path + ".new";
  for (const char* suffix : {"", "-wal", "-journal", "-shm"}) ::unlink((draft + suffix).c_str());
  os::UniqueFd fd(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return os_error("create " + draft);
  fd.reset();
  if (Result<void> built = build(draft); !built) {
    for (const char* suffix : {"", "-wal", "-journal"}) ::unlink((draft + suffix).c_str());
    return built;
  }
  return move_into_place(draft, path);
}

// Bytes 18 and 19 of a SQLite file: who may write and read it.
constexpr std::size_t kFormatOffset = 18;
constexpr std::array<unsigned char, 2> kWithoutLog = {1, 1};  // with one: 2, 2

std::uint32_t big_endian(const unsigned char* bytes) {
  return (std::uint32_t{bytes[0]} << 24) | (std::uint32_t{bytes[1]} << 16) |
         (std::uint32_t{bytes[2]} << 8) | std::uint32_t{bytes[3]};
}

Result<void> check_version(const std::string& path, std::int64_t version) {
  if (version > kSchemaVersion) {
    return Error{ErrorKind::Corrupt, 0,
                 fmt::format("{} was written by a newer pergpu (its schema is version {}, this one "
                             "supports up to {}): use that version, or another PERGPU_HOME",
                             path, version, kSchemaVersion)};
  }
  if (version < 1) return refused(path, fmt::format("has the unknown schema version {}", version));
  return {};
}

struct Header {
  std::int64_t version = 0;
  bool is_copy = false;  // which no coordinator has taken over: it has no log
};

// The first 100 bytes of a SQLite file say whose it is.  They are read without SQLite, which might
// write to a file that it takes for its own (a journal to roll back, a log to recover).
Result<Header> read_header(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return os_error("stat " + path);
  if (!S_ISREG(info.st_mode)) return refused(path, "isn't a regular file");
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os_error("open " + path);
  std::array<unsigned char, 100> header = {};
  const ssize_t got = ::pread(fd.get(), header.data(), header.size(), 0);
  if (got < 0) return os_error("read " + path);
  if (got == 0) return refused(path, "is empty");
  if (got < static_cast<ssize_t>(header.size())) return refused(path, "is truncated");
  if (std::memcmp(header.data(), "SQLite format 3", 16) != 0) {
    return refused(path, "isn't a SQLite file");
  }
  if (big_endian(&header[68]) != static_cast<std::uint32_t>(kApplicationId)) {
    return refused(path, "is a SQLite file of another program");
  }
  return Header{.version = static_cast<std::int32_t>(big_endian(&header[60])),
                .is_copy = std::memcmp(&header[kFormatOffset], kWithoutLog.data(), 2) == 0};
}

/// SQLite opens these as it opens any file, and a FIFO would hold it up for good.
Result<void> check_companions(const std::string& path) {
  for (const char* suffix : {"-wal", "-journal", "-shm"}) {
    const std::string beside = path + suffix;
    struct stat info = {};
    if (::stat(beside.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return Error{ErrorKind::Corrupt, 0, beside + " isn't a regular file; remove it"};
    }
  }
  return {};
}

/// SQLite would take the pages of any log that lies beside the file.
Error log_of_another(const std::string& path) {
  return Error{
      ErrorKind::Corrupt, 0,
      fmt::format("{0} is a copy, but {0}-wal is the log of another store: move {0}-wal away",
                  path)};
}

Error explain(const std::string& path, Error error) {
  if (error.kind == ErrorKind::Corrupt) return refused(path, "is damaged (" + error.message + ")");
  if (error.kind == ErrorKind::Busy) {
    error.message = fmt::format("{} is in use by another process: {}", path, error.message);
  }
  return error;
}

Result<std::string> ask(Database& database, const std::string& pragma) {
  Result<std::string> answer = database.query_text(pragma);
  if (!answer) return explain(database.path(), std::move(answer).error());
  return answer;
}

// A pragma's answer is the only proof that it was obeyed.
Result<void> expect(Database& database, const std::string& pragma, const std::string& expected) {
  Result<std::string> answer = ask(database, pragma);
  if (!answer) return std::move(answer).error();
  if (*answer == expected) return {};
  return Error{ErrorKind::Io, 0,
               fmt::format("{}: `{}` returned `{}`, expected `{}`", database.path(), pragma,
                           *answer, expected)};
}

/// A large store is not read whole: of its tables those that every start reads; the rest when it is
/// asked for, and by `pergpu store check`.
Result<void> check_content(Database& database) {
  constexpr std::int64_t kReadWhole = std::int64_t{64} << 20;
  struct stat info = {};
  if (::stat(database.path().c_str(), &info) != 0) return os_error("stat " + database.path());
  std::vector<std::string> what{"1"};  // the first damage
  if (info.st_size > kReadWhole) what = {"meta", "limits", "sweeps", "events"};
  for (const std::string& part : what) {
    Result<std::string> verdict = ask(database, "PRAGMA quick_check(" + part + ")");
    if (!verdict) return std::move(verdict).error();
    if (*verdict != "ok") return refused(database.path(), "is damaged (" + *verdict + ")");
  }
  return {};
}

Result<void> configure(Database& database) {
  struct Setting {
    const char* pragma;
    const char* answer;
  };
  // journal_size_limit: a log that grew with one huge submit does not stay forever.
  static constexpr Setting kSettings[] = {{"PRAGMA journal_size_limit = 67108864", "67108864"},
                                          {"PRAGMA wal_autocheckpoint = 0", "0"}};
  for (const Setting& setting : kSettings) {
    Result<void> obeyed = expect(database, setting.pragma, setting.answer);
    if (!obeyed) return obeyed;
  }
  for (const char* sql : {"PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON"}) {
    Result<void> done = database.exec(sql);
    if (!done) return done;
  }
  return {};
}

}  // namespace

Error refused(const std::string& path, const std::string& what) {
  return Error{ErrorKind::Corrupt, 0,
               fmt::format("{0} {1}: move both {0} and {0}-wal away before you restore a backup; "
                           "pergpu never replaces the store with an empty one",
                           path, what)};
}

Result<std::int64_t> version_in_header(const std::string& path) {
  Result<Header> header = read_header(path);
  if (!header) return std::move(header).error();
  return header->version;
}

Result<LockedFile> lock_store_file(const std::string& path) {
  Result<Header> header = read_header(path);
  if (!header) return std::move(header).error();
  Result<void> known = check_version(path, header->version);
  if (!known) return std::move(known).error();
  if (header->is_copy && os::exists(path + "-wal")) return log_of_another(path);
  if (Result<void> regular = check_companions(path); !regular) return std::move(regular).error();

  Result<Database> database =
      Database::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE);
  if (!database) return explain(path, std::move(database).error());
  sqlite3_db_config(database->get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_busy_timeout(database->get(), 2'000);
  Result<void> locked = expect(*database, "PRAGMA locking_mode = EXCLUSIVE", "exclusive");
  if (!locked) return std::move(locked).error();
  // The header may be older than the log, so the version is asked for again.
  Result<std::string> version = ask(*database, "PRAGMA user_version");
  if (!version) return std::move(version).error();
  return LockedFile{*std::move(database), std::strtol(version->c_str(), nullptr, 10)};
}

LogOfReading::LogOfReading(const std::string& path) {
  if (!os::exists(path + "-wal")) made_ = path + "-wal";
}

LogOfReading::~LogOfReading() {
  struct stat info = {};
  if (!made_.empty() && ::stat(made_.c_str(), &info) == 0 && info.st_size == 0) {
    ::unlink(made_.c_str());
  }
}

Result<void> mark_as_copy(int fd, const std::string& path) {
  const ssize_t put = ::pwrite(fd, kWithoutLog.data(), kWithoutLog.size(), kFormatOffset);
  if (put == static_cast<ssize_t>(kWithoutLog.size())) return {};
  return os_error("write " + path);
}

Result<Database> open_store_file(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return os_error("stat " + path);
    if (::stat((path + "-wal").c_str(), &info) == 0 && info.st_size > 0) {
      return refused(path, "is missing although its log " + path + "-wal is there");
    }
    if (Result<void> created = create(path); !created) return std::move(created).error();
  }
  Result<LockedFile> file = lock_store_file(path);
  if (!file) return std::move(file).error();
  Result<void> ready = check_version(path, file->version);
  if (ready) ready = check_content(file->database);
  if (ready) ready = configure(file->database);
  if (!ready) return std::move(ready).error();
  Result<void> current = begin_migration(file->database, file->version);
  if (!current) return explain(path, std::move(current).error());
  return std::move(file->database);
}

Result<void> accept(Database& database) {
  Result<void> ready = commit_migration(database);
  // The first thing that a copy gets: its header is synced before there is a log.
  if (ready) ready = expect(database, "PRAGMA journal_mode = WAL", "wal");
  if (!ready) return ready;
  sqlite3_db_config(database.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return {};
}

}  // namespace pergpu::store
