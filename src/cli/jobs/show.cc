// `pergpu show` and `pergpu why`: one job whole, and in plain words why it is where it is.
#include "view/commands/show.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command/command.h"
#include "cli/job_files/attempt_files.h"
#include "cli/job_files/result_files.h"
#include "cli/share/segments.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "os/clock.h"
#include "view/commands/jobs.h"
#include "view/commands/segments.h"
#include "view/text/long_text.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct ShowOptions {
  Output output;
  std::vector<std::string> selectors;
};

/// Only a process can have memory.
bool any_live(const json& reply) {
  const json& jobs = reply.at("jobs");
  return std::any_of(jobs.begin(), jobs.end(), [](const json& job) {
    return job.value("ended_at", json(nullptr)).is_null() &&
           !job.value("started_at", json(nullptr)).is_null();
  });
}

/// Adds `shared`: the memory that processes of the job have.
void add_segments(json& job, const std::vector<view::Segment>& segments) {
  std::vector<view::Segment> its;
  const std::int64_t id = job.value("id", std::int64_t{0});
  for (const view::Segment& segment : segments) {
    if (std::find(segment.jobs.begin(), segment.jobs.end(), id) != segment.jobs.end()) {
      its.push_back(segment);
    }
  }
  job["shared"] = view::segments_json(its);
}

/// Adds `last_line`, for show_text.
void add_last_line(json& whole) {
  std::string line = last_words_of(whole.get<JobSnapshot>());
  if (!line.empty()) whole["last_line"] = std::move(line);
}

/// What the logs of failed jobs end with, by job; of no more than some.
std::map<std::int64_t, std::string> last_lines_of(const json& jobs) {
  constexpr std::size_t kMostLogs = 20;
  std::vector<std::string> failed;
  for (const json& job : jobs) {
    if (job.value("state", std::string()) != "failed") continue;
    if (failed.size() < kMostLogs)
      failed.push_back(std::to_string(job.at("id").get<std::int64_t>()));
  }
  std::map<std::int64_t, std::string> lines;
  if (failed.empty()) return lines;
  const Result<json> reply = ask({{"op", "ps"}, {"sel", failed}, {"older", true}});
  if (!reply) return lines;
  for (const JobSnapshot job : reply->value("jobs", json::array())) {
    if (std::string line = last_words_of(job); !line.empty()) lines[job.id] = std::move(line);
  }
  return lines;
}

int show(const ShowOptions& options) {
  Result<json> reply = ask({{"op", "show"}, {"sel", options.selectors}, {"older", true}});
  if (!reply) return fail(reply.error());
  std::vector<view::Segment> segments;
  const Result<Place> place = find_place();
  if (place && any_live(*reply)) segments = find_segments(*place);
  const std::int64_t only =
      options.selectors.size() == 1 ? attempt_of(options.selectors.front()) : 0;
  for (json& job : (*reply)["jobs"]) {
    add_attempts(job, only);
    add_metrics(job);
    add_segments(job, segments);
  }
  if (options.output.json) {
    print(output_line(*reply));
    return kOk;
  }
  os::RealClock clock;
  const view::Style style = style_of(STDOUT_FILENO, options.output.colour);
  std::string out;
  for (json& job : (*reply)["jobs"]) {
    add_last_line(job);
    if (!out.empty()) out += "\n";
    out += view::show_text(job, clock.now().wall_ns, style);
  }
  print(out);
  return kOk;
}

int why(const ShowOptions& options) {
  const Result<json> reply = ask({{"op", "why"}, {"sel", options.selectors}, {"older", true}});
  if (!reply) return fail(reply.error());
  if (options.output.json) {
    print(output_line(*reply));
    return kOk;
  }
  const json reasons = reply->value("jobs", json::array());
  std::map<std::int64_t, std::string> last_lines = last_lines_of(reasons);
  std::vector<view::Why> jobs;
  for (const json& job : reasons) {
    const std::int64_t id = job.value("id", std::int64_t{0});
    jobs.push_back({.id = id,
                    .name = job.value("name", std::string()),
                    .state = job.value("state", std::string()),
                    .why = view::short_reason(job.value("why", std::string())),
                    .last_line = last_lines[id]});
  }
  if (jobs.empty()) {
    say("no job is queued, held or running; `pergpu why SEL` shows how jobs ended");
    return kOk;
  }
  print(view::why_text(jobs, style_of(STDOUT_FILENO, options.output.colour)));
  return kOk;
}

CLI::App* add(CLI::App& program, Invocation& invocation, const char* name, const char* summary,
              int (*action)(const ShowOptions&)) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = program.add_subcommand(name, summary);
  add_selectors(*command, options->selectors);
  add_output(*command, options->output);
  command->callback([options, action, &invocation] {
    invocation.action = [options, action] { return action(*options); };
  });
  return command;
}

}  // namespace

void add_show(CLI::App& program, Invocation& invocation) {
  CLI::App* command = add(program, invocation, "show", "show all details of a job", show);
  command->get_option("SEL")->required();
  command->footer("Example:\n  pergpu show 17");
}

void add_why(CLI::App& program, Invocation& invocation) {
  add(program, invocation, "why",
      "explain why jobs wait or how they ended (default: all waiting jobs)", why)
      ->footer("Example:\n  pergpu why thirteen/3/evaluate");
}

}  // namespace pergpu::cli
