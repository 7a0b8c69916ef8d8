// The reader takes nothing on trust: what it reads may be of another release.
#include "api/shell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "gpu/locality.h"

namespace pergpu {
namespace {

using nlohmann::json;

constexpr int kMostCoreNumbers = 1 << 16;
constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
constexpr int kIoClassShift = 13;

template <typename Number>
void read(const json& j, const char* name, Number& value) {
  const auto at = j.find(name);
  if (at == j.end() || !at->is_number_integer()) return;
  if (at->is_number_unsigned() || at->get<std::int64_t>() >= 0) {
    const auto number = at->get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max()))
      value = static_cast<Number>(number);
    return;
  }
  const auto number = at->get<std::int64_t>();  // negative
  if (std::is_signed_v<Number> &&
      number >= static_cast<std::int64_t>(std::numeric_limits<Number>::min()))
    value = static_cast<Number>(number);
}

void read(const json& j, const char* name, bool& value) {
  const auto at = j.find(name);
  if (at != j.end() && at->is_boolean()) value = at->get<bool>();
}

json limits_json(const std::vector<os::SpawnLimit>& limits) {
  json out = json::array();
  for (const os::SpawnLimit& limit : limits)
    out.push_back({limit.resource, limit.soft, limit.hard.value_or(limit.soft)});
  return out;
}

std::vector<os::SpawnLimit> limits_of(const json& j) {
  std::vector<os::SpawnLimit> out;
  const auto at = j.find("limits");
  if (at == j.end() || !at->is_array()) return out;
  for (const json& item : *at) {
    const bool is_limit = item.is_array() && item.size() == 3 &&
                          std::all_of(item.begin(), item.end(), [](const json& number) {
                            return number.is_number_unsigned() ||
                                   (number.is_number_integer() && number.get<std::int64_t>() >= 0);
                          });
    if (!is_limit || item[0].get<std::uint64_t>() > 1000) continue;
    out.push_back({.resource = item[0].get<int>(),
                   .soft = item[1].get<std::uint64_t>(),
                   .hard = item[2].get<std::uint64_t>()});
  }
  return out;
}

std::vector<int> cores_of(const json& j) {
  const auto at = j.find("cpus");
  if (at == j.end() || !at->is_string()) return {};
  std::vector<int> cores = gpu::parse_cpu_list(at->get<std::string>());
  std::erase_if(cores, [](int core) { return core < 0 || core >= kMostCoreNumbers; });
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

std::vector<gid_t> groups_of(const json& j) {
  std::vector<gid_t> out;
  const auto at = j.find("groups");
  if (at == j.end() || !at->is_array()) return out;
  for (const json& group : *at) {
    if (group.is_number_unsigned() && group.get<std::uint64_t>() < kUnlimited >> 32)
      out.push_back(group.get<gid_t>());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string value_text(std::uint64_t value) {
  return value == kUnlimited ? "unlimited" : std::to_string(value);
}

std::string policy_text(int policy, int rt_priority) {
  switch (policy) {
    case SCHED_OTHER:
      return "other";
    case SCHED_FIFO:
      return fmt::format("fifo {}", rt_priority);
    case SCHED_RR:
      return fmt::format("rr {}", rt_priority);
    case SCHED_BATCH:
      return "batch";
    case SCHED_IDLE:
      return "idle";
    default:
      return fmt::format("number {}", policy);
  }
}

std::string groups_text(const std::vector<gid_t>& groups) {
  return fmt::format("{}", fmt::join(groups, ", "));
}

void add_limits(const os::ProcessAttributes& shell, const os::Reach& reach,
                std::vector<std::string>& out) {
  if (reach.any_limit) return;
  for (const os::SpawnLimit& wanted : shell.limits) {
    const auto had = std::find_if(reach.limits.begin(), reach.limits.end(),
                                  [&](const auto& l) { return l.resource == wanted.resource; });
    if (had == reach.limits.end() || !had->hard || !wanted.hard) continue;
    if (*wanted.hard <= *had->hard) continue;
    const bool is_soft = wanted.soft > *had->hard;
    const std::string option = os::ulimit_option(wanted.resource, !is_soft);
    out.push_back(fmt::format("{} {} instead of {}{}", value_text(*had->hard),
                              os::limit_name(wanted.resource),
                              value_text(is_soft ? wanted.soft : *wanted.hard),
                              option.empty() ? option : " (" + option + ")"));
  }
}

void add_priorities(const os::ProcessAttributes& shell, const os::Reach& reach,
                    std::vector<std::string>& out) {
  if (shell.nice < reach.lowest_nice)
    out.push_back(fmt::format("nice {} instead of {}", reach.lowest_nice, shell.nice));
  const bool is_real_time = shell.policy == SCHED_FIFO || shell.policy == SCHED_RR;
  const bool is_denied = is_real_time && shell.rt_priority > reach.most_rt_priority;
  if (is_denied || (reach.only_idle && shell.policy != SCHED_IDLE)) {
    out.push_back(fmt::format("scheduling policy {} instead of {}",
                              reach.only_idle ? "idle" : "other",
                              policy_text(shell.policy, shell.rt_priority)));
  }
  if (shell.io_priority >> kIoClassShift == os::kIoRealtime && !reach.io_realtime)
    out.push_back("I/O class best-effort instead of realtime");
}

}  // namespace

std::string core_list(const std::vector<int>& cores) {
  std::string out;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", cores[i]);
    if (last > i) out += fmt::format("-{}", cores[last]);
    i = last + 1;
  }
  return out;
}

json json_of(const os::ProcessAttributes& shell) {
  return {{"limits", limits_json(shell.limits)},
          {"nice", shell.nice},
          {"policy", shell.policy},
          {"rt_priority", shell.rt_priority},
          {"io_priority", shell.io_priority},
          {"cpus", core_list(shell.cpus)},
          {"ignored", shell.ignored},
          {"blocked", shell.blocked},
          {"timer_slack_ns", shell.timer_slack_ns},
          {"personality", shell.personality},
          {"core_filter", shell.core_filter},
          {"oom_score_adj", shell.oom_score_adj},
          {"group", shell.group},
          {"groups", shell.groups}};
}

std::optional<os::ProcessAttributes> attributes_of(const json& j) {
  if (!j.is_object()) return std::nullopt;
  os::ProcessAttributes out;
  out.limits = limits_of(j);
  read(j, "nice", out.nice);
  read(j, "policy", out.policy);
  read(j, "rt_priority", out.rt_priority);
  read(j, "io_priority", out.io_priority);
  out.cpus = cores_of(j);
  read(j, "ignored", out.ignored);
  read(j, "blocked", out.blocked);
  read(j, "timer_slack_ns", out.timer_slack_ns);
  read(j, "personality", out.personality);
  read(j, "core_filter", out.core_filter);
  read(j, "oom_score_adj", out.oom_score_adj);
  out.oom_score_adj = std::clamp(out.oom_score_adj, -1000, 1000);
  read(j, "group", out.group);
  out.groups = groups_of(j);
  return out;
}

json json_of(const os::Reach& reach) {
  return {{"limits", limits_json(reach.limits)},
          {"any_limit", reach.any_limit},
          {"lowest_nice", reach.lowest_nice},
          {"only_idle", reach.only_idle},
          {"most_rt_priority", reach.most_rt_priority},
          {"io_realtime", reach.io_realtime},
          {"cpus", core_list(reach.cpus)},
          {"group", reach.group},
          {"groups", reach.groups},
          {"any_group", reach.any_group}};
}

std::optional<os::Reach> reach_of(const json& j) {
  if (!j.is_object()) return std::nullopt;
  os::Reach out;
  out.limits = limits_of(j);
  read(j, "any_limit", out.any_limit);
  read(j, "lowest_nice", out.lowest_nice);
  read(j, "only_idle", out.only_idle);
  read(j, "most_rt_priority", out.most_rt_priority);
  read(j, "io_realtime", out.io_realtime);
  out.cpus = cores_of(j);
  read(j, "group", out.group);
  out.groups = groups_of(j);
  read(j, "any_group", out.any_group);
  return out;
}

std::vector<std::string> clamps(const os::ProcessAttributes& shell, const os::Reach& reach) {
  std::vector<std::string> out;
  add_limits(shell, reach, out);
  add_priorities(shell, reach, out);
  std::vector<int> cores;
  std::set_intersection(shell.cpus.begin(), shell.cpus.end(), reach.cpus.begin(), reach.cpus.end(),
                        std::back_inserter(cores));
  if (!reach.cpus.empty() && cores.size() < shell.cpus.size()) {
    out.push_back(fmt::format("cores {} instead of {}",
                              core_list(cores.empty() ? reach.cpus : cores),
                              core_list(shell.cpus)));
  }
  if (reach.any_group || reach.groups.empty()) return out;
  std::vector<gid_t> missing;
  std::set_difference(shell.groups.begin(), shell.groups.end(), reach.groups.begin(),
                      reach.groups.end(), std::back_inserter(missing));
  if (!missing.empty())
    out.push_back(fmt::format("no membership in group {}", groups_text(missing)));
  if (shell.group != reach.group)
    out.push_back(fmt::format("group {} instead of {}", reach.group, shell.group));
  return out;
}

std::string clamp_warning(const os::ProcessAttributes& shell, const os::Reach& reach,
                          bool is_service) {
  const std::vector<std::string> all = clamps(shell, reach);
  if (all.empty()) return {};
  return fmt::format(
      "jobs of this sweep get {}: the coordinator can't give more than it was started with; {}",
      fmt::join(all, ", "),
      is_service ? "raise it in its service unit (systemctl --user edit pergpu.service)"
                 : "to change that, run `pergpu coordinator stop` and submit again from this shell "
                   "(running jobs go on)");
}

}  // namespace pergpu
