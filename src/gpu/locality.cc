// local_cpulist of a device without a node lists all cores: that is no locality, so it is not read
// then.
#include "gpu/locality.h"

#include <charconv>

#include "os/fs/file.h"

namespace pergpu::gpu {

namespace {

constexpr int kMaxCpu = 65'535;

std::string_view until_newline(std::string_view text) { return text.substr(0, text.find('\n')); }

std::vector<int> cpu_list_in(const std::string& path) {
  const Result<std::string> text = os::read_file(path, 64u << 10);
  return text ? parse_cpu_list(until_newline(*text)) : std::vector<int>{};
}

bool read_number(std::string_view& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

Locality locality_of(const std::string& sysfs, const std::string& address) {
  Locality locality;
  if (address.empty() || address.find('/') != std::string::npos) return locality;
  const std::string device = sysfs + "/bus/pci/devices/" + address;
  const Result<std::string> node = os::read_file(device + "/numa_node", 64);
  if (!node) return locality;
  std::string_view text = until_newline(*node);
  if (!read_number(text, locality.numa_node) || locality.numa_node < 0) {
    return Locality{};
  }
  locality.near_cpus = cpu_list_in(device + "/local_cpulist");
  return locality;
}

std::vector<int> cpus_of_node(const std::string& sysfs, int node) {
  return cpu_list_in(sysfs + "/devices/system/node/node" + std::to_string(node) + "/cpulist");
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    int first = 0;
    if (!read_number(text, first)) return {};
    int last = first;
    if (!text.empty() && text.front() == '-') {
      text.remove_prefix(1);
      if (!read_number(text, last)) return {};
    }
    if (first < 0 || last < first || last > kMaxCpu) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (text.empty()) break;
    if (text.front() != ',') return {};
    text.remove_prefix(1);
  }
  return cpus;
}

}  // namespace pergpu::gpu
