// JSON to world.  No file named: a machine with a driver and no GPU.
#include "scenario.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace fake_nvml {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kDefaultMemory = 80 * 1024 * kMiB;
constexpr std::uint64_t kDefaultIdle = 4 * kMiB;

Faults faults_of(const Json& json) {
  Faults faults;
  if (json.contains("errors")) json.at("errors").get_to(faults.errors);
  if (json.contains("delay_ms")) json.at("delay_ms").get_to(faults.delay_ms);
  if (json.contains("hang")) json.at("hang").get_to(faults.hang);
  return faults;
}

Process process_of(const Json& json) {
  Process process;
  process.pid = json.at("pid").get<std::uint32_t>();
  if (json.contains("memory_bytes") && !json.at("memory_bytes").is_null()) {
    process.memory_bytes = json.at("memory_bytes").get<std::uint64_t>();
  }
  process.compute = json.value("type", "compute") != "graphics";
  return process;
}

std::optional<unsigned> told(const Json& json, const char* key, unsigned usual) {
  if (!json.contains(key)) return usual;
  return json.at(key).is_null() ? std::nullopt : std::optional(json.at(key).get<unsigned>());
}

Gpu gpu_of(const Json& json, int index) {
  const std::string digit(1, "0123456789abcdef"[index % 16]);
  const std::string group(4, digit[0]);
  Gpu gpu;
  gpu.index = index;
  gpu.uuid = json.value("uuid", "GPU-" + group + group + "-0000-0000-0000-00000000000" + digit);
  gpu.name = json.value("name", "Fake GPU");
  gpu.pci = json.value("pci", "0000fa4e:0" + digit + ":00.0");
  gpu.minor = json.value("minor", index);
  if (json.contains("numa")) gpu.numa = json.at("numa").get<int>();
  gpu.cpus = json.value("cpus", std::vector<int>{});
  gpu.memory_bytes = json.value("memory_bytes", kDefaultMemory);
  gpu.idle_bytes = json.value("idle_bytes", kDefaultIdle);
  if (json.contains("used_bytes")) gpu.used_bytes = json.at("used_bytes").get<std::uint64_t>();
  if (json.contains("processes")) {
    for (const Json& one : json.at("processes")) gpu.processes.push_back(process_of(one));
  }
  if (json.contains("ramp")) {
    Ramp& ramp = gpu.ramp.emplace();
    ramp.file = json.at("ramp").at("file").get<std::string>();
    json.at("ramp").at("steps").get_to(ramp.steps);
  }
  gpu.utilization = json.value("utilization", 0);
  gpu.power_mw = told(json, "power_mw", 70'000);
  gpu.temperature_c = told(json, "temperature_c", 40);
  gpu.clock_mhz = told(json, "clock_mhz", 1410);
  gpu.throttle = told(json, "throttle", 0);
  gpu.lost = json.value("lost", false);
  gpu.repair_pending = json.value("repair_pending", false);
  gpu.repair_failed = json.value("repair_failed", false);
  if (json.contains("recovery_action")) {
    const Json& action = json.at("recovery_action");
    gpu.recovery_action = action.is_null() ? std::nullopt : std::optional<int>(action.get<int>());
  }
  gpu.persistent = json.value("persistent", true);
  if (json.contains("mig")) gpu.mig = json.at("mig").get<bool>();
  gpu.mig_pending = json.value("mig_pending", gpu.mig.value_or(false));
  gpu.compute_mode = json.value("compute_mode", 0);
  gpu.faults = faults_of(json);
  const Json instances = json.value("instances", Json::array());
  for (std::size_t i = 0; i < instances.size(); ++i) {
    Gpu& instance = gpu.instances.emplace_back();
    if (instances[i].is_null()) continue;
    Json usual = {{"uuid", "MIG" + gpu.uuid.substr(3, 36) + std::to_string(i)},
                  {"name", gpu.name + " MIG 1g.10gb"},
                  {"memory_bytes", kDefaultMemory / 8}};
    usual.update(instances[i]);
    instance = gpu_of(usual, index);
    instance.instance = static_cast<int>(i);
  }
  return gpu;
}

Scenario scenario_of(const Json& json) {
  Scenario scenario;
  scenario.driver = json.value("driver", "550.54.15");
  scenario.library = json.value("library", scenario.driver);
  scenario.cuda = json.value("cuda", 12040);
  scenario.stride = json.value("stride", 24);
  scenario.clears_rest = json.value("clears_rest", false);
  scenario.claims = json.value("claims", "");
  scenario.keep_claims = json.value("keep_claims", false);
  scenario.xids = json.value("xids", "");
  scenario.troubles = json.value("troubles", "");
  scenario.faults = faults_of(json);
  scenario.ancestors = json.value("ancestors", scenario.ancestors);
  scenario.nvlinks = json.value("nvlinks", scenario.nvlinks);
  // A number: so many GPUs of the usual kind.
  const Json gpus = json.value("gpus", Json::array());
  const std::size_t count = gpus.is_number() ? gpus.get<std::size_t>() : gpus.size();
  for (std::size_t i = 0; i < count; ++i) {
    scenario.gpus.push_back(
        gpu_of(gpus.is_number() ? Json::object() : gpus.at(i), static_cast<int>(i)));
  }
  return scenario;
}

[[noreturn]] void give_up(const std::string& path, const std::string& why) {
  std::fprintf(stderr, "fake NVML: scenario %s: %s\n", path.c_str(), why.c_str());
  std::_Exit(97);
}

bool is_alive(std::uint32_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

std::int64_t ms_since_change(const std::string& file) {
  struct stat found = {};
  if (::stat(file.c_str(), &found) != 0) return -1;
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return (now.tv_sec - found.st_mtim.tv_sec) * 1000 +
         (now.tv_nsec - found.st_mtim.tv_nsec) / 1'000'000;
}

}  // namespace

std::shared_ptr<const Scenario> current_scenario() {
  static std::mutex mutex;
  static std::shared_ptr<const Scenario> cached;
  static struct stat cached_stat = {};
  const std::lock_guard lock(mutex);
  const char* path = std::getenv("FAKE_NVML_SCENARIO");
  if (path == nullptr || *path == '\0') {
    if (!cached) cached = std::make_shared<Scenario>();
    return cached;
  }
  struct stat now = {};
  if (::stat(path, &now) != 0) give_up(path, "cannot be read");
  const bool same = cached && now.st_ino == cached_stat.st_ino &&
                    now.st_size == cached_stat.st_size &&
                    now.st_mtim.tv_sec == cached_stat.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == cached_stat.st_mtim.tv_nsec;
  if (same) return cached;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  try {
    cached = std::make_shared<Scenario>(scenario_of(Json::parse(text.str())));
  } catch (const std::exception& problem) {
    give_up(path, problem.what());
  }
  cached_stat = now;
  return cached;
}

std::vector<Process> processes_of(const Scenario& scenario, const Gpu& gpu) {
  std::vector<Process> processes = gpu.processes;
  if (scenario.claims.empty()) return processes;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(scenario.claims, problem)) {
    const std::string name = entry.path().filename();
    if (name.rfind(gpu.uuid + ".", 0) != 0) continue;
    Process process;
    process.pid =
        static_cast<std::uint32_t>(std::strtoul(name.c_str() + gpu.uuid.size() + 1, nullptr, 10));
    if (process.pid == 0 || (!scenario.keep_claims && !is_alive(process.pid))) continue;
    std::ifstream file(entry.path());
    std::uint64_t bytes = 0;
    process.memory_bytes = file >> bytes ? bytes : 1024 * kMiB;
    processes.push_back(process);
  }
  return processes;
}

std::vector<std::uint64_t> xids_of(const Scenario& scenario, const Gpu& gpu) {
  std::vector<std::uint64_t> xids;
  if (scenario.xids.empty()) return xids;
  std::ifstream file(scenario.xids + "/" + gpu.uuid);
  for (std::uint64_t number = 0; file >> number;) xids.push_back(number);
  return xids;
}

Gpu as_it_is(const Scenario& scenario, Gpu gpu) {
  if (scenario.troubles.empty()) return gpu;
  std::ifstream file(scenario.troubles + "/" + gpu.uuid);
  for (std::string word; file >> word;) {
    gpu.lost = gpu.lost || word == "lost";
    gpu.repair_pending = gpu.repair_pending || word == "repair_pending";
    gpu.repair_failed = gpu.repair_failed || word == "repair_failed";
    if (word.rfind("recovery_action=", 0) == 0) gpu.recovery_action = std::atoi(&word[16]);
    if (word.rfind("hang=", 0) == 0) gpu.faults.hang.insert(word.substr(5));
  }
  return gpu;
}

std::uint64_t used_bytes_of(const Scenario& scenario, const Gpu& gpu) {
  std::uint64_t used = gpu.idle_bytes;
  for (const Process& process : processes_of(scenario, gpu))
    used += process.memory_bytes.value_or(0);
  if (gpu.used_bytes) used = *gpu.used_bytes;
  if (gpu.ramp) {
    const std::int64_t age = ms_since_change(gpu.ramp->file);
    std::uint64_t extra = 0;
    for (const auto& [from_ms, bytes] : gpu.ramp->steps) {
      if (age >= from_ms) extra = bytes;
    }
    if (age >= 0) used += extra;
  }
  return used;
}

}  // namespace fake_nvml
