// `pergpu store check | backup FILE`: care of the file that remembers everything.
//
// The store is its coordinator's alone.  Where one runs, it makes a copy in the home beside its
// commits, which holds each page as it is; a check looks at that copy, and a backup moves it to
// FILE, so that a disk that hangs holds up only the command.  Where none runs, the home's
// lock keeps one from starting meanwhile, and nothing of the store is changed, not even its
// version.  Neither command starts a coordinator: that might bring the store to a new version.
#include "cli/care/store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/care/leftovers.h"
#include "cli/command/path_option.h"
#include "cli/term/exit_code.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/lock.h"
#include "os/fs/new_name.h"
#include "state/world.h"
#include "store/backup.h"
#include "store/check.h"
#include "store/copies.h"
#include "store/schema.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// The home's store, and this command's turn at it.
struct Found {
  Place place;
  std::string path;
  std::string note;   // who we are
  os::FileLock turn;  // one `pergpu store` at a time
};

/// The store, or a copy that its coordinator made of it.
struct Source {
  std::string path;
  os::FileLock lock;  // none: it is a copy
};

/// The copies in a home are gone with this object.  REQUIRES: it is our turn.
class CopiesOf {
 public:
  explicit CopiesOf(std::string home) : home_(std::move(home)) { store::remove_copies(home_); }
  ~CopiesOf() { store::remove_copies(home_); }
  CopiesOf(const CopiesOf&) = delete;
  CopiesOf& operator=(const CopiesOf&) = delete;

 private:
  std::string home_;
};

Error taken(Error error) {
  if (error.kind == ErrorKind::Busy) error.kind = ErrorKind::Unavailable;
  return error;
}

Result<Found> find_store(const std::string& command) {
  Result<Place> place = find_place();
  if (!place) return std::move(place).error();
  Found found{.place = *std::move(place), .path = {}, .note = {}, .turn = {}};
  found.path = found.place.home + "/pergpu.db";
  found.note = fmt::format("`pergpu store {}` (process {})", command, ::getpid());
  if (!os::exists(found.path) && !os::exists(found.path + "-wal")) {
    return Error{ErrorKind::NotFound, 0, "no store yet: " + found.path};
  }
  Result<os::FileLock> turn = store::lock_copies(found.place.home, found.note);
  if (!turn) return taken(std::move(turn).error());
  found.turn = *std::move(turn);
  return found;
}

std::string next_copy(const Found& found) {
  std::string copy = store::next_copy(found.place.home);
  remove_when_interrupted(copy);
  remove_when_interrupted(os::draft_of(copy));
  return copy;
}

/// ErrorKind::NotFound: no coordinator answers; Io: it ended and left the copy in an unknown state.
Result<std::string> copy_of_coordinator(const Found& found) {
  Result<Connection> connection = Client(found.place, Client::Start::Never).connect();
  if (!connection) return std::move(connection).error();
  std::string copy = next_copy(found);
  Result<void> sent = connection->send(to_line({{"op", "backup"}, {"file", copy}}) + "\n");
  if (!sent) return std::move(sent).error();
  const Result<std::string> line = connection->read_line(std::nullopt);
  if (!line) return line.error();
  const Result<json> reply = unwrap_reply(*line);
  if (reply) return copy;
  return Error{ErrorKind::Unavailable, 0, reply.error().message};
}

/// Who has the lock and does not answer is starting or leaving: it is waited for.
Result<Source> reach(const Found& found) {
  constexpr std::int64_t kPatienceNs = 10'000'000'000;
  constexpr int kPauseMs = 10;
  const std::int64_t end = os::boot_now_ns() + kPatienceNs;
  for (;;) {
    Result<os::FileLock> lock =
        os::FileLock::try_lock(found.place.home + "/coordinator.lock", found.note);
    if (lock) return Source{.path = found.path, .lock = *std::move(lock)};
    if (lock.error().kind != ErrorKind::Busy) return std::move(lock).error();
    Result<std::string> copy = copy_of_coordinator(found);
    if (copy) return Source{.path = *std::move(copy), .lock = {}};
    const ErrorKind kind = copy.error().kind;
    if (kind != ErrorKind::NotFound && kind != ErrorKind::Io) return std::move(copy).error();
    if (os::boot_now_ns() > end) {
      return kind == ErrorKind::Io ? std::move(copy).error() : taken(std::move(lock).error());
    }
    ::poll(nullptr, 0, kPauseMs);
  }
}

/// The path of a copy in the home.
Result<std::string> copy_home(const Found& found) {
  Result<Source> source = reach(found);
  if (!source) return std::move(source).error();
  if (!source->lock) return std::move(source->path);
  constexpr int kPages = 4'096;
  std::string file = next_copy(found);
  const store::LogOfReading log(source->path);
  Result<store::LockedFile> store = store::lock_store_file(source->path);
  if (!store) return std::move(store).error();
  Result<store::Backup> copy = store::Backup::begin(store->database, file);
  if (!copy) return std::move(copy).error();
  while (true) {
    Result<bool> complete = copy->step(kPages);
    if (!complete) return std::move(complete).error();
    if (*complete) return file;
  }
}

/// The size of the copy.
Result<std::int64_t> back_up(const Found& found, const std::string& file) {
  struct stat info = {};
  if (::lstat(file.c_str(), &info) == 0) return store::backup_exists(file);
  const CopiesOf cleared(found.place.home);
  Result<std::string> copy = copy_home(found);
  if (!copy) return std::move(copy).error();
  if (::stat(copy->c_str(), &info) != 0) return os_error("stat " + *copy);
  remove_when_interrupted(os::draft_of(file));
  Result<void> moved = os::move_to_new(*copy, file);
  if (moved) return info.st_size;
  return moved.error().os_errno == EEXIST ? store::backup_exists(file) : std::move(moved).error();
}

int backup(const std::string& name, bool as_json) {
  std::error_code none;
  const std::string file = std::filesystem::absolute(name, none).string();
  if (none) return fail({ErrorKind::Io, none.value(), name + ": " + none.message()});
  if (!os::is_directory(os::parent_of(file))) {
    return fail({ErrorKind::Io, 0, "can't write " + name + ": no folder " + os::parent_of(file)});
  }
  const Result<Found> found = find_store("backup");
  if (!found) return fail(found.error());
  const Result<std::int64_t> bytes = back_up(*found, file);
  if (!bytes) return fail(bytes.error());
  if (as_json) {
    print(output_line({{"schema", 1}, {"file", file}, {"bytes", *bytes}}));
  } else {
    say(fmt::format("{} is a copy of {} ({} bytes)", file, found->path, *bytes));
  }
  return kOk;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

int check(bool as_json) {
  const Result<Found> found = find_store("check");
  if (!found) return fail(found.error());
  const CopiesOf cleared(found->place.home);
  const Result<Source> source = reach(*found);
  if (!source) return fail(source.error());
  World world;
  Result<store::CheckReport> report =
      store::check(source->path, [&](const Row& row) { return world.absorb(row); });
  if (!report) return fail(report.error());
  const Result<void> whole = world.check_whole();
  if (report->problems.empty() && !whole) report->problems.push_back(whole.error().message);
  for (std::string& problem : report->problems) replace_all(problem, source->path, found->path);

  const bool fine = report->problems.empty();
  if (as_json) {
    print(output_line({{"schema", 1},
                       {"store", found->path},
                       {"fine", fine},
                       {"version", report->version},
                       {"sweeps", report->sweeps},
                       {"runs", report->runs},
                       {"jobs", report->jobs},
                       {"events", report->events},
                       {"problems", report->problems}}));
  } else if (fine) {
    print(fmt::format("{}: fine ({} sweeps, {} runs, {} jobs, {} events, schema version {})\n",
                      view::safe_line(found->path), report->sweeps, report->runs, report->jobs,
                      report->events, report->version));
  } else {
    for (const std::string& problem : report->problems) print(view::safe_line(problem) + "\n");
  }
  if (fine) return kOk;
  say(
      fmt::format("{0} is damaged. To recover: run `pergpu coordinator stop --kill`, move both {0} "
                  "and {0}-wal away, then restore a backup or start with an empty store",
                  found->path));
  return kSomeFailed;
}

}  // namespace

void add_store(CLI::App& program, Invocation& invocation) {
  CLI::App* command =
      program.add_subcommand("store", "check or back up the file with the queue and history");
  command->require_subcommand(1);
  command->footer("Example:\n  pergpu store backup pergpu-backup.db");

  auto as_json = std::make_shared<bool>(false);
  CLI::App* check_command =
      command->add_subcommand("check", "read the whole store; exit code 1 if it is damaged");
  check_command->add_flag("--json", *as_json, "print one JSON value to stdout");
  check_command->footer("Example:\n  pergpu store check");
  check_command->callback(
      [as_json, &invocation] { invocation.action = [as_json] { return check(*as_json); }; });

  auto file = std::make_shared<std::string>();
  CLI::App* backup_command =
      command->add_subcommand("backup", "copy the store, also while jobs run; overwrites no file");
  backup_command
      ->add_option("FILE", *file, "the new file; it doesn't contain the environments of sweeps")
      ->required()
      ->transform(path_option());
  backup_command->add_flag("--json", *as_json, "print one JSON value to stdout");
  backup_command->footer("Example:\n  pergpu store backup pergpu-backup.db");
  backup_command->callback([file, as_json, &invocation] {
    invocation.action = [file, as_json] { return backup(*file, *as_json); };
  });
}

}  // namespace pergpu::cli
