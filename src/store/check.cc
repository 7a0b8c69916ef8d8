// The store is locked while it is checked, so a coordinator that starts meanwhile says that it is
// in use rather than to write to it.
#include "store/check.h"

#include <fmt/format.h>

#include "store/migrations.h"
#include "store/reader.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace pergpu::store {
namespace {

constexpr std::size_t kMostProblems = 100;

class Problems {
 public:
  explicit Problems(std::vector<std::string>& list) : list_(list) {}
  void add(std::string problem) {
    if (list_.size() < kMostProblems) list_.push_back(std::move(problem));
  }
  bool full() const { return list_.size() >= kMostProblems; }

 private:
  std::vector<std::string>& list_;
};

void check_pages(Database& database, Problems& problems) {
  Result<Statement> check =
      database.prepare(fmt::format("PRAGMA integrity_check({})", kMostProblems));
  if (!check) return problems.add(check.error().message);
  while (true) {
    Result<bool> row = check->step();
    if (!row) return problems.add(row.error().message);
    if (!*row) return;
    if (check->text(0) != "ok") problems.add(std::string(check->text(0)));
  }
}

/// Rows that refer to a row that is not there.
void check_references(Database& database, Problems& problems) {
  Result<Statement> check = database.prepare("PRAGMA foreign_key_check");
  if (!check) return problems.add(check.error().message);
  while (!problems.full()) {
    Result<bool> row = check->step();
    if (!row) return problems.add(row.error().message);
    if (!*row) return;
    problems.add(fmt::format("table {}, row {}: refers to a row of {} that does not exist",
                             check->text(0), check->integer(1), check->text(2)));
  }
}

void count(const Row& row, CheckReport& report) {
  if (std::holds_alternative<row::Sweep>(row)) ++report.sweeps;
  if (std::holds_alternative<row::Run>(row)) ++report.runs;
  if (std::holds_alternative<row::NewJob>(row)) ++report.jobs;
  if (std::holds_alternative<row::Event>(row)) ++report.events;
}

Error newer(const std::string& path, std::int64_t version) {
  return Error{ErrorKind::Unavailable, 0,
               fmt::format("{} was written by a newer pergpu (its schema is version {}, this one "
                           "supports up to {}): check it with that version",
                           path, version, kSchemaVersion)};
}

}  // namespace

Result<CheckReport> check(const std::string& path,
                          const std::function<Result<void>(const Row&)>& visit) {
  CheckReport report;
  Problems problems(report.problems);
  const Result<std::int64_t> version = version_in_header(path);
  if (version && *version > kSchemaVersion) return newer(path, *version);
  if (!version && version.error().kind != ErrorKind::Corrupt) return version.error();
  const LogOfReading log(path);
  Result<LockedFile> file = lock_store_file(path);
  if (!file && file.error().kind != ErrorKind::Corrupt) return std::move(file).error();
  if (!file) {
    problems.add(file.error().message);
    return report;
  }
  if (file->version > kSchemaVersion) return newer(path, file->version);
  report.version = file->version;
  check_pages(file->database, problems);
  check_references(file->database, problems);
  // An older one is read as it would be brought to this version; nothing of that is kept.
  Result<void> read = begin_migration(file->database, file->version);
  if (!read && read.error().kind != ErrorKind::Corrupt) return std::move(read).error();
  if (read) {
    read = read_rows(file->database, Reach::All, [&](const Row& row) -> Result<void> {
      count(row, report);
      Result<void> taken = visit(row);
      if (!taken) problems.add(taken.error().message);
      return {};  // the next one may have its own
    });
  }
  if (!read) problems.add(read.error().message);
  return report;
}

}  // namespace pergpu::store
