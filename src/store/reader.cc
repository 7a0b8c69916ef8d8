// Every statement of a sweep takes the sweep, the last key that was read and how many rows to read
// at most, so that reading can pause after any row.
#include "store/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "store/event_json.h"
#include "store/row_sum.h"

namespace pergpu::store {
namespace {

/// nullopt: the row is passed over.
using MaybeRow = std::optional<Row>;

constexpr std::int64_t kBeforeAll = std::numeric_limits<std::int64_t>::min();

Instant instant_at(const Statement& s, int column) {
  return Instant{.wall_ns = s.integer(column), .boot_ns = s.integer(column + 1)};
}

Error strange_number(const Statement& s, int column, const char* what) {
  return Error{
      ErrorKind::Corrupt, 0,
      fmt::format("table {}, row {}: {} is out of range", what, s.integer(0), s.integer(column))};
}

template <typename Int>
bool fits(const Statement& s, int column) {
  return std::in_range<Int>(s.integer(column));
}

Error in_row(const std::string& row, Error error) {
  error.message = row + ": " + error.message;
  return error;
}

Result<MaybeRow> sweep_of(const Statement& s) {
  row::Sweep sweep{.id = {s.integer(0)},
                   .root = std::string(s.text(1)),
                   .name = std::string(s.text(2)),
                   .spec = without_sum(s.text(3)),
                   .submit = std::string(s.text(4)),
                   .at = instant_at(s, 5)};
  Result<void> intact = sum_of_sweep(sweep).check(s.text(3));
  if (intact) return MaybeRow(std::move(sweep));
  return in_row(fmt::format("table sweeps, row {}", s.integer(0)), std::move(intact).error());
}

Result<MaybeRow> run_of(const Statement& s) {
  if (!fits<std::int32_t>(s, 0)) return strange_number(s, 0, "runs");
  return MaybeRow(row::Run{.sweep = {s.integer(1)},
                           .index = static_cast<std::int32_t>(s.integer(0)),
                           .folder = std::string(s.text(2)),
                           .json = std::string(s.text(3)),
                           .texts = std::string(s.text(4))});
}

Result<MaybeRow> job_of(const Statement& s) {
  if (!fits<std::int32_t>(s, 2)) return strange_number(s, 2, "jobs");
  if (!fits<std::int16_t>(s, 3)) return strange_number(s, 3, "jobs");
  row::NewJob job{.id = {s.integer(0)},
                  .sweep = {s.integer(1)},
                  .run = static_cast<std::int32_t>(s.integer(2)),
                  .step = static_cast<std::int16_t>(s.integer(3)),
                  .step_name = std::string(s.text(4)),
                  .replaces = {s.integer(6)},
                  .at = instant_at(s, 7)};
  const std::span<const std::uint8_t> identity = s.blob(5);
  if (identity.size() != job.identity.size()) return strange_number(s, 5, "jobs");
  std::copy(identity.begin(), identity.end(), job.identity.begin());
  return MaybeRow(std::move(job));
}

Result<MaybeRow> folded_of(const Statement& s) {
  if (s.is_null(3)) return MaybeRow();  // all its events lie in the journal
  const Instant at = instant_at(s, 1);
  Result<JobEvent> event = event_of("folded", s.text(3));
  const Result<void> intact = sum_of_event(s.integer(0), at, "folded").check(s.text(3));
  if (event && intact) {
    return MaybeRow(row::Event{.job = {s.integer(0)}, .event = *std::move(event), .at = at});
  }
  return in_row(fmt::format("table folded, row {}", s.integer(0)),
                event ? intact.error() : std::move(event).error());
}

Result<MaybeRow> event_row_of(const Statement& s) {
  const Instant at = instant_at(s, 2);
  Result<JobEvent> event = event_of(s.text(4), s.text(5));
  const Result<void> intact = sum_of_event(s.integer(1), at, s.text(4)).check(s.text(5));
  if (event && intact) {
    return MaybeRow(row::Event{.job = {s.integer(1)}, .event = *std::move(event), .at = at});
  }
  return in_row(fmt::format("table events, seq {}, job {}", s.integer(0), s.integer(1)),
                event ? intact.error() : std::move(event).error());
}

/// What belongs to a sweep, in the order in which it is replayed.  Column 0 is the key.
struct Table {
  const char* sql;
  Result<MaybeRow> (*row)(const Statement&);
};
constexpr std::array<Table, 4> kTables = {{
    {"SELECT id, root, name, spec, submit, at_wall, at_boot FROM sweeps "
     "WHERE id = ?1 AND id > ?2 LIMIT ?3",
     &sweep_of},
    {"SELECT number, sweep, folder, json, texts FROM runs WHERE sweep = ?1 AND number > ?2 "
     "ORDER BY number LIMIT ?3",
     &run_of},
    {"SELECT id, sweep, run, step, step_name, identity, replaces, at_wall, at_boot FROM jobs "
     "WHERE sweep = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
     &job_of},
    {"SELECT jobs.id, folded.at_wall, folded.at_boot, folded.body FROM jobs "
     "LEFT JOIN folded ON folded.job = jobs.id WHERE jobs.sweep = ?1 AND jobs.id > ?2 "
     "ORDER BY jobs.id LIMIT ?3",
     &folded_of},
}};
// No index leads from a job to its events: they are few, the older ones are folded.
constexpr const char* kEvents =
    "SELECT seq, job, events.at_wall, events.at_boot, kind, body, sweep FROM events "
    "LEFT JOIN jobs ON jobs.id = job WHERE seq > ?1 ORDER BY seq LIMIT ?2";

Result<void> for_each_row(Database& database, const char* sql,
                          const std::function<Result<void>(const Statement&)>& visit) {
  Result<Statement> statement = database.prepare(sql);
  if (!statement) return std::move(statement).error();
  while (true) {
    Result<bool> row = statement->step();
    if (!row) return std::move(row).error();
    if (!*row) return {};
    Result<void> understood = visit(*statement);
    if (!understood) return understood;
  }
}

Result<void> read_facts(Database& database, const RowVisitor& visit) {
  Result<void> meta = for_each_row(
      database, "SELECT key, value FROM meta ORDER BY key",
      [&](const Statement& s) -> Result<void> {
        return visit(row::Meta{.key = std::string(s.text(0)), .value = std::string(s.text(1))});
      });
  if (!meta) return meta;
  return for_each_row(database, "SELECT name, value FROM limits ORDER BY name",
                      [&](const Statement& s) -> Result<void> {
                        if (!fits<std::int32_t>(s, 1)) {
                          return Error{ErrorKind::Corrupt, 0,
                                       fmt::format("table limits, {}: {} is out of range",
                                                   s.text(0), s.integer(1))};
                        }
                        return visit(row::Limit{.name = std::string(s.text(0)),
                                                .value = static_cast<std::int32_t>(s.integer(1))});
                      });
}

Result<void> read_archive(Database& database, const RowVisitor& visit) {
  return for_each_row(
      database,
      "SELECT sweep, key, first_job, last_job, jobs, root, name, at_wall, at_boot FROM archive "
      "JOIN sweeps ON id = sweep ORDER BY sweep",
      [&](const Statement& s) -> Result<void> {
        return visit(row::Archived{.sweep = {s.integer(0)},
                                   .key = std::string(s.text(1)),
                                   .first_job = {s.integer(2)},
                                   .last_job = {s.integer(3)},
                                   .jobs = s.integer(4),
                                   .root = std::string(s.text(5)),
                                   .name = std::string(s.text(6)),
                                   .at = instant_at(s, 7)});
      });
}

}  // namespace

Result<SweepReader> SweepReader::begin(Database& database, std::vector<SweepId> sweeps) {
  SweepReader reader;
  for (const Table& table : kTables) {
    Result<Statement> statement = database.prepare(table.sql);
    if (!statement) return std::move(statement).error();
    reader.tables_.push_back(*std::move(statement));
  }
  Result<Statement> events = database.prepare(kEvents);
  if (!events) return std::move(events).error();
  reader.events_ = *std::move(events);
  reader.wanted_.insert(sweeps.begin(), sweeps.end());
  reader.sweeps_ = std::move(sweeps);
  reader.after_ = kBeforeAll;
  return reader;
}

Result<bool> SweepReader::step(std::int64_t most, const RowVisitor& visit) {
  while (most > 0) {
    const bool at_events = sweep_ == sweeps_.size();
    Result<std::int64_t> looked = at_events ? read_events(most, visit) : read_table(most, visit);
    if (!looked) return std::move(looked).error();
    most -= *looked;
    if (most == 0) return false;  // there may be more of this table
    if (at_events) return true;
    after_ = kBeforeAll;
    if (++table_ < tables_.size()) continue;
    table_ = 0;
    ++sweep_;
  }
  return false;
}

Result<std::int64_t> SweepReader::read_table(std::int64_t most, const RowVisitor& visit) {
  Statement& statement = tables_[table_];
  const Resetting reset(statement);
  statement.bind(1, sweeps_[sweep_].value);
  statement.bind(2, after_);
  statement.bind(3, most);
  return read(statement, visit, kTables[table_].row);
}

Result<std::int64_t> SweepReader::read_events(std::int64_t most, const RowVisitor& visit) {
  constexpr int kSweep = 6;
  const Resetting reset(events_);
  events_.bind(1, after_);
  events_.bind(2, most);
  return read(events_, visit, [this](const Statement& s) -> Result<MaybeRow> {
    const bool is_wanted =
        s.is_null(kSweep) ? visits_strays_ : wanted_.contains(SweepId{s.integer(kSweep)});
    return is_wanted ? event_row_of(s) : MaybeRow();
  });
}

/// How many were looked at.
template <typename RowOf>
Result<std::int64_t> SweepReader::read(Statement& statement, const RowVisitor& visit,
                                       RowOf row_of) {
  for (std::int64_t looked = 0;; ++looked) {
    Result<bool> is_row = statement.step();
    if (!is_row) return std::move(is_row).error();
    if (!*is_row) return looked;
    after_ = statement.integer(0);
    Result<MaybeRow> row = row_of(statement);
    if (!row) return std::move(row).error();
    if (!*row) continue;
    if (Result<void> taken = visit(**std::move(row)); !taken) return std::move(taken).error();
  }
}

Result<std::vector<row::Usage>> read_usage(Database& database, JobId job, std::int32_t attempt) {
  Result<Statement> statement = database.prepare(
      "SELECT at_wall, at_boot, minutes FROM usage WHERE job = ?1 AND attempt = ?2 ORDER BY id");
  if (!statement) return std::move(statement).error();
  statement->bind(1, job.value);
  statement->bind(2, attempt);
  std::vector<row::Usage> rows;
  while (true) {
    Result<bool> is_row = statement->step();
    if (!is_row) return std::move(is_row).error();
    if (!*is_row) return rows;
    const std::span<const std::uint8_t> minutes = statement->blob(2);
    rows.push_back({.job = job,
                    .attempt = attempt,
                    .at = instant_at(*statement, 0),
                    .minutes = std::string(minutes.begin(), minutes.end())});
  }
}

/// Everything is reached through its sweep and its job: what lies beyond the last of them would be
/// passed over in silence.  What is missing before the last is missed when the jobs are counted.
Result<void> refuse_what_lies_beyond(Database& database) {
  struct Bound {
    const char* table;
    const char* key;
    const char* owners;
  };
  for (const Bound& bound : {Bound{"runs", "sweep", "sweeps"}, Bound{"jobs", "sweep", "sweeps"},
                             Bound{"archive", "sweep", "sweeps"}, Bound{"folded", "job", "jobs"}}) {
    const std::string sql = fmt::format("SELECT (SELECT max({}) FROM {}), (SELECT max(id) FROM {})",
                                        bound.key, bound.table, bound.owners);
    Result<void> bounded =
        for_each_row(database, sql.c_str(), [&](const Statement& s) -> Result<void> {
          if (s.integer(0) <= s.integer(1)) return {};  // NULL, of an empty table, reads as 0
          return Error{ErrorKind::Corrupt, 0,
                       fmt::format("table {} has {} {}, but table {} doesn't", bound.table,
                                   bound.key, s.integer(0), bound.owners)};
        });
    if (!bounded) return bounded;
  }
  return {};
}

Result<void> read_rows(Database& database, Reach reach, const RowVisitor& visit) {
  Result<void> read = refuse_what_lies_beyond(database);
  if (read) read = read_facts(database, visit);
  if (read && reach == Reach::Start) read = read_archive(database, visit);
  std::vector<SweepId> sweeps;
  if (read) {
    read = for_each_row(database,
                        reach == Reach::All
                            ? "SELECT id FROM sweeps ORDER BY id"
                            : "SELECT id FROM sweeps WHERE id NOT IN (SELECT sweep FROM archive) "
                              "ORDER BY id",
                        [&](const Statement& s) -> Result<void> {
                          sweeps.push_back({s.integer(0)});
                          return {};
                        });
  }
  if (!read) return read;
  Result<SweepReader> reader = SweepReader::begin(database, std::move(sweeps));
  if (!reader) return std::move(reader).error();
  reader->visit_strays();
  Result<bool> all = reader->step(std::numeric_limits<std::int64_t>::max(), visit);
  if (!all) return std::move(all).error();
  return reach == Reach::All ? read_archive(database, visit) : Result<void>();
}

}  // namespace pergpu::store
