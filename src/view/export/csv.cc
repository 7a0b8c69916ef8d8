// Texts are given as they are, line ends and control characters included: quoting is enough for a
// reader of CSV, and `export` keeps them from a terminal.
#include "view/export/csv.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "view/model/job_facts.h"

namespace pergpu::view {
namespace {

/// Names in order of first appearance, and where each stands.
class Columns {
 public:
  void add(const Fields& fields) {
    for (const auto& [name, text] : fields) {
      if (at_.emplace(name, names_.size()).second) names_.push_back(name);
    }
  }
  const std::vector<std::string>& names() const { return names_; }
  void append(const Fields& fields, std::vector<std::string>& to) const {
    const std::size_t begin = to.size();
    to.resize(begin + names_.size());
    for (const auto& [name, text] : fields) to[begin + at_.at(name)] = plain_text(text);
  }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> at_;
};

template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value ? nlohmann::json(*value).dump() : std::string();
}

std::string time_of(std::int64_t wall_ns) { return wall_ns == 0 ? "" : rfc3339(wall_ns); }

constexpr std::array<std::string_view, 24> kFixed = {
    "job",        "sweep",     "run",        "index",    "step",
    "state",      "class",     "reason",     "attempts", "exit",
    "signal",     "lane",      "node",       "gpus",     "queued_at",
    "started_at", "ended_at",  "duration_s", "cpu_s",    "peak_memory_bytes",
    "git_commit", "git_dirty", "out",        "log"};

std::vector<std::string> fixed_of(const JobHistory& history) {
  const JobSnapshot& job = history.job;
  std::string gpus;
  for (const std::string& gpu : job.gpus) gpus += (gpus.empty() ? "" : " ") + gpu;
  const AttemptFacts none;
  const AttemptFacts& last = history.attempts.empty() ? none : history.attempts.back();
  return {std::to_string(job.id),
          job.sweep,
          job.run,
          text_of(job.index),
          job.step,
          job.state,
          job.cls.value_or(""),
          job.reason,
          std::to_string(job.attempt),
          text_of(job.exit),
          text_of(job.signal),
          lane_text_of(job),
          job.node.value_or(""),
          gpus,
          time_of(job.queued_at),
          time_of(job.started_at),
          time_of(job.ended_at),
          text_of(job.duration_s),
          text_of(last.cpu_s),
          text_of(last.peak_memory_bytes),
          last.git_commit,
          last.git_commit.empty() ? ""
          : last.git_dirty        ? "true"
                                  : "false",
          job.out,
          job.log};
}

}  // namespace

std::string csv_record(const std::vector<std::string>& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += ',';
    const std::string& field = fields[i];
    if (field.find_first_of(",\"\r\n") == std::string::npos) {
      out += field;
      continue;
    }
    out += '"';
    for (const char c : field) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
  }
  return out + "\r\n";
}

std::string jobs_csv(const std::vector<JobHistory>& jobs) {
  Columns params;
  Columns metrics;
  for (const JobHistory& job : jobs) {
    params.add(job.params);
    metrics.add(job.metrics);
  }
  std::vector<std::string> header(kFixed.begin(), kFixed.end());
  for (const std::string& name : params.names()) header.push_back("params." + name);
  for (const std::string& name : metrics.names()) header.push_back("metrics." + name);
  std::string out = csv_record(header);
  for (const JobHistory& job : jobs) {
    std::vector<std::string> fields = fixed_of(job);
    params.append(job.params, fields);
    metrics.append(job.metrics, fields);
    out += csv_record(fields);
  }
  return out;
}

}  // namespace pergpu::view
