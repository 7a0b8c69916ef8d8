// Where a device sits in the machine, from sysfs: no library needed, and it works while a driver
// hangs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu::gpu {

struct Locality {
  int numa_node = -1;  // -1: the machine does not report it (one node, or a virtual machine)
  std::vector<int> near_cpus = {};  // cores of that node; empty: unknown
};

/// Of the PCI device at `address` ("0000:65:00.0") below `sysfs` ("/sys").
Locality locality_of(const std::string& sysfs, const std::string& address);

/// The cores of NUMA node `node`; empty when unknown.
std::vector<int> cpus_of_node(const std::string& sysfs, int node);

/// "0-3,8,10-11" -> {0,1,2,3,8,10,11}; empty when malformed.
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace pergpu::gpu
