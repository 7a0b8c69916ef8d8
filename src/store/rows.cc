// Sweeps, limits and meta are upserts (a REPLACE would delete the old row and with it what refers
// to it); runs, jobs and events are inserted once and never changed.  Of usage the newest rows are
// kept.
#include "store/rows.h"

#include <fmt/format.h>

#include <span>
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
  for (const Use& use : kUses) {
    Result<Statement> statement = database.prepare(use.sql);
    if (!statement) return std::move(statement).error();
    writer.*use.member = *std::move(statement);
  }
  return writer;
}

Result<void> RowWriter::write(const Batch& batch) {
  back_ = {};
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

Result<void> RowWriter::bring_back(SweepId sweep) {
  if (std::exchange(back_, sweep) == sweep) return {};
  brought_back_.bind(1, sweep.value);
  return brought_back_.run();
}

Result<void> RowWriter::write(const row::Run& r) {
  if (Result<void> back = bring_back(r.sweep); !back) return back;
  run_.bind(1, r.sweep.value);
  run_.bind(2, r.index);
  run_.bind(3, r.folder);
  run_.bind(4, r.json);
  run_.bind(5, r.texts);
  return run_.run();
}

Result<void> RowWriter::write(const row::NewJob& r) {
  if (Result<void> back = bring_back(r.sweep); !back) return back;
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
