// `pergpu report`: a sweep as one HTML page.  The facts come from the coordinator and from the
// files in the jobs' folders; the page itself is view/report/report.h.
#include "view/report/report.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/client/watch.h"
#include "cli/command/command.h"
#include "cli/command/path_option.h"
#include "cli/job_files/result_files.h"
#include "cli/results/attempt_series.h"
#include "cli/results/history.h"
#include "cli/results/output_file.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "job/redact.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/process/paths.h"
#include "run/machine.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// A page holds each job several times over, and browsers have their limits; `export` has none.
constexpr std::size_t kMostJobs = 20'000;
constexpr std::size_t kMostTails = 100;
constexpr std::size_t kReportLines = 20;

struct ReportOptions {
  std::string selector = "@";
  std::string file;  // "": <sweep>-report.html
};

/// What a watch of the jobs begins with.
struct Snapshot {
  SweepSnapshot sweep = {};
  std::vector<JobSnapshot> jobs = {};
};

Result<Snapshot> ask_snapshot(Client& client, const std::string& selector) {
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  if (!loop) return std::move(loop).error();
  std::optional<Snapshot> snapshot;
  std::optional<Error> failed;
  const json request = {{"op", "watch"}, {"sel", std::vector<std::string>{selector}}};
  Watch watch(
      **loop, client, request,
      {.on_event =
           [&](const json& event) {
             if (snapshot || event.value("event", std::string()) != "snapshot") return;
             snapshot = Snapshot{
                 .sweep = event.value("sweep", json()).get<SweepSnapshot>(),
                 .jobs = event.value("jobs", json::array()).get<std::vector<JobSnapshot>>()};
             (*loop)->stop();
           },
       .on_gap = [](const std::string&) {},
       .on_failed =
           [&](const Error& why) {
             failed = why;
             (*loop)->stop();
           }});
  watch.start();
  if (!failed) {
    if (const Result<void> ran = (*loop)->run(); !ran) return ran.error();
  }
  if (failed) return *failed;
  return *std::move(snapshot);
}

Result<view::MachineFacts> ask_machine(Client& client) {
  const Result<json> reply = client.call({{"op", "gpus"}});
  if (!reply) return reply.error();
  view::MachineFacts machine{
      .host = os::host_name(),
      .version = client.peer().version,
      .cores = static_cast<int>(reply->value("cpu_lanes", std::int64_t{0})),
      .memory_bytes = read_machine().memory_bytes,
      .gpus = reply->value("gpus", json::array()).get<std::vector<GpuSnapshot>>()};
  utsname system{};
  if (::uname(&system) == 0) {
    machine.system = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  }
  return machine;
}

/// Logs go with the page to other people.
view::TailsOfJobs tails_of(const std::vector<JobSnapshot>& jobs) {
  view::TailsOfJobs tails = read_tails(jobs, kMostTails, kReportLines);
  for (auto& [job, lines] : tails) {
    for (std::string& line : lines) line = redact_text(line);
  }
  return tails;
}

Result<view::Report> gather(Client& client, const std::string& selector) {
  Result<Snapshot> snapshot = ask_snapshot(client, selector);
  if (!snapshot) return std::move(snapshot).error();
  std::vector<std::int64_t> jobs;
  for (const JobSnapshot& job : snapshot->jobs) {
    if (job.sweep_id != snapshot->sweep.id) {
      return Error{
          ErrorKind::Invalid, 0,
          fmt::format(
              "`{}` matches jobs of several sweeps, such as {} and {}; a report covers one sweep",
              selector, snapshot->sweep.name, job.sweep)};
    }
    jobs.push_back(job.id);
  }
  if (jobs.size() > kMostJobs) {
    return Error{
        ErrorKind::Invalid, 0,
        fmt::format(
            "`{}` matches {} jobs, but a page holds at most {}: name fewer, or use `pergpu export`",
            selector, jobs.size(), kMostJobs)};
  }
  Result<std::vector<view::JobHistory>> histories = read_history(client, jobs);
  if (!histories) return std::move(histories).error();
  Result<view::MachineFacts> machine = ask_machine(client);
  if (!machine) return std::move(machine).error();
  std::int64_t of_sweep = 0;
  for (const auto& [state, count] : snapshot->sweep.counts) of_sweep += count;
  const bool is_whole = std::cmp_equal(of_sweep, jobs.size());
  os::RealClock clock;
  const std::int64_t now_ns = clock.now().wall_ns;
  const std::size_t without_series = read_series(client, *histories, now_ns);
  std::vector<JobSnapshot> newest;
  for (const view::JobHistory& history : *histories) newest.push_back(history.job);
  return view::Report{.sweep = std::move(snapshot->sweep),
                      .selector = is_whole ? "" : selector,
                      .jobs = *std::move(histories),
                      .tails = tails_of(newest),
                      .machine = *std::move(machine),
                      .now_ns = now_ns,
                      .utc_offset_s = style_of(STDOUT_FILENO, "never").utc_offset_s,
                      .without_series = without_series};
}

int report(const ReportOptions& options) {
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  Client client(std::move(*place), Client::Start::IfNeeded);
  const Result<view::Report> gathered = gather(client, options.selector);
  if (!gathered) return fail(gathered.error());
  const std::string page = view::report_page(*gathered);
  if (options.file == "-") {
    print_data(page);
    return kOk;
  }
  const std::string file =
      options.file.empty() ? gathered->sweep.name + "-report.html" : options.file;
  if (const Result<void> written = write_output(file, page); !written) {
    return fail(written.error());
  }
  say(fmt::format("{}: {} jobs of {}", file, gathered->jobs.size(), gathered->sweep.name));
  return kOk;
}

}  // namespace

void add_report(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      program.add_subcommand("report", "write a report of a sweep as one HTML page");
  command->add_option("SEL", options->selector,
                      "a sweep, or jobs of one sweep (default: the last sweep)");
  command
      ->add_option(
          "-o,--output", options->file,
          "output file, overwritten if it exists; - is stdout (default: SWEEP-report.html)")
      ->type_name("FILE")
      ->transform(path_option());
  command->footer("Example:\n  pergpu report thirteen -o thirteen.html");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return report(*options); }; });
}

}  // namespace pergpu::cli
