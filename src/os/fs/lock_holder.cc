// /proc/locks names the process that took a lock.  The lock belongs to the open file, though: that
// process may have ended, or have handed the file on (`flock 9` in a shell does), and then
// /proc/locks is silent or wrong.  What a process really has is in the fdinfo of its descriptors.
#include "os/fs/lock_holder.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>

#include "os/clock.h"
#include "os/fd.h"
#include "os/fs/dir_stream.h"
#include "os/fs/file.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestList = 16u << 20;
constexpr std::size_t kLongestStatus = 16u << 10;
/// Who asks may have other things to do; on a busy machine there are many descriptors.
constexpr std::int64_t kLongestSearchNs = 100'000'000;

enum class Has : std::uint8_t { Yes, No, Unknown };

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(word.size());
  return word;
}

bool is_in_the_way(const ListedLock& lock) {
  return lock.kind == "FLOCK" || lock.kind == "LEASE" || lock.kind == "DELEG";
}

/// Whether an open file of this process has a lock on the file.  A file system isn't asked: one
/// that hangs delays nothing.
Has has_lock(pid_t pid, std::string_view where) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fdinfo";
  const DirStream dir(::opendir(folder.c_str()));
  if (!dir) return errno == ENOENT ? Has::No : Has::Unknown;  // it has ended, or is another user's
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    const UniqueFd fd(::openat(::dirfd(dir.get()), entry->d_name, O_RDONLY | O_CLOEXEC));
    if (!fd && errno == EACCES) return Has::Unknown;
    if (!fd) continue;
    const Result<std::string> info = read_open_file(fd.get(), folder, kLongestStatus);
    if (!info) continue;
    const std::vector<ListedLock> locks = locks_in(*info, where);
    if (std::any_of(locks.begin(), locks.end(), is_in_the_way)) return Has::Yes;
  }
  return Has::No;
}

std::optional<pid_t> pid_in(std::string_view text) {
  pid_t pid = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return pid;
}

/// A process that has it by inheritance, as far as this user may look.
pid_t search(std::string_view where) {
  const std::int64_t end_ns = boot_now_ns() + kLongestSearchNs;
  const DirStream dir(::opendir("/proc"));
  if (!dir) return 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::optional<pid_t> pid = pid_in(entry->d_name);
    if (!pid) continue;
    if (has_lock(*pid, where) == Has::Yes) return *pid;
    if (boot_now_ns() > end_ns) break;
  }
  return 0;
}

/// The effective one: the owner of /proc/<pid> is root for programs that may not be dumped.
std::optional<uid_t> uid_of(pid_t pid) {
  const Result<std::string> status =
      read_file("/proc/" + std::to_string(pid) + "/status", kLongestStatus);
  if (!status) return std::nullopt;
  const std::size_t at = status->find("\nUid:");
  if (at == std::string::npos) return std::nullopt;
  std::string_view line = std::string_view(*status).substr(at + 5);
  line = line.substr(0, line.find('\n'));
  (void)next_word(line);  // the real one
  const std::string_view word = next_word(line);
  uid_t uid = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), uid);
  if (failed != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return uid;
}

std::string program_of(pid_t pid) {
  Result<std::string> name = read_file("/proc/" + std::to_string(pid) + "/comm", 256);
  if (!name) return {};
  if (name->ends_with('\n')) name->pop_back();
  for (char& c : *name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return *std::move(name);
}

}  // namespace

std::string where_of(const struct stat& file) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02x:%02x:%llu", major(file.st_dev), minor(file.st_dev),
                static_cast<unsigned long long>(file.st_ino));
  return text.data();
}

std::vector<ListedLock> locks_in(std::string_view list, std::string_view where) {
  std::vector<ListedLock> locks;
  while (!list.empty()) {
    std::string_view line = list.substr(0, list.find('\n'));
    list.remove_prefix(std::min(line.size() + 1, list.size()));
    // 3: FLOCK  ADVISORY  WRITE 4711 00:19:42 0 EOF      (fdinfo: "lock:" before it)
    std::string_view word = next_word(line);
    if (word == "lock:") word = next_word(line);
    const std::string_view kind = next_word(line);  // "->": it waits
    (void)next_word(line);
    const std::string_view access = next_word(line);
    const std::optional<pid_t> pid = pid_in(next_word(line));
    if (!pid || next_word(line) != where) continue;
    locks.push_back({.kind = std::string(kind), .access = std::string(access), .pid = *pid});
  }
  return locks;
}

std::optional<LockHolder> find_lock_holder(const struct stat& file) {
  const std::string where = where_of(file);
  const Result<std::string> list = read_file("/proc/locks", kLongestList);
  pid_t pid = 0;
  pid_t taker = 0;
  for (const ListedLock& lock : list ? locks_in(*list, where) : std::vector<ListedLock>()) {
    if (pid > 0 || lock.pid <= 0 || !is_in_the_way(lock)) continue;
    taker = lock.pid;
    if (has_lock(lock.pid, where) != Has::No) pid = lock.pid;
  }
  if (pid == 0) pid = search(where);
  if (pid == 0) pid = taker;  // its holder has it from there
  if (pid == 0) return std::nullopt;
  return LockHolder{.pid = pid, .uid = uid_of(pid), .program = program_of(pid)};
}

std::string words_of(const LockHolder& holder) {
  std::string words = holder.program.empty() ? "" : holder.program + ", ";
  words += "process " + std::to_string(holder.pid);
  if (holder.uid) words += " of uid " + std::to_string(*holder.uid);
  return words;
}

}  // namespace pergpu::os
