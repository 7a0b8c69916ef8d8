// Strings and numbers come from another process, maybe of another version: what is missing or of
// another type is left as it was, or not known.
#include "view/model/top_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "job/json_fields.h"
#include "view/model/job_facts.h"
#include "view/text/natural_order.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

/// More free lanes of a sweep than anybody looks through.
constexpr std::int64_t kMostOwnLanes = 256;

/// So that sums of such numbers are some.
std::int64_t plausible(std::int64_t count) {
  return std::clamp<std::int64_t>(count, 0, 1'000'000'000'000);
}

template <typename T>
std::vector<T> list_of(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_array()) return {};
  std::vector<T> out;
  for (const json& element : *found) out.push_back(element.get<T>());
  return out;
}

GpuLoad load_of(const json& gpu) {
  GpuLoad load;
  if (const std::optional<double> percent = number_at(gpu, "busy_percent")) {
    load.utilization = std::clamp(*percent / 100, 0.0, 1.0);
  }
  if (const std::optional<double> watts = number_at(gpu, "power_w")) {
    load.power_w = std::clamp(*watts, 0.0, 1e5);
  }
  return load;
}

void take_jobs(TopSnapshot& s, const json& event) {
  for (JobSnapshot& job : list_of<JobSnapshot>(event, "jobs")) {
    const std::int64_t id = job.id;
    if (id > 0) s.jobs.insert_or_assign(id, std::move(job));
  }
  const auto gone = event.find("gone");
  if (gone == event.end() || !gone->is_array()) return;
  for (const json& id : *gone) {
    if (id.is_number_integer()) s.jobs.erase(id.get<std::int64_t>());
  }
}

void take_sweeps(TopSnapshot& s, const json& event) {
  if (event.contains("sweeps")) s.sweeps = list_of<SweepSummary>(event, "sweeps");
  for (SweepSummary& sweep : s.sweeps) {
    for (auto& [state, count] : sweep.counts) count = plausible(count);
  }
  const auto counts = event.find("counts");
  if (counts == event.end() || !counts->is_object()) return;
  s.counts.clear();
  for (const auto& [state, count] : counts->items()) {
    if (count.is_number_integer()) s.counts[state] = plausible(count.get<std::int64_t>());
  }
}

void take_devices(TopSnapshot& s, const json& event) {
  s.gpus = list_of<GpuSnapshot>(event, "gpus");
  s.gpu_lanes = list_of<LaneSnapshot>(event, "lanes");
  s.loads.clear();
  const auto gpus = event.find("gpus");
  for (std::size_t i = 0; i < s.gpus.size(); ++i) s.loads[s.gpus[i].uuid] = load_of((*gpus)[i]);
  const auto trouble = event.find("trouble");
  s.gpu_trouble = trouble != event.end() && trouble->is_string() ? trouble->get<std::string>() : "";
  const auto cpus = event.find("cpu_lanes");
  const bool is_told = cpus != event.end() && cpus->is_number_integer();
  s.cpu_lanes = is_told ? plausible(cpus->get<std::int64_t>()) : 0;
}

bool is_open(const SweepSummary& sweep) {
  return std::any_of(sweep.counts.begin(), sweep.counts.end(), [](const auto& entry) {
    const std::string& state = entry.first;
    return entry.second > 0 && (state == "queued" || state == "held" || state == "starting" ||
                                state == "running" || state == "stopping");
  });
}

constexpr std::string_view kOwn = "lane";

/// A sweep's own lanes have names that another sweep's may have, too.
struct LaneKey {
  std::int64_t sweep = 0;
  std::string name;
  auto operator<=>(const LaneKey&) const = default;
};

LaneKey key_of(const JobSnapshot& job) {
  const std::string& name = *job.lane;
  return {name.starts_with(kOwn) ? job.sweep_id : 0, name};
}

}  // namespace

bool take_event(TopSnapshot& s, const json& event) {
  const auto kind = event.find("event");
  if (kind == event.end() || !kind->is_string()) return false;
  if (*kind == "snapshot") {
    const auto all = event.find("all");
    if (all == event.end() || !all->is_boolean() || !all->get<bool>()) return false;
    s.known = true;
    s.trouble.clear();
    s.jobs.clear();
    take_jobs(s, event);
    take_sweeps(s, event);
    take_devices(s, event);
    return true;
  }
  if (!s.known) return false;
  if (*kind == "changes") {
    take_jobs(s, event);
    take_sweeps(s, event);
  } else if (*kind == "devices") {
    take_devices(s, event);
  }
  return true;
}

void sample(TopSnapshot& s) {
  const LanesInUse lanes = lanes_in_use(s, lanes_of(s));
  const bool is_told = s.known && s.trouble.empty();
  std::optional<double> share;
  if (is_told && lanes.all > 0) {
    share = static_cast<double>(lanes.used) / static_cast<double>(lanes.all);
  }
  s.busy.add(s.now_ns, share);
  for (const GpuSnapshot& gpu : s.gpus) {
    const auto load = s.loads.find(gpu.uuid);
    const bool has = is_told && load != s.loads.end();
    s.loads_so_far[gpu.uuid].add(s.now_ns, has ? load->second.utilization : std::nullopt);
  }
}

std::vector<TopLane> lanes_of(const TopSnapshot& s) {
  constexpr std::size_t kSeveral = std::numeric_limits<std::size_t>::max();
  std::vector<TopLane> lanes;
  std::map<LaneKey, std::size_t> by_key;
  std::map<std::string, std::size_t> by_uuid;
  for (const LaneSnapshot& lane : s.gpu_lanes) {
    by_key[{0, lane.name}] = lanes.size();
    if (!lane.uuid.empty()) {
      // Of a GPU that jobs share the name says which lane it is.
      const auto [of_gpu, is_first] = by_uuid.try_emplace(lane.uuid, lanes.size());
      if (!is_first) of_gpu->second = kSeveral;
    }
    lanes.push_back({.name = lane.name, .uuid = lane.uuid, .state = lane.state, .why = lane.why});
  }
  std::vector<const SweepSummary*> with_lanes;
  for (const SweepSummary& sweep : s.sweeps) {
    if (sweep.lanes > 0 && is_open(sweep)) with_lanes.push_back(&sweep);
  }
  std::reverse(with_lanes.begin(), with_lanes.end());  // the oldest first: rows stay where they are
  for (const SweepSummary* sweep : with_lanes) {
    for (std::int64_t slot = 0; slot < std::min(sweep->lanes, kMostOwnLanes); ++slot) {
      const std::string name = fmt::format("{}{}", kOwn, slot);
      by_key[{sweep->id, name}] = lanes.size();
      lanes.push_back(
          {.name = with_lanes.size() > 1 ? sweep->name + ":" + name : name, .state = "free"});
    }
  }
  std::vector<const JobSnapshot*> others;  // on lanes that were not reported
  for (const auto& [id, job] : s.jobs) {
    if (!is_live(job) || !job.lane) continue;
    bool has_row = false;
    // Names may change from look to look; of a GPU that jobs share they say whose lane it is.
    const bool is_part = job.lane->find('.') != std::string::npos;
    for (const std::string& uuid : is_part ? std::vector<std::string>{} : job.gpus) {
      const auto found = by_uuid.find(uuid);
      if (found == by_uuid.end() || found->second == kSeveral) continue;
      lanes[found->second].job = &job;
      has_row = true;
    }
    const auto found = by_key.find(key_of(job));
    if (found != by_key.end()) {
      lanes[found->second].job = &job;
    } else if (!has_row) {
      others.push_back(&job);
    }
  }
  std::sort(others.begin(), others.end(), [](const JobSnapshot* a, const JobSnapshot* b) {
    return std::tuple(NaturalName{*a->lane}, a->id) < std::tuple(NaturalName{*b->lane}, b->id);
  });
  for (const JobSnapshot* job : others) {
    lanes.push_back({.name = *job->lane, .state = "busy", .job = job});
  }
  return lanes;
}

LanesInUse lanes_in_use(const TopSnapshot& s, const std::vector<TopLane>& lanes) {
  LanesInUse out;
  std::int64_t cpu = 0;
  for (const TopLane& lane : lanes) {
    out.used += lane.job != nullptr ? 1 : 0;
    cpu += lane.job != nullptr && lane.name.starts_with("cpu") ? 1 : 0;
  }
  out.all = static_cast<std::int64_t>(lanes.size());
  // Free CPU lanes have no row.  Beside GPUs, or lanes that a sweep brought, they are no measure of
  // how busy the machine is.
  if (s.gpu_lanes.empty() && (cpu > 0 || lanes.empty())) {
    out.all += std::max<std::int64_t>(s.cpu_lanes - cpu, 0);
  }
  return out;
}

}  // namespace pergpu::view
