// The answer to `pergpu plan`: the forecast as JSON, and the bottleneck as text.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "api/snapshot.h"
#include "ascii.h"
#include "forecast/planning.h"
#include "job/text.h"
#include "plural.h"

namespace pergpu {
namespace {

using nlohmann::json;
using Kind = ForecastJob::Kind;

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

json seconds_or_null(const std::optional<std::int64_t>& ns) {
  return ns ? json(seconds(*ns)) : json(nullptr);
}

const char* name_of(LowerBound::By by) {
  switch (by) {
    case LowerBound::By::Nothing:
      return "nothing";
    case LowerBound::By::Chain:
      return "chain";
    case LowerBound::By::Lanes:
      return "lanes";
    case LowerBound::By::MaxParallel:
      return "max_parallel";
    case LowerBound::By::Limit:
      return "limit";
    case LowerBound::By::MaxStarting:
      return "max_starting";
    case LowerBound::By::Cpus:
      return "cpus";
    case LowerBound::By::Memory:
      return "memory";
  }
  return "";
}

}  // namespace

std::string Planning::lanes_word(std::uint64_t count, LaneId::Pool pool) const {
  return counted(count, pool == LaneId::Pool::Gpu ? "GPU" : "lane");
}

std::string Planning::bound_words() const {
  const std::string work = duration_text(bound_.work_ns);
  const auto step_name = [&] {
    const auto step = input_.machine.steps.find(bound_.step);
    return step == input_.machine.steps.end() ? std::string() : step->second.demand.step_name;
  };
  switch (bound_.by) {
    case LowerBound::By::Nothing:
      return "";
    case LowerBound::By::Chain:
      if (bound_.chain.size() == 1) {
        return fmt::format("the longest job, {}", input_.path_of(bound_.chain.front()));
      }
      return fmt::format("the longest chain of jobs, {} to {}",
                         input_.path_of(bound_.chain.front()), input_.path_of(bound_.chain.back()));
    case LowerBound::By::Lanes:
      return fmt::format("{}: {} of work", lanes_word(bound_.at_once, bound_.pool), work);
    case LowerBound::By::MaxParallel:
      return fmt::format("max_parallel = {} of step {}: {} of work", bound_.at_once, step_name(),
                         work);
    case LowerBound::By::Limit:
      return fmt::format("limit {} = {}: {} of work", bound_.limit, bound_.at_once, work);
    case LowerBound::By::MaxStarting:
      return fmt::format("max_starting = {} of step {}: {} of start-up", bound_.at_once,
                         step_name(), work);
    case LowerBound::By::Cpus:
      return fmt::format("{} cores: {} of reserved core time", bound_.at_once, work);
    case LowerBound::By::Memory:
      return fmt::format("{} of memory: reserved by the jobs", size_text(bound_.at_once));
  }
  return "";
}

/// Lanes of several sweeps have the same names: those that most depends on keep them.
std::string Planning::lane_name(const LaneId& lane) const {
  if (lane.pool != LaneId::Pool::Sweep || lane.sweep == main_.sweep) return to_string(lane);
  return fmt::format("{}/{}", lane.sweep.value, to_string(lane));
}

std::vector<std::string> Planning::lane_names(const Forecast::Span& span) const {
  std::vector<std::string> names{lane_name(span.lane)};
  for (std::size_t i = 1; i < span.gpus.size(); ++i) {
    for (const GpuLane& gpu : input_.machine.capacity.gpus) {
      if (gpu.uuid == span.gpus[i]) names.push_back(to_string(gpu.id));
    }
  }
  return names;
}

json Planning::jobs_json() const {
  std::vector<std::uint32_t> order;
  const std::vector<Forecast::Span>& spans = as_it_is_->spans();
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    if (input_.asked[i] && spans[i].start_ns >= 0 && spans[i].ends()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(spans[a].start_ns, spans[a].lane) < std::tie(spans[b].start_ns, spans[b].lane);
  });
  json out = json::array();
  for (const std::uint32_t i : order) {
    const ForecastInput::Name& name = input_.names[i];
    out.push_back({{"id", name.is_new ? json(nullptr) : json(input_.ids[i].value)},
                   {"sweep", name.sweep},
                   {"run", name.run},
                   {"step", name.step},
                   {"lanes", lane_names(spans[i])},
                   {"start_s", seconds(spans[i].start_ns)},
                   {"end_s", seconds(spans[i].end_ns)},
                   {"live", input_.jobs.jobs[i].kind == Kind::Live}});
  }
  return out;
}

/// What runs beside them; of those without a known duration, "end_s" is null.
json Planning::others_json() const {
  json out = json::array();
  const std::vector<Forecast::Span>& spans = as_it_is_->spans();
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    if (input_.asked[i] || spans[i].start_ns < 0) continue;
    out.push_back({{"lanes", lane_names(spans[i])},
                   {"start_s", seconds(spans[i].start_ns)},
                   {"end_s", spans[i].ends() ? json(seconds(spans[i].end_ns)) : json(nullptr)}});
  }
  return out;
}

/// The main ones, and others that are used.
json Planning::lanes_json() const {
  std::set<LaneId> lanes;
  if (main_.pool == LaneId::Pool::Gpu) {
    const std::vector<std::string> usable = usable_gpus(input_.machine);
    for (const GpuLane& gpu : input_.machine.capacity.gpus) {
      if (contains(usable, gpu.uuid)) lanes.insert(gpu.id);
    }
  } else {
    for (int slot = 0; slot < main_.count; ++slot) {
      lanes.insert({.pool = main_.pool, .sweep = main_.sweep, .slot = slot});
    }
  }
  for (const Forecast::Span& span : as_it_is_->spans()) {
    if (span.start_ns < 0) continue;
    lanes.insert(span.lane);
    for (const GpuLane& gpu : input_.machine.capacity.gpus) {
      if (contains(span.gpus, gpu.uuid)) lanes.insert(gpu.id);
    }
  }
  json out = json::array();
  for (const LaneId& lane : lanes) out.push_back(lane_name(lane));
  return out;
}

/// What was assumed for the jobs that have not started, by step.
json Planning::durations_json() const {
  struct Assumed {
    std::size_t jobs = 0;
    double total_s = 0;
    bool all_known = true;
  };
  std::map<std::pair<std::string, std::string>, Assumed> steps;
  for (std::size_t i = 0; i < input_.jobs.jobs.size(); ++i) {
    const ForecastJob& job = input_.jobs.jobs[i];
    if (!input_.asked[i] || job.kind != Kind::Queued) continue;
    Assumed& assumed = steps[{input_.names[i].sweep, input_.names[i].step}];
    ++assumed.jobs;
    const Forecast::Span& span = as_it_is_->spans()[i];
    assumed.total_s += seconds(span.ends() ? span.end_ns - span.start_ns : job.duration_ns);
    assumed.all_known = assumed.all_known && job.order_ns > 0;
  }
  json out = json::array();
  for (const auto& [where, assumed] : steps) {
    const bool was_given = facts_.given.contains(where.second);
    out.push_back({{"sweep", where.first},
                   {"step", where.second},
                   {"jobs", assumed.jobs},
                   {"mean_s", assumed.total_s / static_cast<double>(assumed.jobs)},
                   {"source", was_given           ? "given"
                              : assumed.all_known ? "known"
                                                  : "learnt"}});
  }
  return out;
}

json Planning::stuck_json() const {
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::string>> steps;
  for (std::uint32_t i = 0; i < input_.jobs.jobs.size(); ++i) {
    const bool is_stuck = input_.asked[i] && input_.jobs.jobs[i].kind == Kind::Queued &&
                          as_it_is_->spans()[i].start_ns < 0;
    if (!is_stuck) continue;
    auto& [count, why] = steps[{input_.names[i].sweep, input_.names[i].step}];
    ++count;
    if (why.empty()) why = as_it_is_->why_not(i);
  }
  json out = json::array();
  for (const auto& [where, stuck] : steps) {
    out.push_back({{"sweep", where.first},
                   {"step", where.second},
                   {"jobs", stuck.first},
                   {"why", stuck.second.empty() ? "needs jobs that never start" : stuck.second}});
  }
  return out;
}

bool Planning::is_of_main(const Forecast::Span& span) const {
  return span.start_ns >= 0 && span.lane.pool == main_.pool &&
         (main_.pool != LaneId::Pool::Sweep || span.lane.sweep == main_.sweep);
}

std::optional<double> Planning::idle_share(std::int64_t total_ns) const {
  if (!main_.scales || main_.count == 0 || total_ns <= 0) return std::nullopt;
  const std::vector<std::string> usable = usable_gpus(input_.machine);
  double busy = 0;
  for (const Forecast::Span& span : as_it_is_->spans()) {
    if (!is_of_main(span)) continue;
    double lanes = 1;
    if (main_.pool == LaneId::Pool::Gpu) {
      lanes = static_cast<double>(
          std::count_if(span.gpus.begin(), span.gpus.end(),
                        [&](const std::string& uuid) { return contains(usable, uuid); }));
      if (span.share > 0) lanes *= static_cast<double>(span.share) / kWholeGpu;
    }
    const std::int64_t within = std::min(span.end_ns, total_ns) - span.start_ns;
    busy += static_cast<double>(std::max<std::int64_t>(within, 0)) * lanes;
  }
  const double all = static_cast<double>(total_ns) * main_.count;
  return std::clamp(1 - busy / all, 0.0, 1.0);
}

json Planning::answer() const {
  const std::optional<std::int64_t> total = questions_.front().total_ns;
  std::set<std::string> sweeps;
  std::size_t held = 0;
  for (std::size_t i = 0; i < input_.jobs.jobs.size(); ++i) {
    if (!input_.asked[i]) continue;
    sweeps.insert(input_.names[i].sweep);
    if (input_.jobs.jobs[i].kind == Kind::Held) ++held;
  }
  json with_lanes = json::array();
  json with_expect = nullptr;
  for (const Question& question : questions_) {
    if (question.kind == Question::Kind::WithExpect) {
      with_expect = seconds_or_null(question.total_ns);
    }
    if (question.kind != Question::Kind::WithLanes) continue;
    with_lanes.push_back(
        {{"lanes", question.lanes}, {"total_s", seconds_or_null(question.total_ns)}});
  }
  const std::optional<double> idle = total ? idle_share(*total) : std::nullopt;
  return {{"schema", 1},
          {"sweeps", sweeps},
          {"at", rfc3339(input_.now_wall_ns)},
          {"end_at", total ? json(rfc3339(later_by(input_.now_wall_ns, *total))) : json(nullptr)},
          {"total_s", seconds_or_null(total)},
          {"lower_bound_s", seconds(bound_.ns)},
          {"bound_by", {{"kind", name_of(bound_.by)}, {"words", bound_words()}}},
          {"idle_share", idle ? json(*idle) : json(nullptr)},
          {"lane_kind", main_.pool == LaneId::Pool::Gpu ? "GPU" : "lane"},
          {"lane_count", main_.count},
          {"with_lanes", std::move(with_lanes)},
          {"with_expect_s", std::move(with_expect)},
          {"lanes", lanes_json()},
          {"jobs", jobs_json()},
          {"others", others_json()},
          {"durations", durations_json()},
          {"held", held},
          {"stuck", stuck_json()},
          {"notes", facts_.notes}};
}

}  // namespace pergpu
