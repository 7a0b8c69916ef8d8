// Small cases for forecasts: jobs on CPU lanes, times in minutes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forecast/forecast.h"
#include "forecast/lower_bound.h"

namespace pergpu::testing_forecast {

inline constexpr std::int64_t kMinute = 60'000'000'000;

inline StepKey step_key(int step) {
  return {.sweep = {1}, .step = static_cast<std::int16_t>(step)};
}

struct Outcome {
  std::vector<Forecast::Span> spans = {};
  std::vector<std::string> why_not = {};
  std::int64_t total_ns = 0;  // of those that end
  double minutes() const { return static_cast<double>(total_ns) / kMinute; }
};

struct Case {
  explicit Case(int lanes) { machine.capacity.cpu_lanes.size = lanes; }

  void declare(int step, Demand demand, std::int64_t ready_ns = 0) {
    machine.steps[step_key(step)] = {.demand = std::move(demand), .ready_ns = ready_ns};
  }
  std::uint32_t add(int step, std::int64_t duration_ns, std::vector<std::uint32_t> needs = {},
                    int run = -1) {
    if (!machine.steps.contains(step_key(step))) declare(step, {.step_name = "step"});
    const auto place = static_cast<std::uint32_t>(jobs.jobs.size());
    jobs.jobs.push_back({.step = step_key(step),
                         .run = run < 0 ? static_cast<std::int32_t>(place) : run,
                         .order_ns = duration_ns == ForecastJob::kForever ? 0 : duration_ns,
                         .duration_ns = duration_ns,
                         .needs = std::move(needs)});
    return place;
  }
  Outcome outcome(std::size_t slice = std::numeric_limits<std::size_t>::max()) const {
    const ForecastLinks links(jobs);
    Forecast forecast(jobs, links, machine);
    while (!forecast.advance(slice)) {
    }
    Outcome out{.spans = forecast.spans()};
    for (std::uint32_t i = 0; i < out.spans.size(); ++i) {
      out.why_not.push_back(forecast.why_not(i));
      if (out.spans[i].ends()) out.total_ns = std::max(out.total_ns, out.spans[i].end_ns);
    }
    return out;
  }
  LowerBound bound() const {
    return lower_bound(jobs, ForecastLinks(jobs), machine,
                       std::vector<bool>(jobs.jobs.size(), true));
  }

  ForecastJobs jobs = {};
  ForecastMachine machine = {};
};

/// 13 models that each train for an hour, and 3 hours of evaluations.
inline Case story(bool one_evaluation_at_a_time) {
  Case c(8);
  c.declare(0, {.step_name = "train"});
  c.declare(1, {.step_name = "evaluate",
                .max_parallel = one_evaluation_at_a_time ? std::optional<int>(1) : std::nullopt});
  for (int run = 0; run < 13; ++run) {
    const std::uint32_t train = c.add(0, 60 * kMinute, {}, run);
    c.add(1, 180 * kMinute / 13, {train}, run);
  }
  return c;
}

}  // namespace pergpu::testing_forecast
