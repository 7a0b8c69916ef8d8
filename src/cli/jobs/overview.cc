// The first line of the stream of everything (`watch` with `all`) has the counts of all jobs and of
// the newest sweeps, and is small however many there are.
#include "cli/jobs/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/snapshot.h"
#include "cli/client/client.h"
#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kSweepsShown = 8;
constexpr std::string_view kHints =
    "to start jobs: `pergpu run sweep.toml` or `pergpu run -- python train.py`; to watch them: "
    "`pergpu top`\n`pergpu --help` lists all commands\n";

Result<json> look(Client& client) {
  Result<Connection> connection = client.connect();
  if (!connection) return std::move(connection).error();
  const std::string request = to_line({{"op", "watch"}, {"all", true}}) + "\n";
  if (Result<void> sent = connection->send(request); !sent) return std::move(sent).error();
  const Result<std::string> line = connection->read_line(kFirstAnswer);
  if (!line) return line.error();
  json event = json::parse(*line, nullptr, false);
  if (event.is_object() && event.contains("counts")) return event;
  return Error{ErrorKind::Unavailable, 0,
               "the running coordinator has another version; stop it with `pergpu coordinator "
               "stop` (jobs keep running)"};
}

/// "12 done, 2 failed", what is open first.
std::string counts_text(const json& counts) {
  std::string text;
  for (const char* state : {"running", "starting", "stopping", "queued", "held", "done", "failed",
                            "timeout", "lost", "cancelled", "skipped"}) {
    const std::int64_t count = counts.value(state, std::int64_t{0});
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  }
  return text.empty() ? "no jobs" : text;
}

std::string sweeps_text(const json& sweeps) {
  std::vector<SweepSummary> shown = sweeps.get<std::vector<SweepSummary>>();
  std::ranges::sort(shown, std::ranges::greater(), &SweepSummary::id);
  const std::size_t count = std::min(shown.size(), kSweepsShown);
  std::size_t width = 0;
  for (std::size_t i = 0; i < count; ++i) width = std::max(width, shown[i].name.size());
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += fmt::format("  {:<{}}  {}\n", view::safe_line(shown[i].name), width,
                        counts_text(json(shown[i].counts)));
  }
  if (shown.size() > count)
    text += fmt::format("  and older ones; `pergpu ps -a` lists all jobs\n");
  return text;
}

}  // namespace

int overview() {
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  Client client(std::move(*place), Client::Start::Never);
  const Result<json> event = look(client);
  if (!event && event.error().kind == ErrorKind::NotFound) {
    print(fmt::format("No coordinator is running, so no jobs are running.\n\n{}", kHints));
    return kOk;
  }
  if (!event) return fail(event.error());
  json open = event->value("counts", json::object());
  for (const char* state : {"done", "failed", "timeout", "lost", "cancelled", "skipped"}) {
    open.erase(state);
  }
  const std::string now = counts_text(open);
  print(fmt::format("{}\n{}\n{}", now == "no jobs" ? "nothing is queued or running" : now,
                    sweeps_text(event->value("sweeps", json::array())), kHints));
  return kOk;
}

}  // namespace pergpu::cli
