// Facts in the order in which people ask: how is it, where, since when, what does it run, where are
// its files; then the attempts, newest last; then fields of a newer coordinator.
#include "view/commands/show.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "api/snapshot.h"
#include "job/outcome.h"
#include "json_text.h"
#include "view/commands/segments.h"
#include "view/commands/usage.h"
#include "view/model/job_facts.h"
#include "view/model/metrics.h"
#include "view/text/escape.h"
#include "view/text/long_text.h"
#include "view/text/quantity.h"
#include "view/text/shell_words.h"
#include "view/text/table.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

std::string value_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  return json_text(value);
}

std::string field_text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? std::string() : value_text(*found);
}

std::int64_t time_of(const json& object, const char* name) {
  return from_rfc3339(field_text(object, name));
}

class Facts {
 public:
  explicit Facts(const Style& style) : style_(style) {}
  void add(std::string_view name, std::string_view value, Tone tone = Tone::Plain) {
    if (value.empty() || value == "-") return;
    out_ += fmt::format("  {:<10}{}\n", name, paint(style_, tone, safe_line(value)));
  }
  std::string take() { return std::move(out_); }

 private:
  const Style& style_;
  std::string out_;
};

std::string state_text(const JobSnapshot& job) {
  std::string text = job.state;
  if (job.cls && *job.cls != "ok") text += fmt::format(" ({})", shown_class(*job.cls));
  if (!job.reason.empty()) text += ": " + short_reason(job.reason);
  return text;
}

/// "failed exit 1"; of an attempt that was retried, which has no state, "exit 1" or "lost".
std::string how_it_ended(const json& attempt) {
  const std::string cls = field_text(attempt, "class");
  std::string text = field_text(attempt, "state");
  if (text.empty()) text = cls.empty() ? "running" : std::string(shown_class(cls));
  for (const char* name : {"exit", "signal"}) {
    const std::string number = field_text(attempt, name);
    if (number.empty()) continue;
    text += text == name ? " " + number : fmt::format(" {} {}", name, number);
  }
  return text;
}

std::string attempts_table(const json& attempts, const Style& style) {
  const std::vector<Column> columns = {
      {.title = "ATTEMPT", .right = true}, {.title = "OUTCOME"}, {.title = "STARTED"},
      {.title = "TIME", .right = true},    {.title = "LANE"},    {.title = "REASON", .least = 12}};
  std::vector<TableRow> rows;
  for (const json& attempt : attempts) {
    if (!attempt.is_object()) continue;
    std::string number = field_text(attempt, "attempt");
    if (number.empty()) number = field_text(attempt, "number");
    const auto seconds = attempt.find("duration_s");
    const bool timed = seconds != attempt.end() && seconds->is_number();
    const std::string lane = field_text(attempt, "lane");
    rows.push_back({
        Cell{number, Tone::Plain},
        Cell{how_it_ended(attempt), Tone::Plain},
        Cell{date_and_time(time_of(attempt, "started_at"), style.utc_offset_s), Tone::Plain},
        Cell{timed ? duration_text(seconds->get<double>()) : "-", Tone::Plain},
        Cell{lane.empty() ? "-" : lane, Tone::Plain},
        Cell{field_text(attempt, "reason"), Tone::Plain},
    });
  }
  return rows.empty() ? std::string() : render_table(columns, rows, style);
}

/// "loss 0.12, accuracy 0.98 (step 300, 4 s ago)"; "" when it has written none.
std::string newest_metrics(const json& whole, std::int64_t now_ns) {
  constexpr std::size_t kMostShown = 12;
  constexpr std::array<std::string_view, 5> kPositions = {"step", "global_step", "epoch",
                                                          "iteration", "iter"};
  const auto found = whole.find("last_metrics");
  if (found == whole.end()) return "";
  Metrics values;
  Metrics where;
  for (const auto& [name, text] : metrics_of_line(json_text(*found))) {
    const bool is_position =
        std::find(kPositions.begin(), kPositions.end(), name) != kPositions.end();
    (is_position ? where : values).emplace_back(name, text);
  }
  if (values.empty()) values.swap(where);
  const std::size_t more = values.size() - std::min(values.size(), kMostShown);
  values.resize(values.size() - more);
  std::string text = metrics_text(values);
  if (more > 0) text += fmt::format(", and {} more", more);
  std::string when = metrics_text(where);
  if (const std::int64_t at = time_of(whole, "last_metrics_at"); at != 0 && !text.empty()) {
    const double age_s = std::max(0.0, static_cast<double>(now_ns - at) / 1e9);
    when += when.empty() ? "" : ", ";
    when += age_s < 59.5 ? fmt::format("{:.0f} s ago", age_s) : duration_text(age_s) + " ago";
  }
  return when.empty() ? text : fmt::format("{} ({})", text, when);
}

/// Names that are printed in their place, or belong to JobSnapshot.
bool is_known(const std::string& name, const json& of_snapshot) {
  constexpr std::array<std::string_view, 21> kPlaced = {
      "usage",        "shared",      "learnt",       "attempts",        "argv",
      "command",      "cwd",         "why",          "params",          "limits",
      "needs",        "limits_held", "file",         "git_commit",      "git_dirty",
      "last_attempt", "notify",      "last_metrics", "last_metrics_at", "last_metrics_file",
      "last_line"};
  return of_snapshot.contains(name) ||
         std::find(kPlaced.begin(), kPlaced.end(), name) != kPlaced.end();
}

/// "lr=0.1, seed=2"
std::string members_text(const json& object) {
  std::string out;
  if (!object.is_object()) return value_text(object);
  for (const auto& [name, value] : object.items()) {
    out += (out.empty() ? "" : ", ") + name + "=" + shortened(value_text(value));
  }
  return out;
}

/// "train.py xxh128:3f2a90c1d4e5": what the newest attempt ran, by its hash.
std::vector<std::string> files_of_newest(const json& whole) {
  constexpr std::size_t kTold = 19;  // of the hash: xxh128: and 12 digits
  std::vector<std::string> out;
  const auto attempts = whole.find("attempts");
  if (attempts == whole.end() || !attempts->is_array() || attempts->empty()) return out;
  const auto files = attempts->back().find("files");
  if (files == attempts->back().end() || !files->is_object()) return out;
  for (const auto& [path, hash] : files->items()) {
    out.push_back(path + " " + value_text(hash).substr(0, kTold));
  }
  return out;
}

std::string elements_text(const json& array) {
  std::string out;
  if (!array.is_array()) return value_text(array);
  for (const json& element : array) out += (out.empty() ? "" : ", ") + value_text(element);
  return out;
}

}  // namespace

std::string command_text(const json& argv) {
  if (!argv.is_array()) return value_text(argv);
  std::vector<std::string> words;
  for (const json& word : argv) words.push_back(value_text(word));
  return shell_words(words);
}

namespace {

std::string shortened_command(const json& argv) {
  if (!argv.is_array()) return value_text(argv);
  std::string out;
  for (const json& word : argv)
    out += (out.empty() ? "" : " ") + shortened(command_text(json::array({word})));
  return out;
}

}  // namespace

std::string show_text(const json& whole, std::int64_t now_ns, const Style& style) {
  const JobSnapshot job = whole.get<JobSnapshot>();
  std::string out =
      fmt::format("{} {}\n", job.id, paint(style, Tone::Bold, safe_line(name_of(job))));
  Facts facts(style);
  facts.add("state", state_text(job), tone_of_state(job.state));
  if (const std::string why = field_text(whole, "why"); why != job.reason)
    facts.add("why", short_reason(why));
  if (job.replaced) facts.add("version", "older: the job's definition has changed since");
  if (job.node) facts.add("node", *job.node);
  if (job.lane) facts.add("lane", lane_text_of(job));
  facts.add("gpus", fmt::format("{}", fmt::join(job.gpus, ", ")));
  facts.add("queued", date_and_time(job.queued_at, style.utc_offset_s));
  facts.add("started", date_and_time(job.started_at, style.utc_offset_s));
  facts.add("ended", date_and_time(job.ended_at, style.utc_offset_s));
  facts.add("time", duration_text(elapsed_s(job, now_ns)));
  if (job.expected_s) facts.add("expected", duration_text(*job.expected_s));
  if (const auto learnt = whole.find("learnt"); learnt != whole.end()) {
    facts.add("learned", learnt_text(*learnt));
  }
  if (const auto usage = whole.find("usage"); usage != whole.end()) {
    const std::vector<std::string> lines = usage_lines(*usage);
    for (std::size_t i = 0; i < lines.size(); ++i) facts.add(i == 0 ? "usage" : "", lines[i]);
  }
  if (const auto shared = whole.find("shared"); shared != whole.end() && shared->is_array()) {
    for (const json& segment : *shared) {
      facts.add(segment == shared->front() ? "shared" : "",
                segment_line(segment_in(segment), now_ns));
    }
  }
  facts.add("progress", job.progress);
  facts.add("status", job.status);
  if (whole.contains("params")) facts.add("params", members_text(whole["params"]));
  if (whole.contains("command")) facts.add("command", command_text(whole["command"]));
  if (whole.contains("argv")) facts.add("argv", shortened_command(whole["argv"]));
  facts.add("folder", field_text(whole, "cwd"));
  facts.add("out", job.out);
  facts.add("log", job.log);
  if (const std::string line = field_text(whole, "last_line"); !line.empty()) {
    facts.add("", "last line: " + line);
    facts.add("", fmt::format("whole log: pergpu logs {}", job.id));
  }
  const std::string newest = newest_metrics(whole, now_ns);
  facts.add("metrics", newest);
  const std::string file = field_text(whole, "last_metrics_file");
  facts.add(newest.empty() ? "metrics" : "", file.empty() ? job.metrics : file);
  if (job.attempt > 0) facts.add("attempt", std::to_string(job.attempt));
  facts.add("retries", fmt::format("{} left", job.retries_left));
  if (whole.contains("limits")) facts.add("limits", members_text(whole["limits"]));
  if (const auto held = whole.find("limits_held"); held != whole.end() && held->is_object()) {
    for (const auto& [name, by] : held->items()) facts.add("", name + ": " + value_text(by));
  }
  if (whole.contains("needs")) facts.add("needs", elements_text(whole["needs"]));
  facts.add("file", field_text(whole, "file"));
  if (const std::string commit = field_text(whole, "git_commit"); !commit.empty()) {
    facts.add(
        "git",
        commit + (field_text(whole, "git_dirty") == "true" ? " with uncommitted changes" : ""));
  }
  for (const std::string& code : files_of_newest(whole)) facts.add("code", code);
  if (whole.contains("last_attempt")) facts.add("newest", members_text(whole["last_attempt"]));
  if (const auto told = whole.find("notify"); told != whole.end() && told->is_array()) {
    for (const json& channel : *told) facts.add("notify", value_text(channel));
  }
  for (const std::string& warning : job.warnings) facts.add("warning", warning, Tone::Warn);
  const json of_snapshot = JobSnapshot{};
  for (const auto& [name, value] : whole.items()) {
    if (!is_known(name, of_snapshot)) facts.add(safe_line(name) + " ", value_text(value));
  }
  out += facts.take();
  if (whole.contains("attempts") && whole["attempts"].is_array()) {
    const std::string table = attempts_table(whole["attempts"], style);
    if (!table.empty()) out += "\n" + table;
  }
  return out;
}

}  // namespace pergpu::view
