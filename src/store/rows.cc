// Sweeps, limits and meta are upserts (a REPLACE would delete the old row and with it what refers
// to it); runs, jobs and events are inserted once and never changed.  Of usage the newest rows are
// kept.
//
// A submit of a million jobs is two million rows: where many runs or many jobs of a sweep follow
// each other, one statement takes several, which halves the time.
#include "store/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "store/event_json.h"
#include "store/row_sum.h"

namespace pergpu::store {
namespace {

std::string describe(const Row& row) {
  return std::visit(
      Overloaded{
          [](const row::Sweep& r) { return fmt::format("sweep {} ({})", r.id.value, r.name); },
          [](const row::Run& r) {
            return fmt::format("run {} of sweep {}", r.index, r.sweep.value);
          },
          [](const row::NewJob& r) { return fmt::format("job {}", r.id.value); },
          [](const row::Event& r) {
            return fmt::format("event `{}` of job {}", event_name(r.event), r.job.value);
          },
          [](const row::Limit& r) { return fmt::format("limit {} = {}", r.name, r.value); },
          [](const row::Meta& r) { return fmt::format("meta {}", r.key); },
          [](const row::Archived& r) {
            return fmt::format("that sweep {} is archived", r.sweep.value);
          },
          [](const row::Environment& r) {
            return fmt::format("the environment of sweep {}", r.sweep.value);
          },
          [](const row::Usage& r) {
            return fmt::format("usage of attempt {}.{}", r.job.value, r.attempt);
          }},
      row);
}

constexpr std::size_t kAtOnce = 32;  // more gains nothing, and a statement of them takes memory

constexpr std::string_view kInsertRun =
    "INSERT INTO runs (sweep, number, folder, json, texts) VALUES ";
constexpr int kRunColumns = 5;
constexpr std::string_view kInsertJob =
    "INSERT INTO jobs (id, sweep, run, step, step_name, identity, replaces, at_wall, at_boot) "
    "VALUES ";
constexpr int kJobColumns = 9;

/// "(?, ?), (?, ?)": 2 rows of 2 columns.
std::string places(std::size_t rows, int columns) {
  std::string row = "(?";
  for (int column = 1; column < columns; ++column) row += ", ?";
  row += ")";
  std::string all = row;
  for (std::size_t i = 1; i < rows; ++i) all += ", " + row;
  return all;
}

/// To the parameters of the `at`-th row.
void bind(Statement& statement, int at, const row::Run& r) {
  const int before = at * kRunColumns;
  statement.bind(before + 1, r.sweep.value);
  statement.bind(before + 2, r.index);
  statement.bind(before + 3, r.folder);
  statement.bind(before + 4, r.json);
  statement.bind(before + 5, r.texts);
}

void bind(Statement& statement, int at, const row::NewJob& r) {
  const int before = at * kJobColumns;
  statement.bind(before + 1, r.id.value);
  statement.bind(before + 2, r.sweep.value);
  statement.bind(before + 3, r.run);
  statement.bind(before + 4, r.step);
  statement.bind(before + 5, r.step_name);
  statement.bind_blob(before + 6, r.identity);
  statement.bind(before + 7, r.replaces.value);
  statement.bind(before + 8, r.at.wall_ns);
  statement.bind(before + 9, r.at.boot_ns);
}

/// Whether the first kAtOnce rows are all R, of one sweep.
template <typename R>
bool are_many(std::span<const Row> rows) {
  const R* first = rows.empty() ? nullptr : std::get_if<R>(&rows.front());
  if (first == nullptr || rows.size() < kAtOnce) return false;
  return std::ranges::all_of(rows.first(kAtOnce), [&](const Row& row) {
    const R* other = std::get_if<R>(&row);
    return other != nullptr && other->sweep == first->sweep;
  });
}

}  // namespace

Result<RowWriter> RowWriter::prepare(Database& database) {
  RowWriter writer;
  writer.environments_ = EnvironmentFiles(database.path());
  struct Use {
    Statement RowWriter::*member;
    std::string sql;
  };
  const Use uses[] = {
      {&RowWriter::sweep_,
       "INSERT INTO sweeps (id, root, name, spec, submit, at_wall, at_boot) "
       "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET root = ?2, name = ?3, "
       "spec = ?4, submit = ?5, at_wall = ?6, at_boot = ?7"},
      {&RowWriter::run_, std::string(kInsertRun) + places(1, kRunColumns)},
      {&RowWriter::runs_, std::string(kInsertRun) + places(kAtOnce, kRunColumns)},
      {&RowWriter::job_, std::string(kInsertJob) + places(1, kJobColumns)},
      {&RowWriter::jobs_, std::string(kInsertJob) + places(kAtOnce, kJobColumns)},
      {&RowWriter::event_,
       "INSERT INTO events (job, at_wall, at_boot, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)"},
      {&RowWriter::limit_,
       "INSERT INTO limits (name, value) VALUES (?1, ?2) "
       "ON CONFLICT (name) DO UPDATE SET value = ?2"},
      {&RowWriter::meta_,
       "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2"},
      {&RowWriter::archived_,
       "INSERT INTO archive (sweep, key, first_job, last_job, jobs) VALUES (?1, ?2, ?3, ?4, ?5) "
       "ON CONFLICT (sweep) DO UPDATE SET key = ?2, first_job = ?3, last_job = ?4, jobs = ?5"},
      {&RowWriter::brought_back_, "DELETE FROM archive WHERE sweep = ?1"},
      {&RowWriter::usage_,
       "INSERT INTO usage (job, attempt, at_wall, at_boot, minutes) SELECT ?1, ?2, ?3, ?4, ?5 "
       "WHERE NOT EXISTS (SELECT 1 FROM usage WHERE job = ?1 AND attempt = ?2 AND at_wall = ?3 "
       "AND minutes = ?5)"},
      {&RowWriter::old_usage_, "DELETE FROM usage WHERE id <= (SELECT max(id) FROM usage) - ?1"},
  };
  for (const Use& use : uses) {
    Result<Statement> statement = database.prepare(use.sql);
    if (!statement) return std::move(statement).error();
    writer.*use.member = *std::move(statement);
  }
  return writer;
}

Result<void> RowWriter::write(const Batch& batch) {
  back_ = {};
  for (std::span<const Row> rows = batch; !rows.empty();) {
    Result<std::size_t> written = write_next(rows);
    if (!written) return std::move(written).error();
    rows = rows.subspan(*written);
  }
  return {};
}

Result<std::size_t> RowWriter::write_next(std::span<const Row> rows) {
  std::size_t count = 1;
  Result<void> written;
  if (are_many<row::Run>(rows)) {
    count = kAtOnce;
    written = write_many<row::Run>(runs_, rows.first(count));
  } else if (are_many<row::NewJob>(rows)) {
    count = kAtOnce;
    written = write_many<row::NewJob>(jobs_, rows.first(count));
  } else {
    written = std::visit([this](const auto& r) { return write(r); }, rows.front());
  }
  if (written) return count;
  Error error = std::move(written).error();
  error.message += ", writing " + describe(rows.front());
  if (count > 1) error.message += fmt::format(" and the {} after it", count - 1);
  return error;
}

template <typename R>
Result<void> RowWriter::write_many(Statement& statement, std::span<const Row> rows) {
  if (Result<void> back = bring_back(std::get<R>(rows.front()).sweep); !back) return back;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bind(statement, static_cast<int>(i), std::get<R>(rows[i]));
  }
  return statement.run();
}

Result<void> RowWriter::write(const row::Sweep& r) {
  const std::string spec = sum_of_sweep(r).put_into(r.spec);
  sweep_.bind(1, r.id.value);
  sweep_.bind(2, r.root);
  sweep_.bind(3, r.name);
  sweep_.bind(4, spec);
  sweep_.bind(5, r.submit);
  sweep_.bind(6, r.at.wall_ns);
  sweep_.bind(7, r.at.boot_ns);
  return sweep_.run();
}

Result<void> RowWriter::bring_back(SweepId sweep) {
  if (std::exchange(back_, sweep) == sweep) return {};
  brought_back_.bind(1, sweep.value);
  return brought_back_.run();
}

Result<void> RowWriter::write(const row::Run& r) {
  if (Result<void> back = bring_back(r.sweep); !back) return back;
  bind(run_, 0, r);
  return run_.run();
}

Result<void> RowWriter::write(const row::NewJob& r) {
  if (Result<void> back = bring_back(r.sweep); !back) return back;
  bind(job_, 0, r);
  return job_.run();
}

Result<void> RowWriter::write(const row::Event& r) {
  const std::string_view kind = event_name(r.event);
  const std::string body = sum_of_event(r.job.value, r.at, kind).put_into(event_body(r.event));
  event_.bind(1, r.job.value);
  event_.bind(2, r.at.wall_ns);
  event_.bind(3, r.at.boot_ns);
  event_.bind(4, kind);
  event_.bind(5, body);
  return event_.run();
}

Result<void> RowWriter::write(const row::Archived& r) {
  back_ = {};
  archived_.bind(1, r.sweep.value);
  archived_.bind(2, r.key);
  archived_.bind(3, r.first_job.value);
  archived_.bind(4, r.last_job.value);
  archived_.bind(5, r.jobs);
  return archived_.run();
}

Result<void> RowWriter::write(const row::Limit& r) {
  limit_.bind(1, r.name);
  limit_.bind(2, r.value);
  return limit_.run();
}

Result<void> RowWriter::write(const row::Usage& r) {
  usage_.bind(1, r.job.value);
  usage_.bind(2, r.attempt);
  usage_.bind(3, r.at.wall_ns);
  usage_.bind(4, r.at.boot_ns);
  usage_.bind_blob(
      5, std::span(reinterpret_cast<const std::uint8_t*>(r.minutes.data()), r.minutes.size()));
  if (Result<void> written = usage_.run(); !written) return written;
  old_usage_.bind(1, kMostUsageRows);
  return old_usage_.run();
}

// An environment that is no longer needed stays until the transaction has said so.
Result<void> RowWriter::write(const row::Environment& r) {
  if (r.entries.empty()) {
    unneeded_.insert(r.sweep);
    return {};
  }
  unneeded_.erase(r.sweep);  // a submit after the end of the last job, in one transaction
  return environments_.write(r);
}

void RowWriter::committed() {
  for (const SweepId sweep : std::exchange(unneeded_, {})) environments_.remove(sweep);
}

Result<void> RowWriter::write(const row::Meta& r) {
  meta_.bind(1, r.key);
  meta_.bind(2, r.value);
  return meta_.run();
}

}  // namespace pergpu::store
