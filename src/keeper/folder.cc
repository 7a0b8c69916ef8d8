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
#include "os/folder_note.h"
#include "os/folder_walk.h"
#include "os/room.h"
#include "os/written_file.h"
#include "storage_errno.h"

namespace pergpu::keeper {
namespace {

constexpr std::size_t kLargestKeptFile = 64u << 20;
constexpr char kLog[] = "log.txt";
constexpr char kRecord[] = "attempt.json";

/// Serialises the moving-aside with a late final record of the attempt before, which another keeper
/// may be writing.  Waited for a few milliseconds only: a job can hold a lock on its own folder for
/// ever.
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

bool has_content(const os::HeldName& file, std::string_view content) {
  const Result<std::string> present =
      os::read_written(file.folder, file.name, os::Writer::Keeper, kLargestKeptFile);
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
  return {phase, error.os_errno, object};
}

Result<os::HeldFolder> make_folder(const Folder& folder) {
  return os::HeldFolder::make(folder.out, 0777 & ~static_cast<mode_t>(folder.umask));
}

/// A root that was removed is made again, and is the one from then on for all that have it.
Result<os::HeldFolder> make_folder_in(const Root& root, const Folder& folder) {
  const bool is_new = !is_there(root.path);
  Result<os::HeldFolder> made = make_folder(folder);
  if (!made || root.note.empty()) return made;
  if (is_new) os::forget_notes(root.note);
  // What can't be noted (the home is full, or gone) is no reason to start nothing.
  if (!is_there(root.note)) (void)os::note_folder(root.path, root.note);
  return made;
}

bool is_replaced(const Root& root) {
  return !root.note.empty() && !os::is_noted_folder(root.path, root.note);
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

bool prepare_ahead(const Folder& folder, const Root& root) {
  if (is_replaced(root) || !make_folder_in(root, folder)) return false;
  const mode_t mode = 0666 & ~static_cast<mode_t>(folder.umask);
  return std::ranges::all_of(folder.files, [&](const FileToWrite& wanted) {
    const Result<os::HeldName> file = os::walk_to(wanted.path);
    if (!file) return false;
    return file->folder.write_new_file(file->name, wanted.content, mode) ||
           (wanted.keep_if_same && has_content(*file, wanted.content));
  });
}

Claim claim_folder(const Start& start) {
  constexpr int kTries = 2;  // it may be removed right now
  const std::string& out = start.folder.out;
  if (is_replaced(start.root))
    return {.failure = SetupFailure{std::string(kRootReplaced), ESTALE, start.root.path}};
  for (int i = 1;; ++i) {
    if (const Result<os::HeldFolder> made = make_folder_in(start.root, start.folder); !made)
      return {.failure = failure_of("mkdir", made.error(), out)};
    Result<os::FolderLock> lock = os::FolderLock::take(out, start.holder);
    if (lock) return {.lock = *std::move(lock)};
    const Error& error = lock.error();
    if (error.kind == ErrorKind::NotFound && i < kTries) continue;
    if (error.kind == ErrorKind::Busy) {
      // A coordinator of the release before takes it for a shortage, and tries again.
      return {.failure = SetupFailure{std::string(kFolderInUse), EAGAIN, error.message}};
    }
    return {.failure = failure_of("lock", error, out + "/" + os::FolderLock::kName)};
  }
}

bool is_fresh(const Start& start) {
  return start.id.number == 1 && !is_there(start.folder.out + "/" + kLog) &&
         !is_there(start.folder.out + "/" + kRecord);
}

std::optional<SetupFailure> prepare_folder(const Folder& folder) {
  if (const Result<os::HeldFolder> made = make_folder(folder); !made)
    return failure_of("mkdir", made.error(), folder.out);
  const mode_t file_mode = 0666 & ~static_cast<mode_t>(folder.umask);
  for (const FileToWrite& wanted : folder.files) {
    const Result<os::HeldName> file = os::walk_to(wanted.path);
    if (!file) return failure_of("write", file.error(), wanted.path);
    Result<void> written = file->folder.write_new_file(file->name, wanted.content, file_mode);
    if (!written && written.error().os_errno == EEXIST) {
      if (wanted.keep_if_same && has_content(*file, wanted.content)) continue;
      written = file->folder.write_file_atomic(file->name, wanted.content, file_mode,
                                               /*durable=*/false);
    }
    if (!written) return SetupFailure{"write", written.error().os_errno, wanted.path};
  }
  return std::nullopt;
}

std::optional<SetupFailure> lacks_room(const Folder& folder) {
  if (!os::seems_full(folder.out)) return std::nullopt;
  const Result<void> written = os::try_writing(folder.out);
  if (written || !is_storage_errno(written.error().os_errno)) return std::nullopt;
  return SetupFailure{"write in", written.error().os_errno, folder.out};
}

bool is_prepared_still(const Folder& folder) {
  if (folder.files.empty()) return is_there(folder.out);
  return std::all_of(folder.files.begin(), folder.files.end(),
                     [](const FileToWrite& file) { return is_there(file.path); });
}

Taken take_folder(const Start& start) {
  if (is_fresh(start)) return {.was_fresh = true};
  const Result<os::HeldFolder> held = os::HeldFolder::open(start.folder.out);
  if (!held) return {.failure = failure_of("open folder", held.error(), start.folder.out)};
  const os::HeldFolder& out = *held;
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
  const Result<void> written = write_record(start);
  if (!written && is_storage_errno(written.error().os_errno))
    return {.failure = SetupFailure{"write", written.error().os_errno, start.record_path}};
  return {};
}

Result<void> write_record(const Start& start) {
  if (start.record_path.empty()) return {};
  const mode_t mode = 0666 & ~static_cast<mode_t>(start.folder.umask);
  return os::write_walked(start.record_path, start.record_at_start, mode, /*durable=*/false);
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
  const Result<os::HeldName> record = os::walk_to(start.record_path);
  if (!record) return;
  const os::UniqueFd lock = lock_folder(record->folder);
  const RecordHead mine = head_of(start.id, start.record_at_start);
  const std::optional<RecordPlace> place = place_of(mine, *record);
  if (!place || (place->present && is_same_attempt(*place->present, mine))) return;
  const mode_t mode = 0666 & ~static_cast<mode_t>(start.folder.umask);
  (void)record->folder.write_file_atomic(place->name, start.record_at_start, mode,
                                         /*durable=*/false);
}

std::optional<SetupFailure> write_final_record(const Forget& forget) {
  if (forget.record_path.empty()) return std::nullopt;
  const Result<os::HeldName> record = os::walk_to(forget.record_path);
  if (!record) return failure_of("write", record.error(), forget.record_path);
  const os::UniqueFd lock = lock_folder(record->folder);
  const RecordHead mine = head_of(forget.id, forget.final_record);
  const std::optional<RecordPlace> place = place_of(mine, *record);
  if (!place) return std::nullopt;
  const std::optional<RecordHead>& present = place->present;
  if (present && is_same_attempt(*present, mine) && present->has_ended) return std::nullopt;
  const Result<void> written = record->folder.write_file_atomic(
      place->name, forget.final_record, record_mode(record->folder, place->name),
      /*durable=*/false);
  if (!written)
    return SetupFailure{"write", written.error().os_errno, record->folder.path_of(place->name)};
  return std::nullopt;
}

}  // namespace pergpu::keeper
