// Read entry by entry with readdir/readlinkat: a machine may have hundred thousands of descriptors.
#include "gpu/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "number.h"
#include "os/fs/dir_stream.h"
#include "os/fs/file.h"
#include "os/process/proc.h"

namespace pergpu::gpu {

namespace {

/// The initial pid namespace has this fixed inode number in every kernel.
constexpr ino_t kInitialPidNamespace = 0xEFFFFFFC;
constexpr std::size_t kMaxAncestors = 64;
constexpr std::size_t kMaxHolders = 64;

std::int32_t parent_of_process(std::int32_t pid) {
  const std::optional<os::ProcStat> stat = os::read_stat(pid);
  return stat ? stat->parent : 0;
}

std::string command_of(std::int32_t pid) {
  const Result<std::string> comm = os::read_file(fmt::format("/proc/{}/comm", pid), 256);
  if (!comm) return {};
  std::string text = comm->substr(0, comm->find('\n'));
  // It is shown to people: a process may name itself as it likes.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

// Whether one of the descriptors of `pid` is open on `device`.
bool has_open(std::int32_t pid, const std::string& device) {
  const os::DirStream dir(::opendir(fmt::format("/proc/{}/fd", pid).c_str()));
  if (!dir) return false;
  std::array<char, 64> target;
  while (const dirent* entry = ::readdir(dir.get())) {
    const ssize_t size =
        ::readlinkat(::dirfd(dir.get()), entry->d_name, target.data(), target.size());
    if (size > 0 && std::string_view(target.data(), static_cast<std::size_t>(size)) == device) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool in_pid_namespace() {
  struct stat own = {};
  return ::stat("/proc/self/ns/pid", &own) == 0 && own.st_ino != kInitialPidNamespace;
}

void describe_process(GpuProcess& process) {
  // EPERM: it exists, of another user (its folder in /proc may be hidden by hidepid).
  process.matched = process.pid > 0 && (::kill(process.pid, 0) == 0 || errno == EPERM);
  if (!process.matched) return;
  struct stat own = {};
  if (::stat(fmt::format("/proc/{}", process.pid).c_str(), &own) == 0) process.uid = own.st_uid;
  process.command = command_of(process.pid);
  std::int32_t parent = parent_of_process(process.pid);
  while (parent > 1 && process.ancestors.size() < kMaxAncestors) {
    process.ancestors.push_back(parent);
    parent = parent_of_process(parent);
  }
}

std::vector<GpuProcess> holders_of(const std::string& device) {
  std::vector<GpuProcess> holders;
  const os::DirStream proc(::opendir("/proc"));
  if (!proc) return holders;
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::optional<std::int32_t> pid = whole_number<std::int32_t>(entry->d_name);
    if (!pid || *pid == ::getpid() || !has_open(*pid, device)) continue;
    GpuProcess holder{.pid = *pid};
    describe_process(holder);
    holders.push_back(std::move(holder));
    if (holders.size() == kMaxHolders) break;
  }
  return holders;
}

std::string user_name(std::uint32_t uid) {
  const Result<std::string> passwd = os::read_file("/etc/passwd", 4u << 20);
  return user_name_in(passwd ? *passwd : std::string(), uid);
}

std::string user_name_in(std::string_view passwd, std::uint32_t uid) {
  const std::string wanted = std::to_string(uid);
  while (!passwd.empty()) {
    const std::string_view line = passwd.substr(0, passwd.find('\n'));
    passwd.remove_prefix(std::min(line.size() + 1, passwd.size()));
    const std::size_t name_end = line.find(':');
    if (name_end == std::string_view::npos || name_end == 0) continue;
    const std::size_t uid_begin = line.find(':', name_end + 1);
    if (uid_begin == std::string_view::npos) continue;
    const std::size_t uid_end = line.find(':', uid_begin + 1);
    if (uid_end == std::string_view::npos) continue;
    if (line.substr(uid_begin + 1, uid_end - uid_begin - 1) == wanted)
      return std::string(line.substr(0, name_end));
  }
  return fmt::format("uid {}", uid);
}

}  // namespace pergpu::gpu
