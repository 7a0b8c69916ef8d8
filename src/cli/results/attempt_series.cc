// One request an attempt, one after the other: the coordinator decides nothing while it answers.
#include "cli/results/attempt_series.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "api/snapshot.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// The store has minutes of attempts that lasted for one.
constexpr std::int64_t kShortestNs = 60'000'000'000;

/// A damaged row of the store costs its attempt; a coordinator that is gone is not asked on and on.
constexpr std::size_t kMostFailed = 3;

/// [least, mean, most] of a bucket.
std::optional<std::array<double, 3>> measure_of(const json& bucket, const char* name) {
  const auto found = bucket.find(name);
  if (found == bucket.end() || !found->is_array() || found->size() != 3) return std::nullopt;
  std::array<double, 3> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!(*found)[i].is_number()) return std::nullopt;
    out[i] = (*found)[i].get<double>();
  }
  return out;
}

/// Mean and most of one measure over all buckets, by how many readings each stands for.
class Whole {
 public:
  void add(const std::optional<std::array<double, 3>>& measure, double readings) {
    if (!measure) return;
    sum_ += (*measure)[1] * readings;
    readings_ += readings;
    most_ = std::max(most_.value_or((*measure)[2]), (*measure)[2]);
  }
  std::optional<view::AttemptUsage::Extent> extent() const {
    if (!most_ || readings_ <= 0) return std::nullopt;
    return view::AttemptUsage::Extent{.mean = sum_ / readings_, .most = *most_};
  }

 private:
  double sum_ = 0;
  double readings_ = 0;
  std::optional<double> most_ = std::nullopt;
};

std::optional<double> mean_of(const std::optional<std::array<double, 3>>& measure) {
  return measure ? std::optional((*measure)[1]) : std::nullopt;
}

}  // namespace

std::vector<AttemptPlace> with_series(const std::vector<view::JobHistory>& jobs,
                                      std::int64_t now_ns) {
  struct Found {
    AttemptPlace place = {};
    bool has_gpu = false;
    std::int64_t length_ns = 0;
  };
  std::vector<Found> found;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::size_t a = 0; a < jobs[j].attempts.size(); ++a) {
      const view::AttemptFacts& attempt = jobs[j].attempts[a];
      if (attempt.started_at == 0) continue;
      const std::int64_t length_ns = view::end_of(attempt, now_ns) - attempt.started_at;
      if (!attempt.live && length_ns < kShortestNs) continue;
      found.push_back({.place = {.job = j, .attempt = a},
                       .has_gpu = !attempt.gpus.empty(),
                       .length_ns = length_ns});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.has_gpu, a.length_ns) > std::tie(b.has_gpu, b.length_ns);
  });
  std::vector<AttemptPlace> places;
  places.reserve(found.size());
  for (const Found& one : found) places.push_back(one.place);
  return places;
}

void add_series(const json& reply, view::AttemptFacts& attempt) {
  const auto step_s = reply.find("step_s");
  const auto buckets = reply.find("buckets");
  if (step_s == reply.end() || !step_s->is_number_integer()) return;
  if (buckets == reply.end() || !buckets->is_array()) return;
  // Up to a year: what is wider is no bucket.
  const std::int64_t width_ns =
      std::clamp<std::int64_t>(step_s->get<std::int64_t>(), 0, 31'536'000) * 1'000'000'000;
  Whole cores;
  Whole resident;
  Whole busy;
  Whole memory;
  for (const json& bucket : *buckets) {
    if (!bucket.is_object()) continue;
    const auto at = bucket.find("at");
    const std::int64_t begin_ns =
        at != bucket.end() && at->is_string() ? from_rfc3339(at->get<std::string>()) : 0;
    if (begin_ns == 0) continue;
    const auto of_cores = measure_of(bucket, "cores");
    const auto of_busy = measure_of(bucket, "gpu_busy_percent");
    const auto told = bucket.find("readings");
    const double readings = told != bucket.end() && told->is_number() ? told->get<double>() : 1;
    cores.add(of_cores, readings);
    busy.add(of_busy, readings);
    resident.add(measure_of(bucket, "resident_bytes"), readings);
    memory.add(measure_of(bucket, "gpu_memory_bytes"), readings);
    attempt.series.push_back({.begin_ns = begin_ns,
                              .end_ns = begin_ns + width_ns,
                              .cores = mean_of(of_cores),
                              .gpu_busy_percent = mean_of(of_busy)});
  }
  if (attempt.usage != view::AttemptUsage{}) return;
  attempt.usage = {.cores = cores.extent(),
                   .resident_bytes = resident.extent(),
                   .gpu_busy_percent = busy.extent(),
                   .gpu_memory_bytes = memory.extent()};
}

std::size_t read_series(Client& client, std::vector<view::JobHistory>& jobs, std::int64_t now_ns) {
  const std::vector<AttemptPlace> places = with_series(jobs, now_ns);
  std::size_t buckets = 0;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool is_enough = i == kMostSeries || buckets >= kMostBuckets;
    if (is_enough || failed == kMostFailed) return places.size() - i;
    view::JobHistory& job = jobs[places[i].job];
    view::AttemptFacts& attempt = job.attempts[places[i].attempt];
    const Result<json> reply =
        client.call({{"op", "usage"}, {"job", job.job.id}, {"attempt", attempt.number}});
    if (!reply || !reply->is_object()) {
      ++failed;
      continue;
    }
    add_series(*reply, attempt);
    buckets += attempt.series.size();
  }
  return 0;
}

}  // namespace pergpu::cli
