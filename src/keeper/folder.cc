// Mode bits: new folders 0777 and files 0666 without the bits of the sweep's umask.
#include "keeper/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "os/fs/file.h"
#include "os/fs/folder_note.h"
#include "os/fs/folder_walk.h"
#include "os/fs/path_names.h"
#include "os/fs/room.h"
#include "os/fs/written_file.h"
#include "storage_errno.h"

namespace pergpu::keeper {
namespace {

constexpr std::size_t kLargestKeptFile = 64u << 20;
constexpr char kLog[] = "log.txt";
constexpr char kRecord[] = "attempt.json";

/// Serializes the moving-aside with a late final record of the attempt before, which another keeper
/// may be writing.  Waited for a few milliseconds only: a job can hold a lock on its own folder
/// forever.
os::UniqueFd lock_folder(const os::HeldFolder& out) {
  constexpr int kTries = 10;
  Result<os::UniqueFd> fd = out.open_itself();
  if (!fd) return {};
  for (int i = 0; i < kTries && ::flock(fd->get(), LOCK_EX | LOCK_NB) < 0; ++i) ::usleep(1000);
  return *std::move(fd);
}

/// The first bytes of a record, "" when it cannot be read.
std::string beginning_of(const os::HeldFolder& out, const std::string& name) {
  const Result<os::UniqueFd> fd = os::open_written(out, name, os::Writer::Keeper);
  char buffer[2048];
  const ssize_t n = fd ? ::read(fd->get(), buffer, sizeof buffer) : 0;
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

/// A symlink that leads nowhere is there, too.
bool is_there(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0;
}

bool has_content(const os::HeldFolder& out, const FileToWrite& file) {
  const Result<std::string> present =
      os::read_written(out, os::name_of(file.path), os::Writer::Keeper, kLargestKeptFile);
  return present && *present == file.content;
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
mode_t record_mode(const os::HeldFolder& out, const std::string& record) {
  for (const std::string& name : {record, std::string(kLog)}) {
    const Result<std::optional<struct stat>> st = out.look_at(name);
    if (st && *st && S_ISREG((*st)->st_mode)) return (*st)->st_mode & 0666;
  }
  return 0644;
}

std::optional<RecordHead> head_of_file(const os::HeldFolder& out, const std::string& name) {
  return record_head(beginning_of(out, name));
}

/// "program": the message is a whole sentence, which names the link and its owner.
SetupFailure failure_of(const char* phase, const Error& error, const std::string& object) {
  if (os::is_foreign_link(error)) return {"program", error.os_errno, error.message};
  if (error.kind == ErrorKind::Busy && error.os_errno == ESTALE)
    return {std::string(kRootReplaced), ESTALE, error.message};
  return {phase, error.os_errno, object};
}

Error replaced(const Root& root) { return {ErrorKind::Busy, ESTALE, root.path}; }

/// Two keepers may find a removed root at the same time: the one that hasn't made it again waits
/// for the note of the other.
bool is_noted_soon(const os::HeldFolder& folder, const std::string& note) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) ::usleep(10'000);
    if (os::is_noted_folder(folder, note)) return true;
  }
  return false;
}

/// A root that was removed is made again, and is the one from then on for all that have it.
Result<os::HeldFolder> make_root(const Root& root, mode_t mode) {
  Result<os::FoundFolder> found = os::HeldFolder::find_or_make(root.path, mode);
  if (!found) return std::move(found).error();
  if (root.note.empty()) return std::move(found->folder);
  // What can't be noted (the home is full, or gone) is no reason to start nothing.
  if (found->is_new) {
    (void)os::note_new_folder(found->folder, root.note);
  } else if (os::is_noted_folder(found->folder, root.note)) {
    return std::move(found->folder);
  } else if (!is_there(root.note)) {
    (void)os::note_folder(found->folder, root.note);
  }
  if (!is_noted_soon(found->folder, root.note)) return replaced(root);
  return std::move(found->folder);
}

Result<os::HeldFolder> open_folder(const Root& root, const std::string& path) {
  const std::string rest = os::path_below(root.path, path);
  if (rest.empty()) return os::HeldFolder::open(path);
  if (root.note.empty()) return os::open_below(root.path, path);
  const Result<os::HeldFolder> held = os::HeldFolder::open(root.path);
  if (!held) return held.error();
  if (!os::is_noted_folder(*held, root.note)) return replaced(root);
  return held->open_below(rest);
}

Result<os::HeldName> walk_to(const Root& root, const std::string& path) {
  Result<os::HeldFolder> folder = open_folder(root, os::parent_of(path));
  if (!folder) return std::move(folder).error();
  return os::HeldName{.folder = *std::move(folder), .name = os::name_of(path)};
}

bool is_same_folder(const os::HeldFolder& a, const os::HeldFolder& b) {
  struct stat one = {};
  struct stat other = {};
  return ::fstat(a.fd(), &one) == 0 && ::fstat(b.fd(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

/// A symlink that leads nowhere is there, too.
bool is_in(const os::HeldFolder& folder, const std::string& name) {
  const Result<std::optional<struct stat>> st = folder.look_at(name);
  return st && *st;
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

Result<os::HeldFolder> make_folder(const Folder& folder, const Root& root) {
  const mode_t mode = 0777 & ~static_cast<mode_t>(folder.umask);
  const std::string rest = os::path_below(root.path, folder.out);
  if (rest.empty()) return os::HeldFolder::make(folder.out, mode);
  const Result<os::HeldFolder> held = make_root(root, mode);
  if (!held) return held.error();
  return held->make_below(rest, mode);
}

bool prepare_ahead(const Folder& folder, const Root& root) {
  const Result<os::HeldFolder> out = make_folder(folder, root);
  if (!out) return false;
  const mode_t mode = 0666 & ~static_cast<mode_t>(folder.umask);
  return std::ranges::all_of(folder.files, [&](const FileToWrite& wanted) {
    return out->write_new_file(os::name_of(wanted.path), wanted.content, mode) ||
           (wanted.keep_if_same && has_content(*out, wanted));
  });
}

Claim claim_folder(const Start& start) {
  constexpr int kTries = 2;  // it may be removed right now
  const std::string& path = start.folder.out;
  for (int i = 1;; ++i) {
    Result<os::HeldFolder> out = make_folder(start.folder, start.root);
    if (!out) return {.failure = failure_of("mkdir", out.error(), path)};
    Result<os::FolderLock> lock = os::FolderLock::take(*out, start.holder);
    if (lock) {
      // One of its locks lies in the folder's parent, which is found by the path.
      const Result<os::HeldFolder> now = open_folder({.path = start.root.path}, path);
      if (now && is_same_folder(*now, *out))
        return {.lock = *std::move(lock), .out = *std::move(out)};
      if (i < kTries) continue;
      if (!now) return {.failure = failure_of("open folder", now.error(), path)};
      return {.failure = SetupFailure{"open folder", ESTALE, path}};
    }
    const Error& error = lock.error();
    if (error.kind == ErrorKind::NotFound && i < kTries) continue;
    if (error.kind == ErrorKind::Busy) {
      // A coordinator of the release before takes it for a shortage, and tries again.
      return {.failure = SetupFailure{std::string(kFolderInUse), EAGAIN, error.message}};
    }
    return {.failure = failure_of("lock", error, path + "/" + os::FolderLock::kName)};
  }
}

bool is_fresh(const Start& start, const os::HeldFolder& out) {
  return start.id.number == 1 && !is_in(out, kLog) && !is_in(out, kRecord);
}

std::optional<SetupFailure> prepare_folder(const Folder& folder, const os::HeldFolder& out) {
  const mode_t mode = 0666 & ~static_cast<mode_t>(folder.umask);
  for (const FileToWrite& wanted : folder.files) {
    Result<void> written = out.write_new_file(os::name_of(wanted.path), wanted.content, mode);
    if (!written && written.error().os_errno == EEXIST) {
      if (wanted.keep_if_same && has_content(out, wanted)) continue;
      written =
          out.write_file_atomic(os::name_of(wanted.path), wanted.content, mode, /*durable=*/false);
    }
    if (!written)
      return SetupFailure{"write", written.error().os_errno, out.path_of(os::name_of(wanted.path))};
  }
  return std::nullopt;
}

std::optional<SetupFailure> lacks_room(const Folder& folder) {
  if (!os::seems_full(folder.out)) return std::nullopt;
  const Result<void> written = os::try_writing(folder.out);
  if (written || !is_storage_errno(written.error().os_errno)) return std::nullopt;
  return SetupFailure{"write in", written.error().os_errno, folder.out};
}

bool is_prepared_still(const Folder& folder, const os::HeldFolder& out) {
  return std::ranges::all_of(
      folder.files, [&](const FileToWrite& file) { return is_in(out, os::name_of(file.path)); });
}

Taken take_folder(const Start& start, const os::HeldFolder& out) {
  if (is_fresh(start, out)) return {.was_fresh = true};
  const os::UniqueFd lock = lock_folder(out);
  const std::optional<RecordHead> earlier = head_of_file(out, kRecord);
  const Result<std::string> record =
      os::read_written(out, kRecord, os::Writer::Keeper, kLargestKeptFile);
  if (record && *record == start.record_at_start) return {};  // done by a START before this one
  // Another home counts its jobs as this one does: only a lower number is an attempt of this job.
  std::string suffix = ".old";
  const RecordHead mine = head_of(start.id, start.record_at_start);
  if (earlier && is_same_job(*earlier, mine) && earlier->id.number < start.id.number) {
    suffix = "." + std::to_string(earlier->id.number);
  } else if (!earlier && start.id.number > 1) {
    suffix = "." + std::to_string(start.id.number - 1);
  }
  const std::string old_record = "attempt" + suffix + ".json";
  const Result<void> moved = out.rename(kLog, "log" + suffix + ".txt");
  if (moved) {
    ::unlinkat(out.fd(), old_record.c_str(), 0);  // of an earlier log of that name
  } else if (moved.error().os_errno != ENOENT) {
    return {.failure = SetupFailure{"rename", moved.error().os_errno, out.path_of(kLog)}};
  }
  (void)out.rename("stacks.txt", "stacks" + suffix + ".txt");
  const Result<void> kept = out.rename(kRecord, old_record);
  if (!kept && kept.error().os_errno != ENOENT)
    return {.failure = SetupFailure{"rename", kept.error().os_errno, out.path_of(kRecord)}};
  const Result<void> written = write_record(start, out);
  if (!written && is_storage_errno(written.error().os_errno))
    return {.failure = SetupFailure{"write", written.error().os_errno, start.record_path}};
  return {};
}

Result<void> write_record(const Start& start, const os::HeldFolder& out) {
  if (start.record_path.empty()) return {};
  const mode_t mode = 0666 & ~static_cast<mode_t>(start.folder.umask);
  return out.write_file_atomic(os::name_of(start.record_path), start.record_at_start, mode,
                               /*durable=*/false);
}

Result<void> write_record(const Start& start) {
  if (start.record_path.empty()) return {};
  const Result<os::HeldFolder> out = open_folder(start.root, os::parent_of(start.record_path));
  if (!out) return out.error();
  return write_record(start, *out);
}

namespace {

/// Where the record of an attempt that has ended belongs, and what lies there.
struct RecordPlace {
  std::string name = {};
  std::optional<RecordHead> present = std::nullopt;
};

/// nullopt: the folder has seen two other jobs since.  REQUIRES: the folder is locked.
std::optional<RecordPlace> place_of(const RecordHead& mine, const os::HeldName& record) {
  RecordPlace place{.name = record.name, .present = head_of_file(record.folder, record.name)};
  if (!place.present || is_same_attempt(*place.present, mine)) return place;
  const bool same_job = is_same_job(*place.present, mine);  // the folder has moved on
  place.name = (same_job ? "attempt." + std::to_string(mine.id.number) : "attempt.old") + ".json";
  place.present = head_of_file(record.folder, place.name);
  if (!same_job && place.present && !is_same_attempt(*place.present, mine)) return std::nullopt;
  return place;
}

}  // namespace

void write_late_record(const Start& start) {
  if (start.record_path.empty()) return;
  const Result<os::HeldName> record = walk_to(start.root, start.record_path);
  if (!record) return;
  const os::UniqueFd lock = lock_folder(record->folder);
  const RecordHead mine = head_of(start.id, start.record_at_start);
  const std::optional<RecordPlace> place = place_of(mine, *record);
  if (!place || (place->present && is_same_attempt(*place->present, mine))) return;
  const mode_t mode = 0666 & ~static_cast<mode_t>(start.folder.umask);
  (void)record->folder.write_file_atomic(place->name, start.record_at_start, mode,
                                         /*durable=*/false);
}

namespace {

std::optional<SetupFailure> write_final_record(const Forget& forget, const os::HeldName& record) {
  const os::UniqueFd lock = lock_folder(record.folder);
  const RecordHead mine = head_of(forget.id, forget.final_record);
  const std::optional<RecordPlace> place = place_of(mine, record);
  if (!place) return std::nullopt;
  const std::optional<RecordHead>& present = place->present;
  if (present && is_same_attempt(*present, mine) && present->has_ended) return std::nullopt;
  const Result<void> written = record.folder.write_file_atomic(
      place->name, forget.final_record, record_mode(record.folder, place->name),
      /*durable=*/false);
  if (!written)
    return SetupFailure{"write", written.error().os_errno, record.folder.path_of(place->name)};
  return std::nullopt;
}

}  // namespace

std::optional<SetupFailure> leave_folder(const Forget& forget) {
  if (forget.record_path.empty()) return std::nullopt;
  const Result<os::HeldName> record = walk_to(forget.root, forget.record_path);
  if (!record) {
    os::tidy_folder(os::parent_of(forget.record_path));  // a lock may lie beside what was removed
    return failure_of("write", record.error(), forget.record_path);
  }
  std::optional<SetupFailure> failure = write_final_record(forget, *record);
  // Without a root (an earlier release sends none) the walk followed links anywhere.
  if (forget.root.path.empty()) {
    os::tidy_folder(os::parent_of(forget.record_path));
  } else {
    os::tidy_folder(record->folder);
  }
  return failure;
}

}  // namespace pergpu::keeper
