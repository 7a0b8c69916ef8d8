// Best effort throughout: a job may be writing, or its folder may be gone.
#include "cli/job_files/result_files.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/job_files/event_files.h"
#include "cli/job_files/tail.h"
#include "number.h"
#include "os/fs/file.h"
#include "view/model/job_facts.h"
#include "view/text/escape.h"
#include "view/text/long_text.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// The newest line that holds metrics: the very last one may still be half written.
view::Metrics newest_metrics(const std::string& path,
                             view::Metrics (*read)(std::string_view) = view::metrics_of_line) {
  if (path.empty()) return {};
  const std::vector<std::string> lines = last_lines(path, 2);
  for (std::size_t i = lines.size(); i-- > 0;) {
    view::Metrics metrics = read(lines[i]);
    if (!metrics.empty()) return metrics;
  }
  return {};
}

enum class As : std::uint8_t { Text, Exact };

NewestMetrics of_event_file(const JobSnapshot& job, As as) {
  EventFile file = newest_event_file(job.out);
  if (file.path.empty()) return {};
  const view::NewestScalars newest = newest_scalars(file.path);
  view::Metrics metrics = as == As::Exact ? newest.exact_metrics() : newest.metrics();
  if (metrics.empty()) return {};
  return {
      .metrics = std::move(metrics), .path = std::move(file.path), .written_at = file.written_at};
}

/// What a file holds may be of an attempt before the one that the job waits for.
bool has_metrics(const JobSnapshot& job) {
  return !job.replaced && job.attempt > 0 && !view::is_waiting(job);
}

std::string last_line_of_log(const JobSnapshot& job) {
  if (job.log.empty()) return "";
  const std::vector<std::string> lines = last_lines(job.log, 1, 0, os::Writer::Keeper);
  return lines.empty() ? std::string() : std::string(view::after_carriage_return(lines.back()));
}

}  // namespace

NewestMetrics read_exact_metrics(const JobSnapshot& job) {
  if (!has_metrics(job)) return {};
  NewestMetrics newest{.metrics = newest_metrics(job.metrics, view::exact_metrics_of_line)};
  if (newest.metrics.empty()) return of_event_file(job, As::Exact);
  newest.path = job.metrics;
  if (const auto file = os::file_identity(job.metrics)) newest.written_at = file->mtime_ns;
  return newest;
}

void add_metrics(json& whole) {
  const NewestMetrics newest = read_exact_metrics(whole.get<JobSnapshot>());
  json metrics = json::object();
  for (const auto& [name, text] : newest.metrics) {
    metrics[name] = json::parse(text, nullptr, false);
  }
  whole["last_metrics"] = std::move(metrics);
  whole["last_metrics_at"] =
      newest.written_at > 0 ? json(rfc3339(newest.written_at)) : json(nullptr);
  whole["last_metrics_file"] = newest.path.empty() ? json(nullptr) : json(newest.path);
}

view::MetricsOfJobs read_metrics(const std::vector<JobSnapshot>& jobs) {
  view::MetricsOfJobs all;
  for (const JobSnapshot& job : jobs) {
    if (!has_metrics(job)) continue;
    view::Metrics metrics = newest_metrics(job.metrics);
    if (metrics.empty()) metrics = of_event_file(job, As::Text).metrics;
    if (!metrics.empty()) all[job.id] = std::move(metrics);
  }
  return all;
}

view::TailsOfJobs read_tails(const std::vector<JobSnapshot>& jobs, std::size_t jobs_limit,
                             std::size_t lines) {
  view::TailsOfJobs tails;
  for (const JobSnapshot& job : jobs) {
    if (job.replaced || !view::is_failure(job) || job.log.empty()) continue;
    if (tails.size() == jobs_limit) break;
    tails[job.id] = last_lines(job.log, lines, 0, os::Writer::Keeper);
  }
  return tails;
}

std::string last_words_of(const JobSnapshot& job) {
  constexpr std::string_view kBare = "exit code ";
  const bool is_unexplained = job.state == "failed" && job.reason.starts_with(kBare) &&
                              whole_number<int>(job.reason.substr(kBare.size()));
  if (!is_unexplained || job.replaced) return "";
  return view::shortened(view::safe_line(last_line_of_log(job)));
}

std::string newest_of(const JobSnapshot& job) {
  const view::Metrics metrics = newest_metrics(job.metrics);
  return metrics.empty() ? last_line_of_log(job) : view::metrics_text(metrics);
}

}  // namespace pergpu::cli
