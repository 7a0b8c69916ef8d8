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
  char buffer[256];
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

}  // namespace

std::optional<RecordHead> record_head(std::string_view text) {
  const auto job = number_after<std::int64_t>(text, "\"job\":");
  const auto attempt = number_after<std::int32_t>(text, "\"attempt\":");
  if (!job || !attempt) return std::nullopt;
  return RecordHead{.id = {{*job}, *attempt},
                    .has_ended = text.find("\"state\": \"running\"") == std::string_view::npos};
}

std::optional<SetupFailure> prepare_folder(const Folder& folder) {
  const mode_t dir_mode = 0777 & ~static_cast<mode_t>(folder.umask);
  const mode_t file_mode = 0666 & ~static_cast<mode_t>(folder.umask);
  const Result<void> made = os::make_dirs(folder.out, dir_mode);
  if (!made) return SetupFailure{"mkdir", made.error().os_errno, folder.out};
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
  if (start.id.number == 1 && !is_there(log) && !is_there(record)) return {.was_fresh = true};

  const os::UniqueFd lock = lock_folder(folder.out);
  const std::optional<RecordHead> earlier = head_of_file(record);
  if (has_content(record, start.record_at_start)) return {};  // done by a START before this one
  // Another home counts its jobs as this one does: only a lower number is an attempt of this job.
  std::string suffix = ".old";
  if (earlier && earlier->id.job == start.id.job && earlier->id.number < start.id.number) {
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
std::optional<RecordPlace> place_of(AttemptId id, const std::string& record_path) {
  RecordPlace place{.path = record_path, .present = head_of_file(record_path)};
  if (!place.present || place.present->id == id) return place;
  const bool same_job = place.present->id.job == id.job;  // the folder has moved on
  place.path = os::parent_of(record_path) +
               (same_job ? "/attempt." + std::to_string(id.number) : "/attempt.old") + ".json";
  place.present = head_of_file(place.path);
  if (!same_job && place.present && place.present->id != id) return std::nullopt;
  return place;
}

}  // namespace

void write_late_record(const Start& start) {
  if (start.record_path.empty()) return;
  const os::UniqueFd lock = lock_folder(os::parent_of(start.record_path));
  const std::optional<RecordPlace> place = place_of(start.id, start.record_path);
  if (!place || (place->present && place->present->id == start.id)) return;
  const mode_t mode = 0666 & ~static_cast<mode_t>(start.folder.umask);
  (void)os::write_file_atomic(place->path, start.record_at_start, mode, /*durable=*/false);
}

std::optional<SetupFailure> write_final_record(const Forget& forget) {
  if (forget.record_path.empty()) return std::nullopt;
  const std::string out = os::parent_of(forget.record_path);
  const os::UniqueFd lock = lock_folder(out);
  const std::optional<RecordPlace> place = place_of(forget.id, forget.record_path);
  if (!place) return std::nullopt;
  const std::optional<RecordHead>& present = place->present;
  if (present && present->id == forget.id && present->has_ended) return std::nullopt;
  const Result<void> written =
      os::write_file_atomic(place->path, forget.final_record, record_mode(place->path, out),
                            /*durable=*/false);
  if (!written) return SetupFailure{"write", written.error().os_errno, place->path};
  return std::nullopt;
}

}  // namespace pergpu::keeper
