// Numbers of events have no holes worth speaking of: they are given in order and only the oldest
// are removed, so the difference between the last and the first is their count.
#include "store/compaction.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "job/job.h"
#include "store/event_json.h"
#include "store/row_sum.h"

namespace pergpu::store {

struct Compaction::Slice {
  struct Folding {
    Job job;
    Instant at;  // of the newest event
  };
  std::map<std::int64_t, Folding> jobs;
  std::int64_t last_seq = 0;
  std::int64_t events = 0;
};

namespace {

Error contradiction(const std::string& what) {
  return Error{ErrorKind::Corrupt, 0, "compaction: " + what};
}

}  // namespace

Result<Compaction> Compaction::prepare(Database& database) {
  Compaction compaction;
  struct Use {
    Statement Compaction::*member;
    const char* sql;
  };
  static constexpr Use kUses[] = {
      {&Compaction::extent_,
       "SELECT (SELECT max(seq) FROM events) - (SELECT min(seq) FROM events) + 1"},
      {&Compaction::oldest_,
       "SELECT seq, job, at_wall, at_boot, kind, body FROM events ORDER BY seq LIMIT ?1"},
      {&Compaction::birth_, "SELECT at_wall, at_boot FROM jobs WHERE id = ?1"},
      {&Compaction::folded_, "SELECT at_wall, at_boot, body FROM folded WHERE job = ?1"},
      {&Compaction::fold_,
       "INSERT INTO folded (job, at_wall, at_boot, body) VALUES (?1, ?2, ?3, ?4) "
       "ON CONFLICT (job) DO UPDATE SET at_wall = ?2, at_boot = ?3, body = ?4"},
      {&Compaction::drop_, "DELETE FROM events WHERE seq <= ?1"},
  };
  for (const Use& use : kUses) {
    Result<Statement> statement = database.prepare(use.sql);
    if (!statement) return std::move(statement).error();
    compaction.*use.member = *std::move(statement);
  }
  return compaction;
}

Result<std::int64_t> Compaction::unfolded() {
  const Resetting extent(extent_);
  Result<bool> row = extent_.step();
  if (!row) return std::move(row).error();
  return extent_.integer(0);  // 0 for NULL: no events
}

Result<std::int64_t> Compaction::fold(Database& database, std::int64_t most) {
  Slice slice;
  Result<void> done = database.exec("BEGIN IMMEDIATE");
  if (done) done = read(most, slice);
  if (done) done = write(slice);
  if (done) done = database.exec("COMMIT");
  if (done) return slice.events;
  if (database.in_transaction()) (void)database.exec("ROLLBACK");
  return std::move(done).error();
}

Result<void> Compaction::read(std::int64_t most, Slice& slice) {
  const Resetting oldest(oldest_);
  oldest_.bind(1, most);
  while (true) {
    Result<bool> row = oldest_.step();
    if (!row) return std::move(row).error();
    if (!*row) return {};
    const std::int64_t id = oldest_.integer(1);
    if (!slice.jobs.contains(id)) {
      if (Result<void> known = take_up(id, slice); !known) return known;
    }
    Slice::Folding& folding = slice.jobs.at(id);
    Result<JobEvent> event = event_of(oldest_.text(4), oldest_.text(5));
    if (!event) return contradiction(event.error().message);
    folding.at = {.wall_ns = oldest_.integer(2), .boot_ns = oldest_.integer(3)};
    const Result<void> intact =
        sum_of_event(id, folding.at, oldest_.text(4)).check(oldest_.text(5));
    if (!intact) return contradiction(intact.error().message);
    const Result<void> applied = apply(folding.job, *event, folding.at);
    if (!applied) return contradiction(applied.error().message);
    slice.last_seq = oldest_.integer(0);
    ++slice.events;
  }
}

/// The job as it was before the slice.
Result<void> Compaction::take_up(std::int64_t id, Slice& slice) {
  const Resetting birth(birth_);
  const Resetting folded(folded_);
  birth_.bind(1, id);
  Result<bool> row = birth_.step();
  if (!row) return std::move(row).error();
  if (!*row) return contradiction(fmt::format("job {} does not exist", id));
  Slice::Folding folding{.job = {.id = {id}}, .at = {}};
  const Instant born{.wall_ns = birth_.integer(0), .boot_ns = birth_.integer(1)};
  Result<void> applied = apply(folding.job, event::Submitted{}, born);
  if (!applied) return applied;
  folded_.bind(1, id);
  row = folded_.step();
  if (!row) return std::move(row).error();
  if (*row) {
    const Instant at{.wall_ns = folded_.integer(0), .boot_ns = folded_.integer(1)};
    Result<JobEvent> event = event_of("folded", folded_.text(2));
    if (!event) return contradiction(event.error().message);
    const Result<void> intact = sum_of_event(id, at, "folded").check(folded_.text(2));
    if (!intact) return contradiction(intact.error().message);
    applied = apply(folding.job, *event, at);
    if (!applied) return contradiction(applied.error().message);
  }
  slice.jobs.emplace(id, std::move(folding));
  return {};
}

Result<void> Compaction::write(const Slice& slice) {
  for (const auto& [id, folding] : slice.jobs) {
    const std::string body =
        sum_of_event(id, folding.at, "folded").put_into(event_body(pergpu::fold(folding.job)));
    fold_.bind(1, id);
    fold_.bind(2, folding.at.wall_ns);
    fold_.bind(3, folding.at.boot_ns);
    fold_.bind(4, body);
    if (Result<void> written = fold_.run(); !written) return written;
  }
  drop_.bind(1, slice.last_seq);
  return drop_.run();
}

}  // namespace pergpu::store
