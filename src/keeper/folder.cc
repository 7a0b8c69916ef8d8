// Mode bits: new folders 0777 and files 0666 without the bits of the sweep's umask.
#include "keeper/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "os/file.h"

namespace pergpu::keeper {
namespace {

constexpr std::size_t kLargestKeptFile = 64u << 20;

/// Serialises the moving-aside with a late final record of the attempt before, which another keeper
/// may be writing.  Waited for a few milliseconds only: a job can hold a lock on its own folder for
/// ever.
os::UniqueFd lock_folder(const std::string& out) {
  constexpr int kTries = 10;
  os::UniqueFd fd(::open(out.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; fd && i < kTries && ::flock(fd.get(), LOCK_EX | LOCK_NB) < 0; ++i) ::usleep(1000);
  return fd;
}

/// The first bytes of a file, "" when it cannot be read.
std::string beginning_of(const std::string& path) {
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char buffer[2048];
  const ssize_t n = fd ? ::read(fd.get(), buffer, sizeof buffer) : 0;
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

/// A symlink that leads nowhere is there, too.
bool is_there(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0;
}

std::string out_file(const Folder& folder, const char* name, const std::string& suffix,
                     const char* extension) {
  return folder.out + "/" + name + suffix + extension;
}

bool has_content(const std::string& path, std::string_view content) {
  struct stat st = {};
  if (::lstat(path.c_str(), &st) < 0 || !S_ISREG(st.st_mode) ||
      st.st_size != static_cast<off_t>(content.size()))
    return false;
  const Result<std::string> present = os::read_file(path, kLargestKeptFile);
  return present && *present == content;
}

/// The number behind `key`; nullopt when it is not there or cut off.
template <typename Number>
std::optional<Number> number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data() + text.size()) return std::nullopt;
  return number;
}

/// Text behind `key`, as it is written; "" when it is not there or cut off.
std::string text_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  const std::size_t end = text.find('"');
  return end == std::string_view::npos ? std::string() : std::string(text.substr(0, end));
}

/// Jobs of two homes may have one number.
bool is_same_job(const RecordHead& a, const RecordHead& b) {
  return a.id.job == b.id.job && (a.home.empty() || b.home.empty() || a.home == b.home);
}

bool is_same_attempt(const RecordHead& a, const RecordHead& b) {
  return a.id == b.id && is_same_job(a, b);
}

/// Of an attempt with this record.
RecordHead head_of(AttemptId id, std::string_view record) {
  return {.id = id, .home = text_after(record, "\"home\": \"")};
}

/// The sweep's umask, as it shows in the record of the start or in the log.
mode_t record_mode(const std::string& record, const std::string& out) {
  for (const std::string& path : {record, out + "/log.txt"}) {
    struct stat st = {};
    if (::lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode)) return st.st_mode & 0666;
  }
  return 0644;
}

std::optional<RecordHead> head_of_file(const std::string& path) {
  return record_head(beginning_of(path));
}

std::optional<SetupFailure> make_folder(const Folder& folder) {
  const mode_t mode = 0777 & ~static_cast<mode_t>(folder.umask);
  const Result<void> made = os::make_dirs(folder.out, mode);
  if (!made) return SetupFailure{"mkdir", made.error().os_errno, folder.out};
  return std::nullopt;
}

}  // namespace

std::optional<RecordHead> record_head(std::string_view text) {
  const auto job = number_after<std::int64_t>(text, "\"job\":");
  const auto attempt = number_after<std::int32_t>(text, "\"attempt\":");
  if (!job || !attempt) return std::nullopt;
  return RecordHead{.id = {{*job}, *attempt},
                    .has_ended = text.find("\"state\": \"running\"") == std::string_view::npos,
                    .home = text_after(text, "\"home\": \"")};
}

bool prepare_ahead(const Folder& folder) {
  if (make_folder(folder)) return false;
  const mode_t mode = 0666 & ~static_cast<mode_t>(folder.umask);
  return std::ranges::all_of(folder.files, [&](const FileToWrite& file) {
    return os::write_new_file(file.path, file.content, mode) ||
           (file.keep_if_same && has_content(file.path, file.content));
  });
}

Claim claim_folder(const Start& start) {
  Result<os::FolderLock> lock = os::FolderLock::take(start.folder.out, start.holder);
  if (!lock && lock.error().kind == ErrorKind::NotFound) {
    if (std::optional<SetupFailure> failure = make_folder(start.folder))
      return {.failure = failure};
    lock = os::FolderLock::take(start.folder.out, start.holder);
  }
  if (lock) return {.lock = *std::move(lock)};
  const Error& error = lock.error();
  if (error.kind == ErrorKind::Busy) {
    // A coordinator of the release before takes it for a shortage, and tries again.
    return {.failure = SetupFailure{std::string(kFolderInUse), EAGAIN, error.message}};
  }
  return {.failure =
              SetupFailure{"lock", error.os_errno, start.folder.out + "/" + os::FolderLock::kName}};
}

bool is_fresh(const Start& start) {
  return start.id.number == 1 && !is_there(out_file(start.folder, "log", "", ".txt")) &&
         !is_there(out_file(start.folder, "attempt", "", ".json"));
}

std::optional<SetupFailure> prepare_folder(const Folder& folder) {
  if (std::optional<SetupFailure> failure = make_folder(folder)) return failure;
  const mode_t file_mode = 0666 & ~static_cast<mode_t>(folder.umask);
  for (const FileToWrite& file : folder.files) {
    Result<void> written = os::write_new_file(file.path, file.content, file_mode);
    if (!written && written.error().os_errno == EEXIST) {
      if (file.keep_if_same && has_content(file.path, file.content)) continue;
      written = os::write_file_atomic(file.path, file.content, file_mode, /*durable=*/false);
    }
    if (!written) return SetupFailure{"write", written.error().os_errno, file.path};
  }
  return std::nullopt;
}

bool is_prepared_still(const Folder& folder) {
  if (folder.files.empty()) return is_there(folder.out);
  return std::all_of(folder.files.begin(), folder.files.end(),
                     [](const FileToWrite& file) { return is_there(file.path); });
}

Taken take_folder(const Start& start) {
  const Folder& folder = start.folder;
  const std::string log = out_file(folder, "log", "", ".txt");
  const std::string record = out_file(folder, "attempt", "", ".json");
  if (is_fresh(start)) return {.was_fresh = true};

  const os::UniqueFd lock = lock_folder(folder.out);
  const std::optional<RecordHead> earlier = head_of_file(record);
  if (has_content(record, start.record_at_start)) return {};  // done by a START before this one
  // Another home counts its jobs as this one does: only a lower number is an attempt of this job.
  std::string suffix = ".old";
  const RecordHead mine = head_of(start.id, start.record_at_start);
  if (earlier && is_same_job(*earlier, mine) && earlier->id.number < start.id.number) {
    suffix = "." + std::to_string(earlier->id.number);
  } else if (!earlier && start.id.number > 1) {
    suffix = "." + std::to_string(start.id.number - 1);
  }
  const std::string old_log = out_file(folder, "log", suffix, ".txt");
  const std::string old_record = out_file(folder, "attempt", suffix, ".json");
  if (::rename(log.c_str(), old_log.c_str()) == 0) {
    ::unlink(old_record.c_str());  // of an earlier log of that name
  } else if (errno != ENOENT) {
    return {.failure = SetupFailure{"rename", errno, log}};
  }
  const std::string stacks = out_file(folder, "stacks", "", ".txt");
  (void)::rename(stacks.c_str(), out_file(folder, "stacks", suffix, ".txt").c_str());
  if (::rename(record.c_str(), old_record.c_str()) < 0 && errno != ENOENT)
    return {.failure = SetupFailure{"rename", errno, record}};
  write_record(start);
  return {};
}

void write_record(const Start& start) {
  if (start.record_path.empty()) return;
  const mode_t mode = 0666 & ~static_cast<mode_t>(start.folder.umask);
  (void)os::write_file_atomic(start.record_path, start.record_at_start, mode, /*durable=*/false);
}

namespace {

/// Where the record of an attempt that has ended belongs, and what lies there.
struct RecordPlace {
  std::string path = {};
  std::optional<RecordHead> present = std::nullopt;
};

/// nullopt: the folder has seen two other jobs since.  REQUIRES: the folder is locked.
std::optional<RecordPlace> place_of(const RecordHead& mine, const std::string& record_path) {
  RecordPlace place{.path = record_path, .present = head_of_file(record_path)};
  if (!place.present || is_same_attempt(*place.present, mine)) return place;
  const bool same_job = is_same_job(*place.present, mine);  // the folder has moved on
  place.path = os::parent_of(record_path) +
               (same_job ? "/attempt." + std::to_string(mine.id.number) : "/attempt.old") + ".json";
  place.present = head_of_file(place.path);
  if (!same_job && place.present && !is_same_attempt(*place.present, mine)) return std::nullopt;
  return place;
}

}  // namespace

void write_late_record(const Start& start) {
  if (start.record_path.empty()) return;
  const os::UniqueFd lock = lock_folder(os::parent_of(start.record_path));
  const RecordHead mine = head_of(start.id, start.record_at_start);
  const std::optional<RecordPlace> place = place_of(mine, start.record_path);
  if (!place || (place->present && is_same_attempt(*place->present, mine))) return;
  const mode_t mode = 0666 & ~static_cast<mode_t>(start.folder.umask);
  (void)os::write_file_atomic(place->path, start.record_at_start, mode, /*durable=*/false);
}

std::optional<SetupFailure> write_final_record(const Forget& forget) {
  if (forget.record_path.empty()) return std::nullopt;
  const std::string out = os::parent_of(forget.record_path);
  const os::UniqueFd lock = lock_folder(out);
  const RecordHead mine = head_of(forget.id, forget.final_record);
  const std::optional<RecordPlace> place = place_of(mine, forget.record_path);
  if (!place) return std::nullopt;
  const std::optional<RecordHead>& present = place->present;
  if (present && is_same_attempt(*present, mine) && present->has_ended) return std::nullopt;
  const Result<void> written =
      os::write_file_atomic(place->path, forget.final_record, record_mode(place->path, out),
                            /*durable=*/false);
  if (!written) return SetupFailure{"write", written.error().os_errno, place->path};
  return std::nullopt;
}

}  // namespace pergpu::keeper
