// `pergpu wait`: until all selected jobs are ended or held.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/snapshot.h"
#include "cli/command/command.h"
#include "cli/job_files/written_records.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "spec/text/units.h"
#include "view/model/job_facts.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct WaitOptions {
  Output output;
  std::vector<std::string> selectors;
  std::string timeout;
};

int wait(const WaitOptions& options) {
  std::optional<std::chrono::milliseconds> timeout;
  if (!options.timeout.empty()) {
    Result<std::chrono::milliseconds> parsed = parse_duration(options.timeout);
    if (!parsed) return fail({ErrorKind::Invalid, 0, "--timeout: " + parsed.error().message});
    timeout = *parsed;
  }
  std::vector<std::string> selectors = options.selectors;
  if (selectors.empty()) selectors.emplace_back("@");
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  Client client(std::move(*place), Client::Start::IfNeeded);
  const Result<json> reply = client.call({{"op", "wait"}, {"sel", selectors}}, {}, timeout);
  if (!reply && reply.error().kind == ErrorKind::Busy) {
    say(fmt::format("pergpu: not all jobs have ended within {}", options.timeout));
    return kTimedOut;
  }
  if (!reply) return fail(reply.error());
  const auto jobs = reply->value("jobs", json::array()).get<std::vector<JobSnapshot>>();
  await_records(jobs);
  if (options.output.json) {
    print(output_line(*reply));
  } else {
    print(view::counts_text(view::counts_of(jobs), style_of(STDOUT_FILENO, options.output.colour)) +
          "\n");
  }
  const bool all_done = std::all_of(jobs.begin(), jobs.end(), [](const JobSnapshot& job) {
    return job.replaced || job.state == "done";
  });
  return all_done ? kOk : kSomeFailed;
}

}  // namespace

void add_wait(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<WaitOptions>();
  CLI::App* command = program.add_subcommand("wait", "wait until jobs have ended or are held");
  add_selectors(*command, options->selectors);
  command->add_option("--timeout", options->timeout, "give up after this long, with exit code 124");
  add_output(*command, options->output);
  command->footer("Example:\n  pergpu wait thirteen --timeout 12h && ./publish.sh");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return wait(*options); }; });
}

}  // namespace pergpu::cli
