// `pergpu clean`: ended sweeps are forgotten, and with --results their folders removed.  Without
// --yes it only says what would go.
//
// The coordinator forgets first, and keeps the folders free of new submits while this process is
// connected.  Of a sweep's folder only what its runs own is touched: their folders are moved into
// one of their own in it, which is on the disk before the first file goes.  So whenever this
// process is killed, nothing lies half removed under the name that it had; what is left of it the
// next `clean --results --yes` removes.  Symlinks are removed or refused, never followed; what lies
// on another file system is left.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "coordinator/snapshot.h"
#include "os/file.h"
#include "spec/units.h"
#include "view/quantity.h"
#include "view/table.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct Options {
  Output output;
  std::vector<std::string> selectors;
  std::string older;
  bool results = false;
  bool yes = false;
};

struct Size {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  bool mounted = false;  // there is more, on another file system
};

void measure(const std::string& path, dev_t device, Size& size) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return;
  if (info.st_dev != device) {
    size.mounted = true;
    return;
  }
  if (!S_ISDIR(info.st_mode)) {
    ++size.files;
    size.bytes += static_cast<std::int64_t>(info.st_size);
    return;
  }
  const Result<std::vector<std::string>> names = os::list_dir(path);
  if (!names) return;
  for (const std::string& name : *names) measure(path + "/" + name, device, size);
}

/// nullopt: there is none.
std::optional<struct stat> look_at(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

std::string text_of(const json& object, const char* key) {
  return object.value(key, std::string());
}

/// Why the results of a sweep are not touched; "": nothing speaks against it.
std::string refusal(const json& sweep, const json& open) {
  const std::string folder = text_of(sweep, "folder");
  const std::optional<struct stat> info = look_at(folder);
  if (!info) return "";
  if (!S_ISDIR(info->st_mode)) {
    return folder +
           " is no folder but a link or a file, and is not followed: without --results "
           "only the history goes";
  }
  for (const json& other : open) {  // the same one under another name
    struct stat theirs = {};
    if (::stat(other.get<std::string>().c_str(), &theirs) != 0) continue;
    if (theirs.st_dev == info->st_dev && theirs.st_ino == info->st_ino) {
      return folder + " is the folder of a sweep that has not ended, too";
    }
  }
  return "";
}

Size measure_runs(const json& sweep) {
  Size size;
  const std::string folder = text_of(sweep, "folder");
  const std::optional<struct stat> info = look_at(folder);
  if (!info || !S_ISDIR(info->st_mode)) return size;
  for (const json& run : sweep.value("runs", json::array())) {
    measure(folder + "/" + run.get<std::string>(), info->st_dev, size);
  }
  return size;
}

/// What this process does with the files of sweeps that are forgotten.
class Removal {
 public:
  /// True: nothing of the sweep's results is there any more.
  bool remove(const json& sweep) {
    const std::string folder = text_of(sweep, "folder");
    const std::string aside = text_of(sweep, "aside");
    if (!look_at(folder)) return true;
    if (::mkdir(aside.c_str(), 0700) != 0 && errno != EEXIST) {
      return note(os_error("make " + aside).message);
    }
    bool all = true;
    for (const json& run : sweep.value("runs", json::array())) {
      const std::string name = run.get<std::string>();
      const std::string from = folder + "/" + name;
      const std::string to = aside + "/" + name;
      if (::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT) continue;
      all = note(os_error("move " + from + " to " + aside).message);
    }
    for (const std::string& changed : {aside, folder}) {
      if (Result<void> synced = os::sync_dir(changed); !synced) return note(synced.error().message);
    }
    if (!empty(aside)) return false;
    ::rmdir(folder.c_str());  // unless something else lies in it
    return all;
  }

  /// What was put aside, now or by a process that was killed.
  bool empty(const std::string& aside) {
    const std::optional<struct stat> info = look_at(aside);
    if (!info) return true;
    const std::size_t slash = aside.rfind('/') + 1;
    if (!S_ISDIR(info->st_mode) || aside.compare(slash, 9, ".cleaned-") != 0) {
      return note(aside + " is not what was put aside there, and stays");
    }
    Size size;
    measure(aside, info->st_dev, size);
    if (size.mounted) return note(aside + " has another file system in it, and stays");
    if (Result<void> removed = os::remove_tree(aside); !removed) {
      return note(removed.error().message);
    }
    files += size.files;
    bytes += size.bytes;
    return true;
  }

  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> problems;

 private:
  bool note(std::string problem) {
    problems.push_back(std::move(problem));
    return false;
  }
};

std::string counted(std::int64_t n, const char* one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

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
    const std::int64_t ended = from_rfc3339(text_of(sweep, "ended_at"));
    view::TableRow row = {{text_of(sweep, "sweep")},
                          {std::to_string(sweep.value("jobs", std::int64_t{0}))},
                          {view::date_and_time(ended, style.utc_offset_s)}};
    if (results) {
      row.push_back({std::to_string(sweep.value("files", std::int64_t{0}))});
      row.push_back({view::size_text(sweep.value("bytes", std::int64_t{0}))});
    }
    row.push_back({text_of(sweep, "folder")});
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

int clean(const Options& options) {
  std::int64_t older_s = 0;
  if (!options.older.empty()) {
    const Result<std::chrono::milliseconds> parsed = parse_duration(options.older);
    if (!parsed) return fail({ErrorKind::Invalid, 0, "--older: " + parsed.error().message});
    older_s = std::chrono::ceil<std::chrono::seconds>(*parsed).count();
  }
  if (options.selectors.empty() && older_s == 0) {
    return fail({ErrorKind::Invalid, 0, "name the sweeps, or say how old they are: --older 30d"});
  }
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  Client client(std::move(*place), Client::Start::IfNeeded);
  json request = {{"op", "clean"},
                  {"sel", options.selectors},
                  {"older_s", older_s},
                  {"results", options.results},
                  {"take", false}};
  Result<json> reply = client.call(request);
  if (!reply) return fail(reply.error());
  for (const json& sweep : reply->value("sweeps", json::array())) {
    const std::string why =
        options.results ? refusal(sweep, reply->value("open", json::array())) : std::string();
    if (!why.empty()) {
      return fail({ErrorKind::Invalid, 0, fmt::format("{}: {}", text_of(sweep, "sweep"), why)});
    }
  }

  json sweeps = json::array();
  Size all;
  Removal removal;
  if (options.yes) {
    request["take"] = true;
    reply = client.call(request);
    if (!reply) return fail(reply.error());
  }
  std::int64_t jobs = 0;
  for (const json& sweep : reply->value("sweeps", json::array())) {
    std::optional<Size> size;
    if (options.results) {
      size = measure_runs(sweep);
      all.files += size->files;
      all.bytes += size->bytes;
    }
    jobs += sweep.value("jobs", std::int64_t{0});
    sweeps.push_back(shown(sweep, size));
    if (!options.yes || !options.results) continue;
    const std::string why = refusal(sweep, reply->value("open", json::array()));
    if (!why.empty()) removal.problems.push_back(why);
    if (!why.empty() || !removal.remove(sweep)) continue;
    (void)client.call({{"op", "cleaned"}, {"sweep_id", sweep.value("id", std::int64_t{0})}});
  }
  if (options.yes && options.results) {
    for (const json& left : reply->value("aside", json::array())) {
      if (!removal.empty(text_of(left, "folder"))) continue;
      (void)client.call({{"op", "cleaned"}, {"sweep_id", left.value("id", std::int64_t{0})}});
    }
    all = {.files = removal.files, .bytes = removal.bytes};
  }

  const int code = removal.problems.empty() ? kOk : kSomeFailed;
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
    say(fmt::format("{} stays: {}", text_of(left, "sweep"), text_of(left, "why")));
  }
  for (const std::string& problem : removal.problems) say("pergpu: " + problem);
  const std::string size =
      fmt::format("{}, {}", counted(all.files, "file"), view::size_text(all.bytes));
  const std::string what =
      counted(static_cast<std::int64_t>(sweeps.size()), "sweep") + ", " + counted(jobs, "job");
  if (sweeps.empty() && all.files == 0) {
    say("nothing to clean");
  } else if (!options.yes && options.results) {
    say(fmt::format("{}, {}: nothing has been removed; --yes does it", what, size));
  } else if (!options.yes) {
    say(
        fmt::format("{}: nothing has been forgotten; --yes does it, and with --results their "
                    "folders go, too",
                    what));
  } else {
    say(fmt::format("forgot {}; {}", what,
                    options.results ? "removed " + size : "their results stay"));
  }
  return code;
}

}  // namespace

void add_clean(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("clean", "forget ended sweeps, and remove their results");
  add_selectors(*command, options->selectors);
  command->get_option("SEL")->description("whole sweeps, with *, or @ the last one");
  command->add_option("--older", options->older, "only what has ended so long ago: 30d, 12h");
  command->add_flag("--results", options->results, "remove their result folders, too");
  command->add_flag("--yes", options->yes, "do it; else only say what would go");
  add_output(*command, options->output);
  command->footer("Example:\n  pergpu clean --older 30d --results --yes");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return clean(*options); }; });
}

}  // namespace pergpu::cli
