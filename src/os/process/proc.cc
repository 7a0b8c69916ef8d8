// Read with open/read into a buffer: this code runs in the keeper, which stays small.
#include "os/process/proc.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "number.h"
#include "os/fd.h"
#include "os/fs/dir_stream.h"
#include "os/test_hooks.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestEnvironment = 16u << 20;

std::string path_of(pid_t pid, std::string_view file) {
  return ("/proc/" + std::to_string(pid) + "/").append(file);
}

/// "" when it cannot be read.
std::string slurp(const std::string& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out;
  if (!fd) return out;
  char buffer[4096];
  while (out.size() < limit) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n <= 0) break;
    out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}

/// The number at the start of `text` after blanks; advances past it.
constexpr std::int64_t kTickNs = 10'000'000;  // USER_HZ is 100 on every architecture we run on
constexpr std::uint64_t kMostTicks = 900'000'000'000;  // nanoseconds of it fit into 63 bits

std::uint64_t take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{})
    text.remove_prefix(std::min(text.find(' '), text.size()));  // "-1"
  else
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// The names of `folder` that are numbers.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> out;
  const DirStream dir(::opendir(folder.c_str()));
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (const auto value = whole_number<pid_t>(entry->d_name)) out.push_back(*value);
  }
  return out;
}

/// Whether the mask of /proc/<pid>/status that `field` begins has the signal.
bool has_signal(pid_t pid, int signal, std::string_view field) {
  const std::string status = slurp(path_of(pid, "status"), 16 * 1024);
  const std::size_t at = status.find(field);
  if (at == std::string::npos) return false;
  const std::uint64_t mask = std::strtoull(status.c_str() + at + field.size(), nullptr, 16);
  return (mask >> (signal - 1) & 1u) != 0;
}

}  // namespace

std::optional<ProcStat> stat_in(pid_t pid, std::string_view text) {
  // The name is in parentheses and may hold anything, closing parentheses included.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
      close + 2 >= text.size())
    return std::nullopt;
  ProcStat out;
  out.pid = pid;
  out.name = text.substr(open + 1, close - open - 1);
  out.state = text[close + 2];
  std::string_view rest = text.substr(close + 3);
  out.parent = static_cast<pid_t>(take_number(rest));   // field 4
  take_number(rest);                                    // process group
  out.session = static_cast<pid_t>(take_number(rest));  // field 6
  for (int field = 7; field < 9; ++field) take_number(rest);
  constexpr std::uint64_t kKernelThread = 0x0020'0000;  // PF_KTHREAD, linux/sched.h
  out.is_kernel_thread = (take_number(rest) & kKernelThread) != 0;
  for (int field = 10; field < 14; ++field) take_number(rest);
  std::uint64_t ticks = 0;
  for (int field = 14; field < 18; ++field) ticks += take_number(rest);
  out.cpu_ns = static_cast<std::int64_t>(ticks % kMostTicks) * kTickNs;
  for (int field = 18; field < 22; ++field) take_number(rest);
  out.start_ticks = take_number(rest);
  take_number(rest);  // field 23, size of the address space
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.resident_bytes = take_number(rest) * page;  // field 24
  return out;
}

std::optional<ProcStat> read_stat(pid_t pid) {
  return stat_in(pid, slurp(path_of(pid, "stat"), 4096));
}

bool is_alive(pid_t pid, std::uint64_t start_ticks) {
  const std::optional<ProcStat> stat = read_stat(pid);
  return stat && stat->start_ticks == start_ticks && !stat->ended();
}

bool catches(pid_t pid, int signal) { return has_signal(pid, signal, "\nSigCgt:"); }

bool handles(pid_t pid, int signal) {
  return catches(pid, signal) || has_signal(pid, signal, "\nSigBlk:");
}

std::optional<std::string> value_in(std::string_view environment, std::string_view name) {
  std::string_view rest = environment;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry.size() > name.size() && entry[name.size()] == '=' &&
        entry.substr(0, name.size()) == name)
      return std::string(entry.substr(name.size() + 1));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
  }
  return std::nullopt;
}

std::string environment_of(pid_t pid) {
  return slurp(path_of(pid, "environ"), kLongestEnvironment);
}

std::optional<std::string> environment_value(pid_t pid, std::string_view name) {
  return value_in(environment_of(pid), name);
}

std::pair<std::uint64_t, std::uint64_t> environment_in(std::string_view text) {
  const std::size_t close = text.rfind(')');
  if (close == std::string_view::npos || close + 3 >= text.size()) return {};
  std::string_view rest = text.substr(close + 3);
  for (int field = 4; field < 50; ++field) take_number(rest);
  const std::uint64_t begin = take_number(rest);
  return {begin, take_number(rest)};
}

bool may_tell_environment(pid_t pid) {
  return ::access(path_of(pid, "environ").c_str(), R_OK) == 0;
}

bool has_environment(pid_t pid) {
  const auto [begin, end] = environment_in(slurp(path_of(pid, "stat"), 4096));
  if (end == 0) return false;
  return begin == end || !slurp(path_of(pid, "environ"), 1).empty();
}

std::vector<std::string> arguments_of(pid_t pid) {
  constexpr std::size_t kLongest = 64u << 10;
  const std::string text = slurp(path_of(pid, "cmdline"), kLongest);
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    out.emplace_back(text.c_str() + at);
    at += out.back().size() + 1;
  }
  return out;
}

std::string link_of(pid_t pid, std::string_view link) {
  char target[4096];
  const ssize_t n = ::readlink(path_of(pid, link).c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : std::string();
}

pid_t tracer_of(pid_t pid) {
  const std::string text = slurp(path_of(pid, "status"), 4096);
  constexpr std::string_view kKey = "\nTracerPid:";
  const std::size_t at = text.find(kKey);
  if (at == std::string::npos) return 0;
  std::string_view rest = std::string_view(text).substr(at + kKey.size());
  return static_cast<pid_t>(take_number(rest));
}

std::optional<std::int64_t> machine_oom_kills() {
  constexpr std::string_view kName = "\noom_kill ";
  const char* elsewhere = test_hook::kVmstat.value();
  const std::string text = slurp(elsewhere != nullptr ? elsewhere : "/proc/vmstat", 1u << 16);
  const std::size_t at = text.find(kName);
  if (at == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(at + kName.size());
  return static_cast<std::int64_t>(take_number(rest));
}

std::uint64_t resident_bytes(pid_t pid) {
  const std::string text = slurp(path_of(pid, "statm"), 256);
  std::string_view rest = text;
  take_number(rest);  // total size
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return take_number(rest) * page;
}

std::optional<std::uint64_t> proportional_bytes_in(std::string_view smaps_rollup) {
  const std::size_t at = smaps_rollup.find("\nPss:");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = smaps_rollup.substr(at + 5);
  return take_number(rest) * 1024;
}

std::optional<std::uint64_t> told_proportional_bytes(pid_t pid) {
  return proportional_bytes_in(slurp(path_of(pid, "smaps_rollup"), 4096));
}

std::uint64_t proportional_bytes(pid_t pid) {
  const auto bytes = told_proportional_bytes(pid);
  return bytes ? *bytes : resident_bytes(pid);
}

std::optional<DiskBytes> disk_bytes_in(std::string_view io) {
  constexpr std::string_view kRead = "\nread_bytes:";
  constexpr std::string_view kWritten = "\nwrite_bytes:";
  const std::size_t read = io.find(kRead);
  const std::size_t written = io.find(kWritten);
  if (read == std::string_view::npos || written == std::string_view::npos) return std::nullopt;
  std::string_view read_text = io.substr(read + kRead.size());
  std::string_view written_text = io.substr(written + kWritten.size());
  return DiskBytes{.read = take_number(read_text), .written = take_number(written_text)};
}

std::optional<DiskBytes> disk_bytes(pid_t pid) {
  return disk_bytes_in(slurp(path_of(pid, "io"), 4096));
}

std::uint64_t newest_pid_in(std::string_view loadavg) {
  const std::size_t last = loadavg.rfind(' ');
  if (last == std::string_view::npos) return 0;
  std::string_view rest = loadavg.substr(last);
  return take_number(rest);
}

std::uint64_t newest_pid() { return newest_pid_in(slurp("/proc/loadavg", 256)); }

std::vector<pid_t> children_in(std::string_view text) {
  std::vector<pid_t> out;
  while (const std::uint64_t child = take_number(text)) out.push_back(static_cast<pid_t>(child));
  return out;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> out;
  const std::string tasks = path_of(pid, "task");
  for (const pid_t thread : numbers_in(tasks)) {
    for (const pid_t child :
         children_in(slurp(tasks + "/" + std::to_string(thread) + "/children", 1u << 20)))
      out.push_back(child);
  }
  return out;
}

std::vector<pid_t> all_processes() { return numbers_in("/proc"); }

}  // namespace pergpu::os
