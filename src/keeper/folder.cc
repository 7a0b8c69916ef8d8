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
std::string head_of(const std::string& path) {
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[256];
  const ssize_t n = fd ? ::read(fd.get(), buffer, sizeof buffer) : 0;
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

std::optional<SetupFailure> move_aside(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT) return std::nullopt;
  return SetupFailure{"rename", errno, from};
}

bool has_content(const std::string& path, std::string_view content) {
  struct stat st = {};
  if (::stat(path.c_str(), &st) < 0 || st.st_size != static_cast<off_t>(content.size()))
    return false;
  const Result<std::string> present = os::read_file(path, kLargestKeptFile);
  return present && *present == content;
}

}  // namespace

std::optional<std::int32_t> attempt_of_record(std::string_view text) {
  constexpr std::string_view kKey = "\"attempt\":";
  const std::size_t at = text.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kKey.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data() + text.size()) return std::nullopt;  // or cut
  return number;
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

std::optional<SetupFailure> move_earlier_attempt(const Folder& folder) {
  const std::string log = folder.out + "/log.txt";
  const std::string record = folder.out + "/attempt.json";
  std::string suffix = ".old";
  if (folder.attempt > 1) {
    const os::UniqueFd lock = lock_folder(folder.out);
    const std::optional<std::int32_t> owner = attempt_of_record(head_of(record));
    if (owner == folder.attempt) return std::nullopt;
    suffix = "." + std::to_string(owner.value_or(folder.attempt - 1));
    if (!owner && ::access((folder.out + "/log" + suffix + ".txt").c_str(), F_OK) == 0)
      return std::nullopt;  // done before
    if (auto failure = move_aside(log, folder.out + "/log" + suffix + ".txt")) return failure;
    return move_aside(record, folder.out + "/attempt" + suffix + ".json");
  }
  if (auto failure = move_aside(log, folder.out + "/log" + suffix + ".txt")) return failure;
  return move_aside(record, folder.out + "/attempt" + suffix + ".json");
}

std::optional<SetupFailure> write_final_record(const Forget& forget) {
  if (forget.record_path.empty()) return std::nullopt;
  const std::string out = os::parent_of(forget.record_path);
  const os::UniqueFd lock = lock_folder(out);
  struct stat st = {};
  mode_t mode = 0644;
  const bool is_there = ::stat(forget.record_path.c_str(), &st) == 0;
  if (is_there) mode = st.st_mode & 0777;
  const std::optional<std::int32_t> owner =
      is_there ? attempt_of_record(head_of(forget.record_path)) : std::nullopt;
  const std::string number = std::to_string(forget.id.number);
  const std::string moved = out + "/attempt." + number + ".json";
  const std::string moved_log = out + "/log." + number + ".txt";
  const bool has_moved_on = owner ? *owner != forget.id.number
                                  : ::access(moved.c_str(), F_OK) == 0 ||
                                        ::access(moved_log.c_str(), F_OK) == 0;
  const std::string& path = has_moved_on ? moved : forget.record_path;
  const Result<void> written =
      os::write_file_atomic(path, forget.final_record, mode, /*durable=*/false);
  if (!written) return SetupFailure{"write", written.error().os_errno, path};
  return std::nullopt;
}

}  // namespace pergpu::keeper
