// The draft is written without a journal and synced once, at its end: before that it is worth
// nothing.  Each step lets the kernel begin to write, so that little is left for that sync.
#include "store/backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/fs/new_name.h"
#include "store/schema.h"

namespace pergpu::store {

Error backup_exists(const std::string& file) {
  return Error{ErrorKind::Invalid, EEXIST,
               fmt::format("{} already exists, and a backup doesn't overwrite files: choose "
                           "another file, or move this one away",
                           file)};
}

Result<Backup> Backup::begin(Database& source, const std::string& file) {
  struct stat info = {};
  if (::lstat(file.c_str(), &info) == 0) return backup_exists(file);
  if (errno != ENOENT) return os_error("stat " + file);
  Backup backup;
  backup.file_ = file;
  const std::string draft = os::draft_of(file);
  ::unlink(draft.c_str());  // of one that was killed
  os::UniqueFd fd(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return os_error("create " + draft);
  backup.draft_fd_ = std::move(fd);
  backup.draft_ = draft;
  Result<Database> copy =
      Database::open(draft, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE);
  if (!copy) return std::move(copy).error();
  backup.copy_ = *std::move(copy);
  for (const char* sql : {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = OFF",
                          "PRAGMA synchronous = OFF"}) {
    if (Result<void> obeyed = backup.copy_.exec(sql); !obeyed) return std::move(obeyed).error();
  }
  backup.running_ = sqlite3_backup_init(backup.copy_.get(), "main", source.get(), "main");
  if (backup.running_ == nullptr) {
    return sqlite_error(backup.copy_.get(), sqlite3_extended_errcode(backup.copy_.get()), draft);
  }
  return backup;
}

Backup::Backup(Backup&& other) noexcept
    : copy_(std::move(other.copy_)),
      running_(std::exchange(other.running_, nullptr)),
      draft_fd_(std::move(other.draft_fd_)),
      file_(std::move(other.file_)),
      draft_(std::exchange(other.draft_, {})),
      bytes_(other.bytes_) {}

Backup::~Backup() {
  close();
  if (!draft_.empty()) ::unlink(draft_.c_str());
}

void Backup::close() {
  if (running_ != nullptr) sqlite3_backup_finish(std::exchange(running_, nullptr));
  copy_ = Database();
}

Result<bool> Backup::step(int pages) {
  const int code = sqlite3_backup_step(running_, pages);
  if (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    (void)::sync_file_range(draft_fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);  // no more than a hint
    return false;
  }
  if (code != SQLITE_DONE) return sqlite_error(nullptr, code, "back up to " + file_);
  const int finished = sqlite3_backup_finish(std::exchange(running_, nullptr));
  if (finished != SQLITE_OK) return sqlite_error(nullptr, finished, "back up to " + file_);
  close();
  if (Result<void> moved = move_into_place(); !moved) return std::move(moved).error();
  return true;
}

Result<void> Backup::move_into_place() {
  struct stat info = {};
  if (::fstat(draft_fd_.get(), &info) != 0) return os_error("stat " + draft_);
  Result<void> marked = mark_as_copy(draft_fd_.get(), draft_);
  if (!marked) return marked;
  if (::fsync(draft_fd_.get()) != 0) return os_error("sync " + draft_);
  bytes_ = info.st_size;
  Result<void> moved = os::rename_to_new(draft_, file_);
  if (!moved && moved.error().os_errno == EEXIST) return backup_exists(file_);
  if (moved) draft_.clear();
  return moved;
}

}  // namespace pergpu::store
