// user_version is a field of the file's first page, so it changes with the transaction or not at
// all.  Until the commit nothing reaches the files, not even pages for which the cache is too
// small.
#include "store/migrations.h"

#include <fmt/format.h>

#include <array>

namespace pergpu::store {
namespace {

// events.job has no index: events are read in journal order only.
constexpr const char* kVersionOne = R"sql(
  CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE limits (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY,
    root TEXT NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    submit TEXT NOT NULL,
    at_wall INTEGER NOT NULL,
    at_boot INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE runs (
    sweep INTEGER NOT NULL REFERENCES sweeps (id),
    number INTEGER NOT NULL,
    folder TEXT NOT NULL,
    json TEXT NOT NULL,
    texts TEXT NOT NULL,
    PRIMARY KEY (sweep, number)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    sweep INTEGER NOT NULL REFERENCES sweeps (id),
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    identity BLOB NOT NULL CHECK (length(identity) = 16),
    replaces INTEGER NOT NULL,
    at_wall INTEGER NOT NULL,
    at_boot INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL REFERENCES jobs (id),
    at_wall INTEGER NOT NULL,
    at_boot INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
  ) STRICT;
)sql";

/// What a job's events were folded into (compaction.h): they are gone, and those in `events`
/// follow.
Result<void> add_folded_events(Database& database) {
  return database.exec(R"sql(
    CREATE TABLE folded (
      job INTEGER PRIMARY KEY REFERENCES jobs (id),
      at_wall INTEGER NOT NULL,
      at_boot INTEGER NOT NULL,
      body TEXT NOT NULL
    ) STRICT;
  )sql");
}

/// Sweeps of which all jobs have ended: a start does not read them.  Whatever is written of one of
/// them takes it out of here, in the same transaction.
Result<void> add_archive(Database& database) {
  return database.exec(R"sql(
    CREATE TABLE archive (
      sweep INTEGER PRIMARY KEY REFERENCES sweeps (id),
      key TEXT NOT NULL,
      first_job INTEGER NOT NULL,
      last_job INTEGER NOT NULL,
      jobs INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX jobs_of_sweep ON jobs (sweep);
    CREATE TRIGGER sweep_is_back AFTER UPDATE ON sweeps BEGIN
      DELETE FROM archive WHERE sweep = NEW.id;
    END;
    CREATE TRIGGER run_brings_back AFTER INSERT ON runs BEGIN
      DELETE FROM archive WHERE sweep = NEW.sweep;
    END;
    CREATE TRIGGER job_brings_back AFTER INSERT ON jobs BEGIN
      DELETE FROM archive WHERE sweep = NEW.sweep;
    END;
    CREATE TRIGGER event_brings_back AFTER INSERT ON events BEGIN
      DELETE FROM archive WHERE sweep = (SELECT sweep FROM jobs WHERE id = NEW.job);
    END;
  )sql");
}

/// What attempts used, some minutes a row.  The oldest rows are removed when a new one is written.
Result<void> add_usage(Database& database) {
  return database.exec(R"sql(
    CREATE TABLE usage (
      id INTEGER PRIMARY KEY,
      job INTEGER NOT NULL REFERENCES jobs (id),
      attempt INTEGER NOT NULL,
      at_wall INTEGER NOT NULL,
      at_boot INTEGER NOT NULL,
      minutes BLOB NOT NULL
    ) STRICT;
    CREATE INDEX usage_of_job ON usage (job);
  )sql");
}

/// A trigger runs its own program for each row, which a million runs and jobs feel; RowWriter
/// does the same once a sweep and batch.
Result<void> bring_back_by_batch(Database& database) {
  return database.exec("DROP TRIGGER run_brings_back; DROP TRIGGER job_brings_back;");
}

using Step = Result<void> (*)(Database&);
/// Entry i leads from version i + 1 to i + 2.
constexpr std::array<Step, kSchemaVersion - 1> kSteps = {add_folded_events, add_archive, add_usage,
                                                         bring_back_by_batch};

Result<void> take_steps(Database& database, std::int64_t version) {
  for (auto next = static_cast<std::size_t>(version) - 1; next < kSteps.size(); ++next) {
    if (Result<void> taken = kSteps[next](database); !taken) return taken;
  }
  return database.exec(fmt::format("PRAGMA user_version = {}", kSchemaVersion));
}

Error not_brought(const Database& database, Error error) {
  error.message =
      fmt::format("can't upgrade the store {} to schema version {}; it is unchanged ({})",
                  database.path(), kSchemaVersion, error.message);
  return error;
}

}  // namespace

Result<void> create_tables(Database& database) {
  if (Result<void> made = database.exec(kVersionOne); !made) return made;
  return take_steps(database, 1);
}

Result<void> begin_migration(Database& database, std::int64_t version) {
  if (version == kSchemaVersion) return {};
  Result<void> done = database.exec("PRAGMA cache_spill = OFF");
  if (done) done = database.exec("BEGIN IMMEDIATE");
  if (done) done = take_steps(database, version);
  if (done || done.error().kind == ErrorKind::Corrupt) return done;
  return not_brought(database, std::move(done).error());
}

Result<void> commit_migration(Database& database) {
  if (!database.in_transaction()) return {};
  Result<void> done = database.exec("COMMIT");
  if (done) return database.exec("PRAGMA cache_spill = ON");
  return not_brought(database, std::move(done).error());
}

}  // namespace pergpu::store
