// The world that the fake NVML shows: read from the file named in FAKE_NVML_SCENARIO (README.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fake_nvml {

struct Process {
  std::uint32_t pid = 0;
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
  bool compute = true;
};

/// Memory that changes with time: `steps` are {ms since `file` changed, bytes}.
struct Ramp {
  std::string file = {};
  std::vector<std::pair<std::int64_t, std::uint64_t>> steps = {};
};

/// What calls do instead of answering; per function name, or "*" for all.
struct Faults {
  std::map<std::string, int> errors = {};
  std::map<std::string, int> delay_ms = {};
  std::set<std::string> hang = {};
};

struct Gpu {
  int index = 0;
  std::string uuid = {};
  std::string name = {};
  std::string pci = {};
  int minor = 0;
  std::optional<int> numa = std::nullopt;
  std::vector<int> cpus = {};
  std::uint64_t memory_bytes = 0;
  std::uint64_t idle_bytes = 0;
  int utilization = 0;
  std::optional<std::uint64_t> used_bytes = std::nullopt;
  // nullopt: a GPU that does not tell it.
  std::optional<unsigned> power_mw = std::nullopt;
  std::optional<unsigned> temperature_c = std::nullopt;
  std::optional<unsigned> clock_mhz = std::nullopt;
  std::optional<unsigned> throttle = std::nullopt;
  std::vector<Process> processes = {};
  std::optional<Ramp> ramp = std::nullopt;
  bool lost = false;
  bool repair_pending = false;
  bool repair_failed = false;
  std::optional<int> recovery_action = 0;  // nullopt: a driver that does not know that value
  bool persistent = true;
  std::optional<bool> mig = std::nullopt;  // nullopt: it cannot be cut into instances
  bool mig_pending = false;
  int compute_mode = 0;
  Faults faults = {};
  int instance = -1;  // of a GPU that is cut: its number there
  /// By their numbers; those without a UUID are holes.
  std::vector<Gpu> instances = {};
};

struct Scenario {
  std::string driver = {};
  std::string library = {};  // the driver that this library says it is part of
  int cuda = 0;
  int stride = 24;
  bool clears_rest = false;   // zero-fills a process list up to its capacity
  std::string claims = {};    // folder of files "<uuid>.<pid>" or "<uuid>.<pid>.<anything>"
  bool keep_claims = false;   // also of processes that are gone
  std::string xids = {};      // folder of files "<uuid>": an Xid a line, as they happened
  std::string troubles = {};  // folder of files "<uuid>": words of what ails the GPU
  Faults faults = {};
  std::vector<Gpu> gpus = {};
  std::vector<std::vector<int>> ancestors = {};  // of each two; shorter: 50
  std::vector<std::pair<int, int>> nvlinks = {};
};

/// The file as it is now; read again whenever it changed.  A broken one ends the process with words
/// on stderr: a test must not pass on an empty world.
std::shared_ptr<const Scenario> current_scenario();

/// Processes of `gpu`, claims included.
std::vector<Process> processes_of(const Scenario& scenario, const Gpu& gpu);
/// All that happened on `gpu`, or on an instance, so far.
std::vector<std::uint64_t> xids_of(const Scenario& scenario, const Gpu& gpu);
/// `gpu` with what its file of troubles says.
Gpu as_it_is(const Scenario& scenario, Gpu gpu);
std::uint64_t used_bytes_of(const Scenario& scenario, const Gpu& gpu);

}  // namespace fake_nvml
