// A cgroup quota of 2.5 cores on a 64-core machine leaves 3 of them to plan with: the first ones of
// the affinity mask, since a quota names none.
#include "run/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "os/fs/file.h"
#include "os/process/own_cgroups.h"
#include "os/process/process_attributes.h"

namespace pergpu {
namespace {

constexpr std::size_t kSmallFile = 64 * 1024;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::string small_file(const std::string& path) {
  Result<std::string> text = os::read_file(path, kSmallFile);
  return text ? std::move(*text) : std::string();
}

std::optional<int> quota_cores() {
  std::optional<double> least;
  for (const std::string& folder : os::own_cgroups("")) {
    const std::string text = small_file(folder + "/cpu.max");
    const std::size_t space = text.find(' ');
    if (space != std::string::npos) {
      std::optional<std::uint64_t> quota = number(text);
      std::optional<std::uint64_t> period = number(std::string_view(text).substr(space + 1));
      if (quota && period && *period > 0) {
        const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
        least = std::min(least.value_or(cores), cores);
      }
    }
  }
  if (!least) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(*least)));
}

/// The smallest value of `file` in this process's groups.
std::optional<std::uint64_t> least(std::string_view controller, const char* file) {
  std::optional<std::uint64_t> least;
  for (const std::string& folder : os::own_cgroups(controller)) {
    if (std::optional<std::uint64_t> value = number(small_file(folder + "/" + file))) {
      least = std::min(least.value_or(*value), *value);
    }
  }
  return least;
}

std::uint64_t total_memory() {
  const std::string text = small_file("/proc/meminfo");
  std::size_t at = text.find("MemTotal:");
  if (at == std::string::npos) return 0;
  at = text.find_first_of("0123456789", at);
  return at == std::string::npos ? 0 : number(std::string_view(text).substr(at)).value_or(0) * 1024;
}

}  // namespace

Machine read_machine() {
  Machine machine;
  machine.cores = os::own_cores();
  if (machine.cores.empty()) machine.cores.push_back(0);
  if (std::optional<int> quota = quota_cores(); quota && *quota < machine.core_count()) {
    machine.cores.resize(static_cast<std::size_t>(*quota));
  }
  machine.memory_bytes = total_memory();
  std::optional<std::uint64_t> limit = least("", "memory.max");
  if (!limit) limit = least("memory", "memory.limit_in_bytes");
  if (limit && (machine.memory_bytes == 0 || *limit < machine.memory_bytes)) {
    machine.memory_bytes = *limit;
  }
  return machine;
}

CoreShare cores_within(const Machine& machine, const std::vector<int>& affinity) {
  if (affinity.empty()) return {machine.core_count(), machine.cores};
  CoreShare out;
  std::set_intersection(machine.cores.begin(), machine.cores.end(), affinity.begin(),
                        affinity.end(), std::back_inserter(out.cores));
  out.count = out.cores.empty() ? std::min(machine.core_count(), static_cast<int>(affinity.size()))
                                : static_cast<int>(out.cores.size());
  return out;
}

}  // namespace pergpu
