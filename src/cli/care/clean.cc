// `pergpu clean`: ended sweeps are forgotten, and with --results their folders removed.  Without
// --yes it only says what would go.
//
// Of a sweep's folder only what its runs own is touched.  First, sweep by sweep, their folders are
// moved into a new one in it, and when that is on the disk the coordinator forgets the sweep.  It
// keeps the folders free of attempts and submits while this process is connected, so nothing is
// moved over any other connection.  When all are moved the files go.  So whenever this process is
// killed, nothing lies half removed under the name that it had: a sweep whose results were not all
// moved is still known, to be cleaned again; of one that is forgotten any later clean with
// --results and --yes removes what is left.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/snapshot.h"
#include "cli/care/code_removal.h"
#include "cli/care/result_removal.h"
#include "cli/client/client.h"
#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "os/fs/file.h"
#include "plural.h"
#include "spec/text/units.h"
#include "view/text/quantity.h"
#include "view/text/table.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct CleanOptions {
  Output output;
  std::vector<std::string> selectors;
  std::string older;
  bool results = false;
  bool yes = false;
};

std::string field_text(const json& object, const char* key) {
  return object.value(key, std::string());
}

std::vector<std::string> others_of(const json& reply) {
  return reply.value("others", std::vector<std::string>());
}

/// As it stands before anything has happened: nothing will.
int refuse(const std::string& sweep, const Error& why) {
  // A folder that can't be read isn't a mistake of the user: exit code 1.
  const ErrorKind kind = why.kind == ErrorKind::Invalid ? ErrorKind::Invalid : ErrorKind::Io;
  return fail({kind, why.os_errno, sweep + ": " + why.message});
}

/// What may not go although the coordinator knows nothing against it.
Result<void> check(const SweepResults& one, bool results, const OtherFolders& others) {
  if (results) return check_folder(one, others);
  struct stat info = {};
  if (::lstat(one.aside.c_str(), &info) != 0) return {};  // its results stay, wherever they are
  return Error{ErrorKind::Invalid, 0,
               "an interrupted `clean` has moved some of its results to " + one.aside +
                   ": --results removes them"};
}

/// Whether an attempt that is running by its record is of the sweep: then it has ended, and its
/// record was not written, or not yet.
bool is_of(Client& client, const SweepResults& one, const json& record) {
  const std::int64_t job = record.value("job", json()).is_number_integer()
                               ? record["job"].get<std::int64_t>()
                               : std::int64_t{0};
  if (job < 1) return false;
  const Result<json> reply =
      client.call_unbroken({{"op", "show"}, {"sel", json::array({std::to_string(job)})}});
  if (!reply || reply->value("jobs", json::array()).size() != 1) return false;
  const json& known = (*reply)["jobs"][0];
  const json last = known.value("last_attempt", json::object());
  return known.value("sweep_id", std::int64_t{0}) == one.id &&
         last.value("number", json()) == record.value("attempt", json(0)) &&
         last.value("starting_at", json()) == record.value("starting_at", json(0));
}

/// Removes the results of sweeps whose folders the coordinator keeps free of submits while the
/// connection of `client` lives.
class Removal {
 public:
  Removal(Client& client, std::string home) : client_(client), home_(std::move(home)) {}

  /// Puts the results of a sweep aside, whereupon it is forgotten.  Kind Unavailable: nothing more
  /// may be moved.
  Result<void> take(const SweepResults& one, const OtherFolders& others) {
    Result<void> may = check_folder(one, others);
    if (may) may = check_attempts(one, [&](const json& r) { return is_of(client_, one, r); });
    if (!may) return may;
    // To look at all that may have taken long.
    if (Result<void> there = ask({{"op", "moving"}, {"sweep_id", one.id}}); !there) return there;
    const CodeRemoval code(home_, one.folder, os::name_of(one.aside));
    bool is_back = true;
    Result<void> moved = code.put_aside();
    if (moved) moved = put_aside(one, is_back);
    if (!moved) {
      if (is_back) code.put_back();
      if (is_back) (void)ask({{"op", "cleaned"}, {"sweep_id", one.id}});
      return Error{ErrorKind::Io, moved.error().os_errno, moved.error().message};
    }
    Result<void> told = ask({{"op", "moved"}, {"sweep_id", one.id}});
    if (told) return {};
    return Error{
        ErrorKind::Unavailable, 0,
        fmt::format(
            "{}; its results are in {}: run `clean` again, with the sweep's name if you know it",
            told.error().message, one.aside)};
  }

  /// What lies aside of a sweep that is forgotten.  `folder`: the sweep's, which goes if nothing
  /// else is in it and it is still protected; "": it is not.
  void finish(std::int64_t id, const std::string& aside, const std::string& folder) {
    Result<void> removed = remove_aside(aside, size);
    if (removed)
      removed = CodeRemoval(home_, os::parent_of(aside), os::name_of(aside)).remove_aside();
    if (!removed) {
      problems.push_back(removed.error().message);
      return;
    }
    if (!folder.empty() && !is_broken_ && ask({{"op", "status"}})) remove_empty_folder(folder);
    const json done = {{"op", "cleaned"}, {"sweep_id", id}};
    if (!is_broken_ && ask(done)) return;
    if (const Result<json> told = client_.call(done); !told) {
      problems.push_back(told.error().message);
    }
  }

  Size size = {};
  std::vector<std::string> problems = {};

 private:
  /// Of the coordinator that protects the folders.
  Result<void> ask(const json& request) {
    const Result<json> reply = client_.call_unbroken(request);
    if (reply) return {};
    is_broken_ = true;
    return Error{ErrorKind::Unavailable, 0, reply.error().message};
  }

  Client& client_;
  std::string home_;
  bool is_broken_ = false;
};

std::string table_of(const json& sweeps, bool results, const view::Style& style) {
  std::vector<view::Column> columns = {
      {.title = "SWEEP", .least = 8}, {.title = "JOBS", .right = true}, {.title = "ENDED"}};
  if (results) {
    columns.push_back({.title = "FILES", .right = true});
    columns.push_back({.title = "SIZE", .right = true});
  }
  columns.push_back({.title = "FOLDER", .least = 20});
  std::vector<view::TableRow> rows;
  for (const json& sweep : sweeps) {
    const std::int64_t ended = from_rfc3339(field_text(sweep, "ended_at"));
    view::TableRow row = {{field_text(sweep, "sweep")},
                          {std::to_string(sweep.value("jobs", std::int64_t{0}))},
                          {view::date_and_time(ended, style.utc_offset_s)}};
    if (results) {
      row.push_back({std::to_string(sweep.value("files", std::int64_t{0}))});
      row.push_back({view::size_text(sweep.value("bytes", std::int64_t{0}))});
    }
    row.push_back({field_text(sweep, "folder")});
    rows.push_back(std::move(row));
  }
  return view::render_table(columns, rows, style);
}

/// What is printed of a sweep, without what only the removal needs.
json shown(const json& sweep, const std::optional<Size>& size) {
  json out = sweep;
  out.erase("runs");
  out.erase("aside");
  out["files"] = size ? json(size->files) : json();
  out["bytes"] = size ? json(size->bytes) : json();
  return out;
}

int clean(const CleanOptions& options) {
  std::int64_t older_s = 0;
  if (!options.older.empty()) {
    const Result<std::chrono::milliseconds> parsed = parse_duration(options.older);
    if (!parsed) return fail({ErrorKind::Invalid, 0, "--older: " + parsed.error().message});
    older_s = std::chrono::ceil<std::chrono::seconds>(*parsed).count();
  }
  std::vector<std::string> selectors = options.selectors;
  // Of any age: that is all of them, as with `*`.
  if (selectors.empty() && !options.older.empty() && older_s == 0) selectors.emplace_back("*");
  if (selectors.empty() && older_s == 0) {
    return fail({ErrorKind::Invalid, 0, "name the sweeps, or their age: --older 30d"});
  }
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  const std::string home = place->home;
  Client client(std::move(*place), Client::Start::IfNeeded);
  json request = {{"op", "clean"},
                  {"sel", selectors},
                  {"older_s", older_s},
                  {"results", options.results},
                  {"take", false}};
  Result<json> reply = client.call(request);
  if (!reply) return fail(reply.error());
  const OtherFolders others(others_of(*reply));
  for (const json& sweep : reply->value("sweeps", json::array())) {
    const SweepResults one = results_of(sweep);
    if (Result<void> may = check(one, options.results, others); !may) {
      return refuse(one.sweep, may.error());
    }
  }

  if (options.yes) {
    request["take"] = true;
    // Protecting folders twice does no harm; what was forgotten is named by nothing any more.
    reply = options.results ? client.call(request) : client.call_unbroken(request);
    if (!reply) return fail(reply.error());
  }
  const OtherFolders others_now(others_of(*reply));
  Removal removal(client, home);
  Size all;
  std::int64_t jobs = 0;
  json sweeps = json::array();
  std::vector<SweepResults> moved;
  for (const json& sweep : reply->value("sweeps", json::array())) {
    const SweepResults one = results_of(sweep);
    std::optional<Size> size;
    if (options.results) {
      size = measure_results(one);
      const Result<void> may =
          options.yes ? removal.take(one, others_now)
                      : check_attempts(one, [&](const json& r) { return is_of(client, one, r); });
      if (!may) removal.problems.push_back(one.sweep + ": " + may.error().message);
      if (!may && may.error().kind == ErrorKind::Unavailable) break;
      if (!may) continue;
      all.files += size->files;
      all.bytes += size->bytes;
      moved.push_back(one);
    }
    if (options.yes && !options.results) {
      const Result<void> removed = CodeRemoval(home, one.folder, os::name_of(one.aside)).remove();
      if (!removed) removal.problems.push_back(removed.error().message);
    }
    jobs += sweep.value("jobs", std::int64_t{0});
    sweeps.push_back(shown(sweep, size));
  }
  if (options.yes && options.results) {
    for (const SweepResults& one : moved) removal.finish(one.id, one.aside, one.folder);
    for (const json& left : reply->value("aside", json::array())) {  // by earlier ones
      removal.finish(left.value("id", std::int64_t{0}), field_text(left, "folder"), "");
    }
    all = removal.size;
  }

  const bool was_left = options.yes && !reply->value("left", json::array()).empty();
  const int code = removal.problems.empty() && !was_left ? kOk : kSomeFailed;
  if (options.output.json) {
    print(output_line({{"schema", 1},
                       {"done", options.yes},
                       {"sweeps", sweeps},
                       {"left", reply->value("left", json::array())},
                       {"files", all.files},
                       {"bytes", all.bytes},
                       {"problems", removal.problems}}));
    return code;
  }
  if (!sweeps.empty()) {
    print(table_of(sweeps, options.results, style_of(STDOUT_FILENO, options.output.colour)));
  }
  for (const json& left : reply->value("left", json::array())) {
    say(fmt::format("{} stays: {}", field_text(left, "sweep"), field_text(left, "why")));
  }
  for (const std::string& problem : removal.problems) say("pergpu: " + problem);
  const std::string size =
      fmt::format("{}, {}", counted(all.files, "file"), view::size_text(all.bytes));
  const std::string what = counted(sweeps.size(), "sweep") + ", " + counted(jobs, "job");
  if (sweeps.empty() && all.files == 0) {
    say("nothing to clean");
  } else if (!options.yes && options.results) {
    say(fmt::format("dry run: {}, {}; pass --yes to delete them", what, size));
  } else if (!options.yes) {
    say(fmt::format(
        "dry run: {}; pass --yes to forget them, and --results to delete their folders too", what));
  } else {
    say(fmt::format("forgot {}; {}", what,
                    options.results ? "removed " + size : "their results stay"));
  }
  return code;
}

}  // namespace

void add_clean(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<CleanOptions>();
  CLI::App* command = program.add_subcommand(
      "clean", "forget ended sweeps and, with --results, delete their folders");
  add_selectors(*command, options->selectors);
  command->get_option("SEL")->description(
      "whole sweeps: a name, a pattern with *, or @ for the last one");
  command->add_option("--older", options->older,
                      "only sweeps that ended at least this long ago: 30d, 12h");
  command->add_flag("--results", options->results, "delete their result folders too");
  command->add_flag("--yes", options->yes, "delete; without it, only show what would be deleted");
  add_output(*command, options->output);
  command->footer("Example:\n  pergpu clean --older 30d --results --yes");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return clean(*options); }; });
}

}  // namespace pergpu::cli
