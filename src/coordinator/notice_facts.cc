// A sweep may have a million runs and a message has a page: the first rows are sent, and how many
// there are.  What failed is named beside the table.
#include "coordinator/notice_facts.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "coordinator/describe.h"
#include "json_text.h"
#include "spec/templates/run_parameters.h"

namespace pergpu {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRows = 40;
constexpr std::size_t kMostListedJobs = 400;
/// What the helper takes beside the channel's own time (curl's is in notify/http_post.cc).
constexpr std::int64_t kHelperNs = 60 * kSecond;

std::vector<std::string> parameters_of(const Sweep& sweep, const Run& run) {
  std::vector<std::string> row;
  const Result<RunParameters> parameters = RunParameters::parse(run.spec());
  for (const std::string& column : sweep.spec.columns) {
    const std::string* text = parameters ? parameters->text(column) : nullptr;
    row.push_back(text == nullptr ? "" : *text);
  }
  return row;
}

std::vector<const Step*> listed_steps(const Sweep& sweep) {
  std::vector<const Step*> steps;
  for (const Step& step : sweep.steps) {
    if (step.listed) steps.push_back(&step);
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step* a, const Step* b) { return a->file_order < b->file_order; });
  return steps;
}

/// The table's rows: the run's place in it is its index there.
struct Rows {
  SweepSnapshot sweep = {};
  std::vector<JobSnapshot> jobs = {};
  std::int64_t left_out = 0;
};

Rows first_rows(const Coordinator& coordinator, const Sweep& sweep) {
  const World& world = coordinator.world();
  const std::vector<const Step*> steps = listed_steps(sweep);
  const std::size_t most = std::clamp<std::size_t>(
      kMostListedJobs / std::max<std::size_t>(1, steps.size()), 1, kMostRows);
  Rows rows;
  rows.sweep = {
      .id = sweep.id.value, .name = sweep.name, .root = sweep.root, .columns = sweep.spec.columns};
  for (const Step* step : steps) {
    if (rows.sweep.steps.size() == kMostListedJobs) break;
    rows.sweep.steps.push_back(step->spec.name);
    if (step->spec.once && !step->current.empty() && step->current.front())
      rows.jobs.push_back(describe(coordinator, *world.job(step->current.front())));
  }
  for (std::size_t i = 0; i < sweep.runs.size(); ++i) {
    const Run& run = sweep.runs[i];
    if (rows.sweep.rows.size() == most) break;
    if (!run.listed) continue;
    const auto place = static_cast<std::int64_t>(rows.sweep.rows.size());
    rows.sweep.rows.push_back(parameters_of(sweep, run));
    rows.sweep.runs.emplace_back(run.folder());
    for (const Step* step : steps) {
      if (step->spec.once || i >= step->current.size() || !step->current[i]) continue;
      JobSnapshot job = describe(coordinator, *world.job(step->current[i]));
      job.index = place;
      rows.jobs.push_back(std::move(job));
    }
  }
  const std::size_t listed = sweep.runs.size() - sweep.unlisted_runs.size();
  rows.left_out = static_cast<std::int64_t>(listed - rows.sweep.rows.size());
  return rows;
}

json counts_of(const Sweep& sweep) {
  json counts = json::object();
  for (std::size_t i = 0; i < kJobStates; ++i) {
    std::int64_t count = 0;
    for (const Step& step : sweep.steps) {
      if (step.listed) count += step.in_state[i];
    }
    if (count > 0) counts[std::string(to_string(static_cast<JobState>(i)))] = count;
  }
  return counts;
}

json events_of(const NoticeDebt& debt) {
  json events = json::array();
  if (debt.failures > 0) events.push_back("failure");
  if (!debt.hold.empty()) events.push_back("hold");
  if (!debt.outage.empty()) events.push_back("outage");
  if (debt.ended_wall_ns != 0) events.push_back("end");
  return events;
}

/// Why, and how it stands now: that may have changed since.
std::string hold_words(const Coordinator& coordinator, const Sweep& sweep, const NoticeDebt& debt) {
  if (debt.hold.empty()) return {};
  const std::string now = coordinator.breaker().words_of(sweep);
  return debt.hold + "; " + (now.empty() ? "no jobs are held by it now" : now);
}

/// How it stands now.
std::string outage_words(const Coordinator& coordinator, const Sweep& sweep,
                         const NoticeDebt& debt) {
  if (debt.outage.empty()) return {};
  const StorageWaits& waits = coordinator.storage_waits();
  return waits.has(sweep.id) ? waits.words(sweep.id)
                             : debt.outage + "; jobs have started again since then";
}

}  // namespace

NoticeRequest notice_request(const Coordinator& coordinator, const std::string& env_file,
                             const Sweep& sweep, const NotifyChannel& channel,
                             const NoticeDebt& debt) {
  Rows rows = first_rows(coordinator, sweep);
  std::vector<JobSnapshot> failed;
  for (const JobId id : debt.failed) {
    if (const Job* job = coordinator.world().job(id)) failed.push_back(describe(coordinator, *job));
  }
  json notice = {{"events", events_of(debt)},
                 {"sweep", std::move(rows.sweep)},
                 {"jobs", std::move(rows.jobs)},
                 {"runs_left_out", rows.left_out},
                 {"failures", debt.failures},
                 {"failed", std::move(failed)},
                 {"hold", hold_words(coordinator, sweep, debt)},
                 {"outage", outage_words(coordinator, sweep, debt)},
                 {"counts", counts_of(sweep)},
                 {"file", sweep.spec.file},
                 {"submitted_at", rfc3339(sweep.submitted_at.wall_ns)},
                 {"ended_at", nullptr}};
  if (debt.ended_wall_ns != 0) notice["ended_at"] = rfc3339(debt.ended_wall_ns);
  const json request = {{"channel",
                         {{"kind", to_string(channel.kind)},
                          {"command", channel.command},
                          {"target", channel.target},
                          {"token", channel.token},
                          {"timeout_ms", channel.timeout.count()}}},
                        {"env_file", env_file},
                        {"folder", sweep.spec.folder},
                        {"notice", std::move(notice)}};
  const std::int64_t own =
      channel.kind == NotifyChannel::Kind::Command
          ? std::chrono::duration_cast<std::chrono::nanoseconds>(channel.timeout).count()
          : 0;
  return {.text = json_text(request), .limit_ns = own + kHelperNs};
}

}  // namespace pergpu
