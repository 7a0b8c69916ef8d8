// What the page asks for once, and what it asks to be done: the coordinator's answers, and what
// stands in files beside the jobs.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/job_files/attempt_files.h"
#include "cli/job_files/result_files.h"
#include "cli/results/history.h"
#include "cli/term/terminal.h"
#include "cli/web/web_app.h"
#include "os/fs/written_file.h"
#include "os/process/paths.h"
#include "version.h"
#include "view/model/metric_points.h"

namespace pergpu::cli {

using nlohmann::json;
using serve::error_response;

namespace {

constexpr std::size_t kMostPoints = 2'000;
constexpr std::size_t kMostMetricsBytes = 64u << 20;

serve::HttpResponse json_response(const json& value) {
  return {.type = "application/json", .body = to_line(value) + "\n"};
}

serve::HttpResponse failure_response(const Error& error) {
  switch (error.kind) {
    case ErrorKind::Invalid:
      return error_response(400, error.message);
    case ErrorKind::NotFound:
      return error_response(404, error.message);
    case ErrorKind::Busy:
      return error_response(409, error.message);
    case ErrorKind::Unavailable:
    case ErrorKind::Corrupt:
    case ErrorKind::Denied:
    case ErrorKind::Full:
    case ErrorKind::Io:
      break;
  }
  return error_response(503, error.message);
}

json first_job(const json& reply) {
  const json jobs = reply.value("jobs", json::array());
  return jobs.empty() ? json() : jobs[0];
}

}  // namespace

void WebApp::forward(const Exchange& exchange, const json& request,
                     std::function<json(json reply)> make) {
  asker_.ask(request, [exchange, make = std::move(make)](const Result<json>& reply) {
    if (!reply) return exchange->reply(failure_response(reply.error()));
    exchange->reply(json_response(make ? make(*reply) : *reply));
  });
}

void WebApp::send_hello(const Exchange& exchange) {
  exchange->reply(json_response({{"schema", 1},
                                 {"version", PERGPU_VERSION},
                                 {"host", os::host_name()},
                                 {"home", client_.place().home},
                                 {"readonly", rules_.readonly},
                                 {"utc_offset_s", style_of(STDOUT_FILENO, "never").utc_offset_s}}));
}

void WebApp::route_job(const Exchange& exchange, std::int64_t job, const std::string& what) {
  const json selector = json::array({std::to_string(job)});
  if (what.empty()) {
    return forward(exchange, {{"op", "show"}, {"sel", selector}}, [](const json& reply) {
      json whole = first_job(reply);
      add_attempts(whole, 0);
      add_metrics(whole);
      return whole;
    });
  }
  if (what == "why") return forward(exchange, {{"op", "why"}, {"sel", selector}}, first_job);
  if (what == "usage") return send_usage(exchange, job);
  if (what == "metrics") return send_points(exchange, job);
  exchange->reply(error_response(404, "unknown address; a job has why, usage and metrics"));
}

void WebApp::send_usage(const Exchange& exchange, std::int64_t job) {
  json request = {{"op", "usage"}, {"job", job}};
  for (const char* name : {"attempt", "step"}) {
    const std::string_view text = exchange->request().parameter(name);
    if (text.empty()) continue;
    const std::int64_t number = serve::number_in(text);
    if (number == 0)
      return exchange->reply(error_response(400, "attempt and step must be numbers"));
    request[name] = number;
  }
  forward(exchange, request);
}

void WebApp::send_points(const Exchange& exchange, std::int64_t job) {
  const json selector = json::array({std::to_string(job)});
  forward(exchange, {{"op", "show"}, {"sel", selector}}, [](const json& reply) {
    const JobSnapshot snapshot = first_job(reply).get<JobSnapshot>();
    const Result<std::string> lines =
        os::read_written_tail(snapshot.metrics, os::Writer::Job, kMostMetricsBytes);
    return view::metric_points(lines ? std::string_view(*lines) : std::string_view(), kMostPoints);
  });
}

/// Of the jobs before `next`, as they are sent.
struct WebApp::Histories {
  std::vector<std::int64_t> jobs = {};
  std::size_t next = 0;
  json list = json::array();
};

void WebApp::send_history(const Exchange& exchange, std::int64_t sweep) {
  // Of one that is not shown any more the name is not known: then all jobs are looked through.
  json selectors = json::array();
  for (const SweepSummary& shown : all_.sweeps) {
    if (shown.id == sweep) selectors.push_back(shown.name);
  }
  asker_.ask({{"op", "ps"}, {"sel", std::move(selectors)}, {"all", true}},
             [this, exchange, sweep](const Result<json>& reply) {
               if (!reply) return exchange->reply(failure_response(reply.error()));
               std::vector<std::int64_t> jobs;
               for (const json& job : reply->value("jobs", json::array())) {
                 if (job.value("sweep_id", std::int64_t{0}) != sweep) continue;
                 jobs.push_back(job.value("id", std::int64_t{0}));
               }
               if (jobs.empty()) return exchange->reply(error_response(404, "no such sweep"));
               if (jobs.size() > kMostJobs) {
                 return exchange->reply(error_response(
                     413, "too many jobs for a page; use `pergpu export`, which has no limit"));
               }
               read_histories(exchange,
                              std::make_shared<Histories>(Histories{.jobs = std::move(jobs)}));
             });
}

/// One slice, and the next one when it has come: in between everything else goes on.
void WebApp::read_histories(const Exchange& exchange, const std::shared_ptr<Histories>& histories) {
  if (exchange->is_gone()) return;
  if (histories->next >= histories->jobs.size()) {
    return exchange->reply(json_response({{"schema", 1}, {"jobs", std::move(histories->list)}}));
  }
  const json request = history_request(histories->jobs, histories->next);
  histories->next += kHistorySlice;
  asker_.ask(request, [this, exchange, histories](const Result<json>& reply) {
    if (!reply) return exchange->reply(failure_response(reply.error()));
    for (const json& whole : reply->value("jobs", json::array())) {
      histories->list.push_back(view::to_json_value(history_of(whole)));
    }
    read_histories(exchange, histories);
  });
}

/// {"jobs":[17,18],"kill":false}
void WebApp::act(const Exchange& exchange, const std::string& op) {
  if (op != "cancel" && op != "hold" && op != "release" && op != "retry") {
    return exchange->reply(
        error_response(404, "unknown action; expected cancel, hold, release or retry"));
  }
  const json body = json::parse(exchange->request().body, nullptr, false);
  const bool is_object = body.is_object() && body.contains("jobs") && body["jobs"].is_array();
  if (!is_object || body["jobs"].empty()) {
    return exchange->reply(
        error_response(400, "expected {\"jobs\":[numbers],\"kill\":true or false}"));
  }
  json selectors = json::array();
  for (const json& job : body["jobs"]) {
    if (!job.is_number_integer() || job.get<std::int64_t>() <= 0) {
      return exchange->reply(error_response(400, "`jobs` must contain only job numbers"));
    }
    selectors.push_back(std::to_string(job.get<std::int64_t>()));
  }
  const json kill = body.value("kill", json(false));
  if (!kill.is_boolean())
    return exchange->reply(error_response(400, "`kill` must be true or false"));
  forward(exchange, {{"op", op}, {"sel", std::move(selectors)}, {"kill", kill}});
}

}  // namespace pergpu::cli
