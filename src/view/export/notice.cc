// The title says what happened, the first line where and how it stands, then why, then the table.
#include "view/export/notice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "job/redact.h"
#include "json_text.h"
#include "plural.h"
#include "utf8_bytes.h"
#include "view/commands/results.h"
#include "view/model/job_facts.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"
#include "view/text/style.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestNtfy = 3900;   // 4096 bytes are a message, more an attachment
constexpr std::size_t kLongestSlack = 3500;  // it cuts at 4000 characters
constexpr std::size_t kLongestReason = 400;

/// At most `most` bytes, whole lines where there are several, and a last word that says so.
std::string cut_to(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = whole_characters(text, most).size();
  const std::size_t line = text.rfind('\n', end);
  if (line != std::string_view::npos && line > 0) end = line;
  return std::string(text.substr(0, end)) + "\n…";
}

std::string one_line(const std::string& text) {
  return abbreviated(safe_line(redact_text(text)), kLongestReason);
}

JobSnapshot without_secrets(JobSnapshot job) {
  job.run = redact_text(job.run);
  job.reason = one_line(job.reason);
  job.log = redact_text(job.log);
  return job;
}

SweepSnapshot without_secrets(SweepSnapshot sweep) {
  for (std::size_t c = 0; c < sweep.columns.size(); ++c) {
    if (!is_secret_name(sweep.columns[c])) continue;
    for (std::vector<std::string>& row : sweep.rows) {
      if (c < row.size() && !row[c].empty()) row[c] = kRedacted;
    }
  }
  return sweep;
}

std::int64_t count_of(const Notice& notice, const char* state) {
  const auto found = notice.counts.find(state);
  return found == notice.counts.end() ? 0 : found->second;
}

bool all_done(const Notice& notice) {
  return !notice.counts.empty() &&
         std::all_of(notice.counts.begin(), notice.counts.end(),
                     [](const auto& entry) { return entry.first == "done" || entry.second == 0; });
}

std::string title_of(const Notice& notice) {
  const Style plain;
  const std::string sweep = safe_line(notice.sweep.name);
  if (notice.has("test")) return "test of pergpu's notifications for " + sweep;
  if (notice.has("end") && all_done(notice))
    return fmt::format("{} is done: {}", sweep, counted(count_of(notice, "done"), "job"));
  if (notice.has("end"))
    return fmt::format("{} ended: {}", sweep, counts_text(notice.counts, plain));
  std::string title = sweep + ":";
  if (notice.has("failure")) title += " " + counted(notice.failures, "job") + " failed";
  if (notice.has("hold")) {
    if (notice.has("failure")) title += ",";
    title += " " + counted(count_of(notice, "held"), "job") + " held";
  }
  if (notice.has("outage")) {
    if (notice.has("failure") || notice.has("hold")) title += ",";
    title += " a disk keeps jobs from starting";
  }
  return title;
}

/// Seconds from the submit to the end; negative: it has not ended.
double duration_of(const Notice& notice) {
  if (notice.ended_at == 0 || notice.submitted_at == 0) return -1;
  return static_cast<double>(std::max<std::int64_t>(0, notice.ended_at - notice.submitted_at)) /
         1e9;
}

std::string failures_text(const Notice& notice) {
  std::string out;
  for (const JobSnapshot& failed : notice.failed) {
    const JobSnapshot job = without_secrets(failed);
    out += fmt::format("\n{}: {} {}: {}\n", safe_line(job.state), job.id, safe_line(name_of(job)),
                       job.reason.empty() ? "run again since then" : job.reason);
    if (!job.log.empty()) out += fmt::format("  {}\n", safe_line(job.log));
  }
  const auto named = static_cast<std::int64_t>(notice.failed.size());
  if (notice.failures > named) {
    out += fmt::format("\nand {} more failed: pergpu ps -a {}\n", notice.failures - named,
                       safe_line(notice.sweep.name));
  }
  return out;
}

std::string table_of(const Notice& notice, const MetricsOfJobs& metrics) {
  if (notice.jobs.empty()) return "";
  std::vector<JobSnapshot> jobs;
  for (const JobSnapshot& job : notice.jobs) jobs.push_back(without_secrets(job));
  std::string out = final_table(without_secrets(notice.sweep), jobs, metrics, Style{});
  if (notice.runs_left_out > 0)
    out += fmt::format("and {}: pergpu ps -a {}\n", counted(notice.runs_left_out, "more run"),
                       safe_line(notice.sweep.name));
  return out;
}

/// What Slack reads as its own marks.
std::string for_slack(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c == '`' ? '\'' : c;
    }
  }
  return out;
}

}  // namespace

bool Notice::has(const std::string& event) const {
  return std::find(events.begin(), events.end(), event) != events.end();
}

Result<Notice> notice_of(const json& object) {
  if (!object.is_object())
    return Error{ErrorKind::Corrupt, 0, "the notification is not a JSON object"};
  try {
    Notice notice;
    notice.events = object.at("events").get<std::vector<std::string>>();
    notice.sweep = object.at("sweep").get<SweepSnapshot>();
    notice.jobs = object.at("jobs").get<std::vector<JobSnapshot>>();
    notice.runs_left_out = object.at("runs_left_out").get<std::int64_t>();
    notice.failures = object.at("failures").get<std::int64_t>();
    notice.failed = object.at("failed").get<std::vector<JobSnapshot>>();
    notice.hold = object.at("hold").get<std::string>();
    notice.outage = object.value("outage", std::string());
    notice.counts = object.at("counts").get<std::map<std::string, std::int64_t>>();
    notice.file = object.at("file").get<std::string>();
    notice.submitted_at = from_rfc3339(object.at("submitted_at").get<std::string>());
    const json& ended = object.at("ended_at");
    if (ended.is_string()) notice.ended_at = from_rfc3339(ended.get<std::string>());
    return notice;
  } catch (const json::exception& error) {
    return Error{ErrorKind::Corrupt, 0,
                 std::string("can't read the notification: ") + error.what()};
  }
}

Message message_of(const Notice& notice, const MetricsOfJobs& metrics) {
  const Style plain;
  Message message;
  message.title = title_of(notice);
  if (notice.has("test")) {
    message.text = fmt::format("on {}: this channel works\n", safe_line(notice.host));
    return message;
  }
  message.is_bad = notice.failures > 0 || !notice.hold.empty() || !notice.outage.empty() ||
                   (notice.has("end") && !all_done(notice));
  message.text = fmt::format("on {}", safe_line(notice.host));
  if (const double seconds = duration_of(notice); seconds >= 0)
    message.text += ", " + duration_text(seconds) + " after the submit";
  message.text += fmt::format(": {}\n", counts_text(notice.counts, plain));
  if (!notice.hold.empty()) message.text += "\n" + one_line(notice.hold) + "\n";
  if (!notice.outage.empty()) message.text += "\n" + one_line(notice.outage) + "\n";
  message.text += failures_text(notice);
  message.table = table_of(notice, metrics);
  if (!message.table.empty()) message.text += "\n" + message.table;
  return message;
}

json facts_of(const Notice& notice, const Message& message) {
  json failed = json::array();
  for (const JobSnapshot& one : notice.failed) {
    const JobSnapshot job = without_secrets(one);
    failed.push_back({{"id", job.id},
                      {"name", name_of(job)},
                      {"step", job.step},
                      {"run", job.run},
                      {"state", job.state},
                      {"class", job.cls ? json(*job.cls) : json(nullptr)},
                      {"reason", job.reason},
                      {"attempt", job.attempt},
                      {"exit", job.exit ? json(*job.exit) : json(nullptr)},
                      {"signal", job.signal ? json(*job.signal) : json(nullptr)},
                      {"log", job.log}});
  }
  const double seconds = duration_of(notice);
  return {{"schema", 1},
          {"events", notice.events},
          {"title", message.title},
          {"text", message.text},
          {"table", message.table},
          {"host", notice.host},
          {"sweep", notice.sweep.name},
          {"sweep_id", notice.sweep.id},
          {"file", notice.file},
          {"counts", notice.counts},
          {"failures", notice.failures},
          {"failed", std::move(failed)},
          {"hold", notice.hold.empty() ? json(nullptr) : json(one_line(notice.hold))},
          {"outage", notice.outage.empty() ? json(nullptr) : json(one_line(notice.outage))},
          {"submitted_at",
           notice.submitted_at == 0 ? json(nullptr) : json(rfc3339(notice.submitted_at))},
          {"ended_at", notice.ended_at == 0 ? json(nullptr) : json(rfc3339(notice.ended_at))},
          {"duration_s", seconds < 0 ? json(nullptr) : json(seconds)}};
}

std::string slack_body(const Message& message) {
  const std::string text = fmt::format("*{}*\n```\n{}\n```", for_slack(message.title),
                                       for_slack(cut_to(message.text, kLongestSlack)));
  return json_text(json{{"text", text}});
}

std::string ntfy_text(const Message& message) { return cut_to(message.text, kLongestNtfy); }

std::vector<std::string> ntfy_headers(const Message& message) {
  return {"Title: " + message.title, message.is_bad ? "Tags: warning" : "Tags: white_check_mark",
          message.is_bad ? "Priority: high" : "Priority: default",
          "Content-Type: text/plain; charset=utf-8"};
}

std::vector<std::pair<std::string, std::string>> hook_variables(const Notice& notice,
                                                                const Message& message) {
  const auto count = [&](const char* state) { return std::to_string(count_of(notice, state)); };
  const double seconds = duration_of(notice);
  const std::int64_t failed =
      count_of(notice, "failed") + count_of(notice, "timeout") + count_of(notice, "lost");
  const std::int64_t running =
      count_of(notice, "starting") + count_of(notice, "running") + count_of(notice, "stopping");
  return {{"PERGPU_EVENTS", fmt::format("{}", fmt::join(notice.events, ","))},
          {"PERGPU_TITLE", message.title},
          {"PERGPU_SWEEP", notice.sweep.name},
          {"PERGPU_SWEEP_ID", std::to_string(notice.sweep.id)},
          {"PERGPU_SWEEP_FOLDER", notice.sweep.root + "/" + notice.sweep.name},
          {"PERGPU_DONE", count("done")},
          {"PERGPU_FAILED", std::to_string(failed)},
          {"PERGPU_HELD", count("held")},
          {"PERGPU_QUEUED", count("queued")},
          {"PERGPU_RUNNING", std::to_string(running)},
          {"PERGPU_DURATION", seconds < 0 ? std::string() : fmt::format("{:.0f}", seconds)}};
}

}  // namespace pergpu::view
