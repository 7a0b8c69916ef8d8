// Compaction: the oldest events of the journal are folded into one row for each job, so that what a
// start has to read grows with the number of jobs and not with all that ever happened to them.
//
// Whatever became of the jobs: a folded job may be live, queued or ended, and what happens to it
// later follows in `events`.  Replaying the folded journal gives the same jobs as replaying the
// whole one, because what is folded is what apply() made of it.  Each slice is one transaction.
#pragma once

#include <cstdint>

#include "result.h"
#include "store/sqlite.h"

namespace pergpu::store {

class Compaction {
 public:
  static Result<Compaction> prepare(Database& database);

  /// How many events are not folded.
  Result<std::int64_t> unfolded();
  /// Folds the oldest `most` events, or all when there are fewer; returns how many.  An error
  /// leaves everything as it was; ErrorKind::Corrupt: events contradict each other, nothing is to
  /// be folded. REQUIRES: no transaction is open.
  Result<std::int64_t> fold(Database& database, std::int64_t most);

 private:
  struct Slice;
  Result<void> read(std::int64_t most, Slice& slice);
  Result<void> take_up(std::int64_t id, Slice& slice);
  Result<void> write(const Slice& slice);

  Statement extent_, oldest_, birth_, folded_, fold_, drop_;
};

}  // namespace pergpu::store
