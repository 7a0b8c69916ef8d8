// The coordinator knows the newest attempt of a job; those before it are in the records beside its
// log (attempt.1.json …).  Where a folder is gone they have a number and nothing else.
#include "cli/results/history.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/job_files/attempt_files.h"
#include "cli/job_files/result_files.h"
#include "job/json_fields.h"
#include "json_text.h"
#include "view/model/job_facts.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
std::vector<std::string> texts_of(const json& object, const char* key) {
  std::vector<std::string> texts;
  const json* value = member(object, key);
  if (value == nullptr || !value->is_array()) return texts;
  for (const json& item : *value) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

/// 0 stands for "not known" where it is written.
void read_usage(const json& from, view::AttemptFacts& attempt) {
  if (const auto peak = integer_at(from, "peak_memory_bytes"); peak && *peak > 0) {
    attempt.peak_memory_bytes = peak;
  }
  if (const auto cpu = number_at(from, "cpu_s")) attempt.cpu_s = cpu;
  if (const auto cpus = integer_at(from, "cpus")) attempt.cpus = cpus;
  const std::int64_t starting = from_rfc3339(string_at(from, "starting_at"));
  if (starting != 0) attempt.starting_at = starting;
}

/// As op `show` has it.
view::AttemptUsage usage_of(const json& usage) {
  const json* mean = member(usage, "mean");
  const json* most = member(usage, "most");
  const auto extent = [&](const char* name) -> std::optional<view::AttemptUsage::Extent> {
    if (mean == nullptr || most == nullptr) return std::nullopt;
    const auto of_mean = number_at(*mean, name);
    const auto of_most = number_at(*most, name);
    if (!of_mean || !of_most) return std::nullopt;
    return view::AttemptUsage::Extent{.mean = *of_mean, .most = *of_most};
  };
  return {.cores = extent("cores"),
          .resident_bytes = extent("resident_bytes"),
          .gpu_busy_percent = extent("gpu_busy_percent"),
          .gpu_memory_bytes = extent("gpu_memory_bytes")};
}

void read_code(const json& record, view::AttemptFacts& attempt) {
  if (const json* git = member(record, "git"); git != nullptr && git->is_object()) {
    attempt.git_commit = string_at(*git, "commit");
    const json* dirty = member(*git, "dirty");
    attempt.git_dirty = dirty != nullptr && dirty->is_boolean() && dirty->get<bool>();
  }
  if (const json* files = member(record, "files"); files != nullptr && files->is_object()) {
    for (const auto& [path, hash] : files->items()) {
      if (hash.is_string()) attempt.files.emplace_back(path, hash.get<std::string>());
    }
  }
}

view::AttemptFacts facts_of_record(const json& record, std::int64_t number) {
  view::AttemptFacts attempt{.number = number};
  if (!record.is_object()) return attempt;
  attempt.cls = string_at(record, "class");
  attempt.reason = string_at(record, "reason");
  attempt.exit = integer_at(record, "exit");
  attempt.signal = integer_at(record, "signal");
  attempt.lane = string_at(record, "lane");
  attempt.lanes = texts_of(record, "lanes");
  attempt.node = string_at(record, "node");
  attempt.gpus = texts_of(record, "gpus");
  attempt.started_at = from_rfc3339(string_at(record, "started_at"));
  attempt.ended_at = from_rfc3339(string_at(record, "ended_at"));
  attempt.duration_s = number_at(record, "duration_s");
  read_usage(record, attempt);
  read_code(record, attempt);
  return attempt;
}

/// What the coordinator knows outweighs the record, which is written later and may be lost.
void overlay_newest(const json& whole, const JobSnapshot& job, view::AttemptFacts& attempt) {
  attempt.live = view::is_live(job);
  if (job.cls) attempt.cls = *job.cls;
  if (attempt.live) attempt.cls.clear();
  if (attempt.reason.empty() && view::is_ended(job)) attempt.reason = job.reason;
  if (job.exit) attempt.exit = *job.exit;
  if (job.signal) attempt.signal = *job.signal;
  if (job.lane) attempt.lane = *job.lane;
  if (!job.lanes.empty()) attempt.lanes = job.lanes;
  if (job.node) attempt.node = *job.node;
  attempt.gpus = job.gpus;
  attempt.started_at = job.started_at;
  attempt.ended_at = job.ended_at;
  attempt.duration_s = job.duration_s;
  if (const json* last = member(whole, "last_attempt"); last != nullptr && last->is_object()) {
    read_usage(*last, attempt);
  }
  if (const json* usage = member(whole, "usage")) attempt.usage = usage_of(*usage);
}

}  // namespace

view::JobHistory history_of(const json& whole) {
  view::JobHistory history{.job = whole.get<JobSnapshot>()};
  const JobSnapshot& job = history.job;
  if (const json* params = member(whole, "params"); params != nullptr && params->is_object()) {
    for (const auto& [name, value] : params->items()) {
      history.params.emplace_back(name, json_text(value));
    }
  }
  history.needs = texts_of(whole, "needs");
  history.metrics = read_exact_metrics(job).metrics;
  for (std::int64_t number = 1; number <= job.attempt; ++number) {
    view::AttemptFacts attempt = facts_of_record(attempt_record(job, number), number);
    if (number == job.attempt) overlay_newest(whole, job, attempt);
    history.attempts.push_back(std::move(attempt));
  }
  return history;
}

json history_request(const std::vector<std::int64_t>& jobs, std::size_t begin) {
  std::vector<std::string> slice;
  for (std::size_t i = begin; i < std::min(jobs.size(), begin + kHistorySlice); ++i) {
    slice.push_back(std::to_string(jobs[i]));
  }
  return {{"op", "show"}, {"sel", std::move(slice)}};
}

Result<std::vector<view::JobHistory>> read_history(Client& client,
                                                   const std::vector<std::string>& selectors) {
  const Result<json> reply = client.call({{"op", "ps"}, {"sel", selectors}, {"all", true}});
  if (!reply) return reply.error();
  std::vector<std::int64_t> jobs;
  for (const json& job : reply->value("jobs", json::array())) {
    jobs.push_back(job.value("id", std::int64_t{0}));
  }
  return read_history(client, jobs);
}

Result<std::vector<view::JobHistory>> read_history(Client& client,
                                                   const std::vector<std::int64_t>& jobs) {
  std::vector<view::JobHistory> all;
  all.reserve(jobs.size());
  for (std::size_t begin = 0; begin < jobs.size(); begin += kHistorySlice) {
    const Result<json> reply = client.call(history_request(jobs, begin));
    if (!reply) return reply.error();
    for (const json& whole : reply->value("jobs", json::array())) {
      all.push_back(history_of(whole));
    }
  }
  return all;
}

}  // namespace pergpu::cli
