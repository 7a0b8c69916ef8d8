// `pergpu store check | backup FILE`: care of the file that remembers everything.
//
// The store is its coordinator's alone.  Where one runs, it makes the copy beside its commits, and
// a check looks at such a copy, which holds each page as it is.  Where none runs, the home's lock
// keeps one from starting meanwhile, and nothing of the store is changed, not even its version.
#include "cli/store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/exit_code.h"
#include "coordinator/world.h"
#include "os/file.h"
#include "os/lock.h"
#include "store/backup.h"
#include "store/check.h"
#include "store/schema.h"
#include "view/escape.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// The home's store, and who has it.
struct Found {
  std::string path;
  std::string home;
  std::optional<os::FileLock> lock;  // none: a coordinator runs
};

Result<Found> find_store() {
  Result<Place> place = find_place();
  if (!place) return std::move(place).error();
  Found found{.path = place->home + "/pergpu.db", .home = place->home, .lock = {}};
  if (!os::exists(found.path) && !os::exists(found.path + "-wal")) {
    return Error{ErrorKind::NotFound, 0, "there is no store yet: " + found.path};
  }
  Result<os::FileLock> lock = os::FileLock::try_lock(place->home + "/coordinator.lock");
  if (lock) {
    found.lock = *std::move(lock);
  } else if (lock.error().kind != ErrorKind::Busy) {
    return std::move(lock).error();
  }
  return found;
}

Result<std::int64_t> copy_to(const Found& found, const std::string& file) {
  if (!found.lock) {
    Result<json> reply = ask({{"op", "backup"}, {"file", file}});
    if (!reply) return std::move(reply).error();
    return reply->value("bytes", std::int64_t{0});
  }
  constexpr int kPages = 4'096;
  const store::LogOfReading log(found.path);
  Result<store::LockedFile> source = store::lock_store_file(found.path);
  if (!source) return std::move(source).error();
  Result<store::Backup> copy = store::Backup::begin(source->database, file);
  if (!copy) return std::move(copy).error();
  while (true) {
    Result<bool> complete = copy->step(kPages);
    if (!complete) return std::move(complete).error();
    if (*complete) return copy->bytes();
  }
}

int backup(const std::string& name, bool as_json) {
  std::error_code none;
  const std::string file = std::filesystem::absolute(name, none).string();
  if (none) return fail({ErrorKind::Io, none.value(), name + ": " + none.message()});
  const Result<Found> found = find_store();
  if (!found) return fail(found.error());
  const Result<std::int64_t> bytes = copy_to(*found, file);
  if (!bytes) return fail(bytes.error());
  if (as_json) {
    print(to_line({{"schema", 1}, {"file", file}, {"bytes", *bytes}}) + "\n");
  } else {
    say(fmt::format("{} is a copy of {} ({} bytes)", file, found->path, *bytes));
  }
  return kOk;
}

/// A copy to look at, gone with this object.
class Copy {
 public:
  explicit Copy(std::string path) : path_(std::move(path)) {}
  ~Copy() { ::unlink(path_.c_str()); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

int check(bool as_json) {
  const Result<Found> found = find_store();
  if (!found) return fail(found.error());
  std::optional<Copy> copy;
  if (!found->lock) {
    copy.emplace(fmt::format("{}/check-{}.db", found->home, ::getpid()));
    const Result<std::int64_t> copied = copy_to(*found, copy->path());
    if (!copied) return fail(copied.error());
  }
  const std::string& path = copy ? copy->path() : found->path;
  World world;
  Result<store::CheckReport> report =
      store::check(path, [&](const Row& row) { return world.absorb(row); });
  if (!report) return fail(report.error());
  for (std::string& problem : report->problems) replace_all(problem, path, found->path);

  const bool fine = report->problems.empty();
  if (as_json) {
    print(to_line({{"schema", 1},
                   {"store", found->path},
                   {"fine", fine},
                   {"version", report->version},
                   {"sweeps", report->sweeps},
                   {"runs", report->runs},
                   {"jobs", report->jobs},
                   {"events", report->events},
                   {"problems", report->problems}}) +
          "\n");
  } else if (fine) {
    print(fmt::format("{}: fine ({} sweeps, {} runs, {} jobs, {} events, schema version {})\n",
                      view::safe_line(found->path), report->sweeps, report->runs, report->jobs,
                      report->events, report->version));
  } else {
    for (const std::string& problem : report->problems) print(view::safe_line(problem) + "\n");
  }
  if (fine) return kOk;
  say(
      fmt::format("{0} is damaged; the way out: `pergpu coordinator stop --kill`, move {0} and "
                  "{0}-wal away, both, put a backup in its place, or begin anew",
                  found->path));
  return kSomeFailed;
}

}  // namespace

void add_store(CLI::App& program, Invocation& invocation) {
  CLI::App* command = program.add_subcommand("store", "the file that remembers everything");
  command->require_subcommand(1);
  command->footer("Example:\n  pergpu store backup pergpu-backup.db");

  auto as_json = std::make_shared<bool>(false);
  CLI::App* check_command =
      command->add_subcommand("check", "read all of it; exit code 1 when it is damaged");
  check_command->add_flag("--json", *as_json, "one JSON value on stdout");
  check_command->footer("Example:\n  pergpu store check");
  check_command->callback(
      [as_json, &invocation] { invocation.action = [as_json] { return check(*as_json); }; });

  auto file = std::make_shared<std::string>();
  CLI::App* backup_command =
      command->add_subcommand("backup", "copy it, also while jobs run; overwrites nothing");
  backup_command->add_option("FILE", *file, "the copy; without the environments of sweeps")
      ->required();
  backup_command->add_flag("--json", *as_json, "one JSON value on stdout");
  backup_command->footer("Example:\n  pergpu store backup pergpu-backup.db");
  backup_command->callback([file, as_json, &invocation] {
    invocation.action = [file, as_json] { return backup(*file, *as_json); };
  });
}

}  // namespace pergpu::cli
