// `pergpu logs`: a job's output.  The client reads the file itself; the coordinator only says where
// it is.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/snapshot.h"
#include "cli/command/command.h"
#include "cli/follow/follow.h"
#include "cli/follow/json_lines.h"
#include "cli/job_files/attempt_files.h"
#include "cli/job_files/tail.h"
#include "cli/term/exit_code.h"
#include "os/fd.h"
#include "os/fs/file.h"
#include "os/fs/written_file.h"
#include "os/terminal.h"
#include "view/model/job_facts.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct LogsOptions {
  std::string selector = "@";
  bool follow = false;
  bool json = false;
  std::int64_t lines = -1;
};

/// As much as was written when it was opened: a job may write faster than this prints.
int print_file(const std::string& path, std::int64_t offset, std::int64_t job, bool as_json) {
  const Result<os::UniqueFd> fd = os::open_written(path, os::Writer::Keeper);
  if (!fd) return fail(fd.error());
  struct stat st = {};
  if (::fstat(fd->get(), &st) < 0) return fail(os_error("stat " + path));
  const bool to_terminal = os::is_terminal(STDOUT_FILENO);
  view::LogFilter filter;
  JsonLines lines;
  std::array<char, 64 << 10> block;
  while (offset < st.st_size) {
    offset = os::next_data(fd->get(), offset);
    if (offset >= st.st_size) break;
    const auto most = std::min<std::int64_t>(st.st_size - offset, std::ssize(block));
    const ssize_t n = ::pread(fd->get(), block.data(), static_cast<std::size_t>(most), offset);
    if (n < 0) return fail(os_error("read " + path));
    if (n == 0) break;
    offset += n;
    const std::string_view bytes(block.data(), static_cast<std::size_t>(n));
    const bool is_read = as_json       ? print(lines.feed(job, bytes))
                         : to_terminal ? print(filter.feed(bytes))
                                       : print(bytes);
    if (!is_read) return kSomeFailed;
  }
  if (as_json) {
    print(lines.finish(job));
  } else if (to_terminal) {
    print(filter.finish());
  }
  return kOk;
}

std::string candidates(const std::vector<JobSnapshot>& jobs) {
  std::string text;
  for (std::size_t i = 0; i < jobs.size() && i < 10; ++i) {
    text += fmt::format("\n  {} {} ({})", jobs[i].id, view::name_of(jobs[i]), jobs[i].state);
  }
  if (jobs.size() > 10) text += fmt::format("\n  and {} more", jobs.size() - 10);
  return text;
}

/// What replaced a live job waits for its end: until then the older one's output is meant.
void take_older(std::vector<JobSnapshot>& jobs) {
  const auto is_older = [](const JobSnapshot& job) { return job.replaced && view::is_live(job); };
  const auto older = std::find_if(jobs.begin(), jobs.end(), is_older);
  if (jobs.size() != 2 || older == jobs.end()) return;
  JobSnapshot one = *older;
  const JobSnapshot& other = older == jobs.begin() ? jobs.back() : jobs.front();
  if (other.out != one.out || view::is_live(other)) return;
  say(fmt::format("job {}, an older version of {}, is {}; this is its output", one.id,
                  view::name_of(one), one.state));
  jobs = {std::move(one)};
}

int logs(const LogsOptions& options) {
  const Result<json> reply =
      ask({{"op", "ps"}, {"sel", json::array({options.selector})}, {"all", true}, {"older", true}});
  if (!reply) return fail(reply.error());
  auto jobs = reply->value("jobs", json::array()).get<std::vector<JobSnapshot>>();
  if (jobs.empty()) {
    return fail({ErrorKind::NotFound, 0, options.selector + " matches no job"});
  }
  take_older(jobs);
  if (jobs.size() > 1) {
    return fail({ErrorKind::Invalid, 0,
                 fmt::format("{} matches {} jobs; name one of them:{}", options.selector,
                             jobs.size(), candidates(jobs))});
  }
  const JobSnapshot& job = jobs.front();
  const std::int64_t attempt = attempt_of(options.selector);
  if (attempt > job.attempt) {
    return fail({ErrorKind::NotFound, 0,
                 fmt::format("job {} has only {} attempts so far", job.id, job.attempt)});
  }
  std::string path = job.log;
  const bool newest = attempt == 0 || attempt == job.attempt;
  if (!newest) path = fmt::format("{}/log.{}.txt", os::parent_of(job.log), attempt);
  const std::int64_t offset = options.lines < 0 ? 0 : offset_of_last_lines(path, options.lines);
  if (options.follow && newest) {
    const Result<os::UniqueFd> may = os::open_written(path, os::Writer::Keeper);
    if (!may && may.error().kind == ErrorKind::Denied) return fail(may.error());
    Result<Place> place = find_place();
    if (!place) return fail(place.error());
    const std::int64_t begun = job.started_at != 0 ? job.attempt : 0;
    return follow_log(*place, job.id, {.attempt = begun, .offset = offset},
                      Output{.json = options.json});
  }
  if (job.attempt == 0) {
    say(fmt::format("{} has not started yet ({}); `pergpu logs -f {}` waits for it",
                    view::name_of(job), job.state, job.id));
    return kOk;
  }
  return print_file(path, offset, job.id, options.json);
}

}  // namespace

void add_logs(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* command = program.add_subcommand("logs", "print a job's output");
  command->add_option("SEL", options->selector, "a job (17) or one attempt of it (17.2)")
      ->required();
  command->add_flag("-f,--follow", options->follow,
                    "follow the output until the job ends; exit with its code");
  command->add_option("-n,--lines", options->lines, "only the last N lines")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000'000}));
  command->add_flag("--json", options->json, "print each line as a JSON object");
  command->footer("Example:\n  pergpu logs -f thirteen/3/train");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return logs(*options); }; });
}

}  // namespace pergpu::cli
