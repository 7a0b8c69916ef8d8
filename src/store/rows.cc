// Sweeps, limits and meta are upserts (a REPLACE would delete the old row and with it what refers
// to it); runs, jobs and events are inserted once and never changed.
#include "store/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "store/event_json.h"

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
          [](const row::Environment& r) {
            return fmt::format("the environment of sweep {}", r.sweep.value);
          }},
      row);
}

Result<void> read_table(Database& database, const char* sql,
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

Result<void> read_sweeps(Database& database, const RowVisitor& visit) {
  return read_table(database,
                    "SELECT id, root, name, spec, submit, at_wall, at_boot FROM sweeps ORDER BY id",
                    [&](const Statement& s) -> Result<void> {
                      return visit(row::Sweep{.id = {s.integer(0)},
                                              .root = std::string(s.text(1)),
                                              .name = std::string(s.text(2)),
                                              .spec = std::string(s.text(3)),
                                              .submit = std::string(s.text(4)),
                                              .at = instant_at(s, 5)});
                    });
}

Result<void> read_runs(Database& database, const RowVisitor& visit) {
  return read_table(database,
                    "SELECT sweep, number, folder, json, texts FROM runs ORDER BY sweep, number",
                    [&](const Statement& s) -> Result<void> {
                      if (!fits<std::int32_t>(s, 1)) return strange_number(s, 1, "runs");
                      return visit(row::Run{.sweep = {s.integer(0)},
                                            .index = static_cast<std::int32_t>(s.integer(1)),
                                            .folder = std::string(s.text(2)),
                                            .json = std::string(s.text(3)),
                                            .texts = std::string(s.text(4))});
                    });
}

Result<void> read_jobs(Database& database, const RowVisitor& visit) {
  return read_table(
      database,
      "SELECT id, sweep, run, step, step_name, identity, replaces, at_wall, at_boot FROM jobs "
      "ORDER BY id",
      [&](const Statement& s) -> Result<void> {
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
        return visit(std::move(job));
      });
}

Error in_row(Error error, const char* table, const Statement& s) {
  error.message = fmt::format("table {}, row {}: {}", table, s.integer(0), error.message);
  return error;
}

Result<void> read_folded(Database& database, const RowVisitor& visit) {
  return read_table(
      database, "SELECT job, at_wall, at_boot, body FROM folded ORDER BY job",
      [&](const Statement& s) -> Result<void> {
        Result<JobEvent> event = event_of("folded", s.text(3));
        if (!event) return in_row(std::move(event).error(), "folded", s);
        return visit(
            row::Event{.job = {s.integer(0)}, .event = *std::move(event), .at = instant_at(s, 1)});
      });
}

Result<void> read_events(Database& database, const RowVisitor& visit) {
  return read_table(
      database, "SELECT seq, job, at_wall, at_boot, kind, body FROM events ORDER BY seq",
      [&](const Statement& s) -> Result<void> {
        Result<JobEvent> event = event_of(s.text(4), s.text(5));
        if (!event) {
          Error error = std::move(event).error();
          error.message = fmt::format("table events, seq {}, job {}: {}", s.integer(0),
                                      s.integer(1), error.message);
          return error;
        }
        return visit(
            row::Event{.job = {s.integer(1)}, .event = *std::move(event), .at = instant_at(s, 2)});
      });
}

Result<void> read_small_tables(Database& database, const RowVisitor& visit) {
  Result<void> meta = read_table(
      database, "SELECT key, value FROM meta ORDER BY key",
      [&](const Statement& s) -> Result<void> {
        return visit(row::Meta{.key = std::string(s.text(0)), .value = std::string(s.text(1))});
      });
  if (!meta) return meta;
  return read_table(database, "SELECT name, value FROM limits ORDER BY name",
                    [&](const Statement& s) -> Result<void> {
                      if (!fits<std::int32_t>(s, 1)) {
                        return Error{ErrorKind::Corrupt, 0,
                                     fmt::format("table limits, {}: {} is out of range", s.text(0),
                                                 s.integer(1))};
                      }
                      return visit(row::Limit{.name = std::string(s.text(0)),
                                              .value = static_cast<std::int32_t>(s.integer(1))});
                    });
}

}  // namespace

Result<RowWriter> RowWriter::prepare(Database& database) {
  RowWriter writer;
  writer.environments_ = EnvironmentFiles(database.path());
  struct Use {
    Statement RowWriter::*member;
    const char* sql;
  };
  static constexpr Use kUses[] = {
      {&RowWriter::sweep_,
       "INSERT INTO sweeps (id, root, name, spec, submit, at_wall, at_boot) "
       "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET root = ?2, name = ?3, "
       "spec = ?4, submit = ?5, at_wall = ?6, at_boot = ?7"},
      {&RowWriter::run_,
       "INSERT INTO runs (sweep, number, folder, json, texts) VALUES (?1, ?2, ?3, ?4, ?5)"},
      {&RowWriter::job_,
       "INSERT INTO jobs (id, sweep, run, step, step_name, identity, replaces, at_wall, at_boot) "
       "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"},
      {&RowWriter::event_,
       "INSERT INTO events (job, at_wall, at_boot, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)"},
      {&RowWriter::limit_,
       "INSERT INTO limits (name, value) VALUES (?1, ?2) "
       "ON CONFLICT (name) DO UPDATE SET value = ?2"},
      {&RowWriter::meta_,
       "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2"},
  };
  for (const Use& use : kUses) {
    Result<Statement> statement = database.prepare(use.sql);
    if (!statement) return std::move(statement).error();
    writer.*use.member = *std::move(statement);
  }
  return writer;
}

Result<void> RowWriter::write(const Batch& batch) {
  for (const Row& row : batch) {
    Result<void> written = std::visit([this](const auto& r) { return write(r); }, row);
    if (written) continue;
    Error error = std::move(written).error();
    error.message += ", writing " + describe(row);
    return error;
  }
  return {};
}

Result<void> RowWriter::write(const row::Sweep& r) {
  sweep_.bind(1, r.id.value);
  sweep_.bind(2, r.root);
  sweep_.bind(3, r.name);
  sweep_.bind(4, r.spec);
  sweep_.bind(5, r.submit);
  sweep_.bind(6, r.at.wall_ns);
  sweep_.bind(7, r.at.boot_ns);
  return sweep_.run();
}

Result<void> RowWriter::write(const row::Run& r) {
  run_.bind(1, r.sweep.value);
  run_.bind(2, r.index);
  run_.bind(3, r.folder);
  run_.bind(4, r.json);
  run_.bind(5, r.texts);
  return run_.run();
}

Result<void> RowWriter::write(const row::NewJob& r) {
  job_.bind(1, r.id.value);
  job_.bind(2, r.sweep.value);
  job_.bind(3, r.run);
  job_.bind(4, r.step);
  job_.bind(5, r.step_name);
  job_.bind_blob(6, r.identity);
  job_.bind(7, r.replaces.value);
  job_.bind(8, r.at.wall_ns);
  job_.bind(9, r.at.boot_ns);
  return job_.run();
}

Result<void> RowWriter::write(const row::Event& r) {
  const std::string body = event_body(r.event);
  event_.bind(1, r.job.value);
  event_.bind(2, r.at.wall_ns);
  event_.bind(3, r.at.boot_ns);
  event_.bind(4, event_name(r.event));
  event_.bind(5, body);
  return event_.run();
}

Result<void> RowWriter::write(const row::Limit& r) {
  limit_.bind(1, r.name);
  limit_.bind(2, r.value);
  return limit_.run();
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

Result<void> read_rows(Database& database, const RowVisitor& visit, std::int64_t version) {
  Result<void> read = read_small_tables(database, visit);
  if (read) read = read_sweeps(database, visit);
  if (read) read = read_runs(database, visit);
  if (read) read = read_jobs(database, visit);
  if (read && version >= 2) read = read_folded(database, visit);
  if (read) read = read_events(database, visit);
  return read;
}

}  // namespace pergpu::store
