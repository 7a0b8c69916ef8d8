// cgroup.kill ends a whole group at once.  Where it is missing (cgroup v1, kernels before 5.14) the
// group is frozen, so that nothing forks away while its processes are killed, and thawed, because
// frozen processes of v1 do not end.
#include "os/process/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "number.h"
#include "os/fs/dir_stream.h"
#include "os/fs/file.h"
#include "os/process/child.h"
#include "os/process/paths.h"
#include "os/process/proc.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestGroupFile = 8u << 20;
constexpr int kPeriodMicroseconds = 100'000;
constexpr std::string_view kPrefix = "pergpu-";

std::string text_of(const std::string& path) {
  Result<std::string> text = read_file(path, kLongestGroupFile);
  return text ? *std::move(text) : std::string();
}

std::uint64_t number_at(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::uint64_t number_in(const std::string& path) { return number_at(text_of(path)); }

/// The number behind `key` in lines of "key number"; 0: not there.
std::uint64_t entry_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return number_at(line.substr(key.size() + 1));
  }
  return 0;
}

bool write_value(const std::string& path, std::string_view value) {
  return static_cast<bool>(write_kernel_file(path, value));
}

/// Folders below `folder` (a job can make its own groups), each after its parent.
std::vector<std::string> with_subfolders(const std::string& folder) {
  std::vector<std::string> out = {folder};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string parent = out[i];
    const DirStream dir(::opendir(parent.c_str()));
    while (const dirent* entry = dir ? ::readdir(dir.get()) : nullptr) {
      const std::string_view name = entry->d_name;
      if (entry->d_type == DT_DIR && name != "." && name != "..")
        out.push_back(parent + "/" + entry->d_name);
    }
  }
  return out;
}

/// Those that are still there after each one's start time was read: a pid cannot mean another
/// process then.
void kill_each(const std::vector<std::string>& folders) {
  std::vector<ProcStat> found;
  for (const pid_t pid : processes_in(folders)) {
    if (std::optional<ProcStat> stat = read_stat(pid)) found.push_back(*std::move(stat));
  }
  const std::vector<pid_t> still = processes_in(folders);
  for (const ProcStat& stat : found) {
    if (std::find(still.begin(), still.end(), stat.pid) != still.end())
      (void)send_signal(stat.pid, stat.start_ticks, SIGKILL);
  }
}

/// Always a new one; in a plain folder tree, which stands in for the kernel's in tests, taken over.
Result<void> make_group(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0755) == 0) return {};
  if (errno != EEXIST) return os_error("make group " + folder);
  if (::rmdir(folder.c_str()) < 0 && errno == ENOTEMPTY) return {};
  if (!remove_groups({folder}) || ::mkdir(folder.c_str(), 0755) < 0)
    return os_error("make group " + folder);
  return {};
}

std::vector<std::string> distinct_folders(const CgroupSite& site) {
  std::vector<std::string> out;
  for (const CgroupPlace& place : {site.track, site.memory, site.cpu}) {
    if (place && std::find(out.begin(), out.end(), place.folder) == out.end())
      out.push_back(place.folder);
  }
  return out;
}

}  // namespace

Result<Cgroup> Cgroup::make(const CgroupSite& site, const std::string& name,
                            const CgroupLimits& limits) {
  Cgroup group;
  const auto undo = [&](Error error) {
    remove_groups(group.folders_);
    return error;
  };
  // v1 has every process wait for the kernel when it joins (10 ms and more): only for a limit.
  if (site.track && (site.track.version == 2 || limits.any())) {
    if (Result<void> added = group.add(site.track, name); !added)
      return undo(std::move(added).error());
  }
  if (site.memory && limits.memory_bytes != 0) {
    if (Result<void> added = group.add(site.memory, name); !added)
      return undo(std::move(added).error());
    group.memory_ = {site.memory.version, site.memory.folder + "/" + name};
    if (group.limit_memory(limits.memory_bytes)) group.limits_.memory_bytes = limits.memory_bytes;
  }
  if (site.cpu && limits.cpu_milli != 0) {
    if (Result<void> added = group.add(site.cpu, name); !added)
      return undo(std::move(added).error());
    group.cpu_ = {site.cpu.version, site.cpu.folder + "/" + name};
    if (group.limit_cpu(limits.cpu_milli)) group.limits_.cpu_milli = limits.cpu_milli;
  }
  return group;
}

Result<void> Cgroup::add(const CgroupPlace& place, const std::string& name) {
  const std::string folder = place.folder + "/" + name;
  if (std::find(folders_.begin(), folders_.end(), folder) != folders_.end()) return {};
  Result<void> made = make_group(folder);
  if (!made) return made;
  folders_.push_back(folder);
  if (place.version == 2) {
    born_in_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return born_in_ ? Result<void>() : os_error("open " + folder);
  }
  joins_.emplace_back(::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  return joins_.back() ? Result<void>() : os_error("open " + folder + "/cgroup.procs");
}

Result<void> Cgroup::limit_memory(std::uint64_t bytes) {
  const std::string value = std::to_string(bytes);
  if (memory_.version == 1) {
    Result<void> written = write_kernel_file(memory_.folder + "/memory.limit_in_bytes", value);
    // With swap; not there where the kernel does not count it.
    (void)write_kernel_file(memory_.folder + "/memory.memsw.limit_in_bytes", value);
    return written;
  }
  Result<void> written = write_kernel_file(memory_.folder + "/memory.max", value);
  (void)write_kernel_file(memory_.folder + "/memory.swap.max", "0");
  (void)write_kernel_file(memory_.folder + "/memory.oom.group", "1");
  return written;
}

Result<void> Cgroup::limit_cpu(int milli) {
  const std::string quota = std::to_string(std::int64_t{milli} * kPeriodMicroseconds / 1000);
  const std::string period = std::to_string(kPeriodMicroseconds);
  if (cpu_.version == 2) return write_kernel_file(cpu_.folder + "/cpu.max", quota + " " + period);
  Result<void> written = write_kernel_file(cpu_.folder + "/cpu.cfs_period_us", period);
  if (!written) return written;
  return write_kernel_file(cpu_.folder + "/cpu.cfs_quota_us", quota);
}

std::vector<int> Cgroup::join_fds() const {
  std::vector<int> out;
  for (const UniqueFd& fd : joins_) out.push_back(fd.get());
  return out;
}

Result<UniqueFd> Cgroup::watch_memory() const {
  if (memory_version() != 1) return UniqueFd();
  const std::string path = memory_.folder + "/memory.oom_control";
  const UniqueFd control(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!control) return os_error("open " + path);
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return os_error("eventfd");
  Result<void> asked =
      write_kernel_file(memory_.folder + "/cgroup.event_control",
                        std::to_string(event.get()) + " " + std::to_string(control.get()));
  if (!asked) return std::move(asked).error();
  return event;
}

/// memory.failcnt stays 0 with new kernels.  Memory is charged in batches, so a little is left.
bool Cgroup::is_at_limit(std::uint64_t bytes) const {
  return bytes + limits_.memory_bytes / 64 >= limits_.memory_bytes;
}

bool Cgroup::has_run_out() const {
  if (memory_.version != 1) return memory().kills > 0;
  return memory().kills > 0 || is_at_limit(number_in(memory_.folder + "/memory.usage_in_bytes"));
}

CgroupMemory Cgroup::memory() const {
  CgroupMemory out;
  if (memory_.version == 1) {
    out.kills = entry_of(text_of(memory_.folder + "/memory.oom_control"), "oom_kill");
    out.peak_bytes = number_in(memory_.folder + "/memory.max_usage_in_bytes");
    out.at_limit = is_at_limit(out.peak_bytes);
  } else if (memory_.version == 2) {
    const std::string events = text_of(memory_.folder + "/memory.events");
    out.kills = entry_of(events, "oom_kill");
    out.at_limit = entry_of(events, "oom") > 0;
    out.peak_bytes = number_in(memory_.folder + "/memory.peak");
  }
  return out;
}

std::uint64_t Cgroup::used_bytes() const {
  if (!memory_) return 0;
  const std::string stat = text_of(memory_.folder + "/memory.stat");
  if (memory_.version == 2) return entry_of(stat, "anon") + entry_of(stat, "shmem");
  return entry_of(stat, "total_rss") + entry_of(stat, "total_shmem");
}

std::optional<std::int64_t> Cgroup::cpu_ns() const {
  if (!born_in_) return std::nullopt;  // only folders of v2 are born in
  const std::string stat = text_of(folders_.front() + "/cpu.stat");
  if (!stat.starts_with("usage_usec ")) return std::nullopt;
  return static_cast<std::int64_t>(entry_of(stat, "usage_usec")) * 1000;
}

std::string cgroup_name(const std::string& home, std::int64_t keeper) {
  return std::string(kPrefix) + name_hash(home) + "-k" + std::to_string(keeper);
}

std::int64_t keeper_of_cgroup(const std::string& name, const std::string& home) {
  const std::string prefix = std::string(kPrefix) + name_hash(home) + "-k";
  if (!name.starts_with(prefix)) return 0;
  return whole_number<std::int64_t>(std::string_view(name).substr(prefix.size())).value_or(0);
}

std::vector<pid_t> processes_in(const std::vector<std::string>& folders) {
  std::vector<pid_t> out;
  for (const std::string& top : folders) {
    for (const std::string& folder : with_subfolders(top)) {
      const std::string text = text_of(folder + "/cgroup.procs");
      std::string_view rest = text;
      while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        const auto pid = static_cast<pid_t>(number_at(rest.substr(0, end)));
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (pid > 0) out.push_back(pid);  // 0: of another pid namespace
      }
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void kill_groups(const std::vector<std::string>& folders) {
  std::vector<std::string> others;
  for (const std::string& folder : folders) {
    if (!write_value(folder + "/cgroup.kill", "1")) others.push_back(folder);
  }
  if (others.empty()) return;
  for (const std::string& folder : others) {
    if (!write_value(folder + "/freezer.state", "FROZEN"))
      write_value(folder + "/cgroup.freeze", "1");
  }
  kill_each(others);
  for (const std::string& folder : others) {
    if (!write_value(folder + "/freezer.state", "THAWED"))
      write_value(folder + "/cgroup.freeze", "0");
  }
}

bool remove_groups(const std::vector<std::string>& folders) {
  bool all = true;
  for (const std::string& top : folders) {
    if (::rmdir(top.c_str()) == 0 || errno == ENOENT) continue;
    const std::vector<std::string> below = with_subfolders(top);
    for (auto it = below.rbegin(); it != below.rend(); ++it)
      all = (::rmdir(it->c_str()) == 0 || errno == ENOENT) && all;
  }
  return all;
}

std::vector<std::string> groups_named(const CgroupSite& site, const std::string& name) {
  std::vector<std::string> out;
  for (const std::string& folder : distinct_folders(site)) {
    if (is_directory(folder + "/" + name)) out.push_back(folder + "/" + name);
  }
  return out;
}

std::vector<std::string> groups_of_home(const CgroupSite& site, const std::string& home) {
  std::vector<std::string> out;
  for (const std::string& folder : distinct_folders(site)) {
    Result<std::vector<std::string>> names = list_dir(folder);
    if (!names) continue;
    for (std::string& name : *names) {
      if (keeper_of_cgroup(name, home) != 0) out.push_back(std::move(name));
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace pergpu::os
