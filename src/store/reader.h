// Rows of the store's tables, read in replay order (store.h: Store::load).  What cannot be
// understood is ErrorKind::Corrupt and names table and row; the visitor's error ends the reading,
// too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "result.h"
#include "store/sqlite.h"
#include "store/store.h"

namespace pergpu::store {

/// Some sweeps with all that belongs to them, slice by slice: between two slices no statement is
/// open.  REQUIRES: what is read does not change meanwhile, and no event is folded.
class SweepReader {
 public:
  static Result<SweepReader> begin(Database& database, std::vector<SweepId> sweeps);

  /// Looks at `most` rows more, or at all.  True: those were the last ones.
  Result<bool> step(std::int64_t most, const RowVisitor& visit);
  /// Events of no job at all are visited, too.
  void visit_strays() { visits_strays_ = true; }

 private:
  Result<std::int64_t> read_table(std::int64_t most, const RowVisitor& visit);
  Result<std::int64_t> read_events(std::int64_t most, const RowVisitor& visit);
  template <typename RowOf>
  Result<std::int64_t> read(Statement& statement, const RowVisitor& visit, RowOf row_of);

  std::vector<Statement> tables_;  // of one sweep
  Statement events_;
  std::vector<SweepId> sweeps_;
  std::unordered_set<SweepId> wanted_;
  bool visits_strays_ = false;
  // How far it is: sweep by sweep, of each table by table, of each row by row; then the events.
  std::size_t sweep_ = 0;
  std::size_t table_ = 0;
  std::int64_t after_ = 0;
};

/// What is kept of an attempt's usage, oldest first.
Result<std::vector<row::Usage>> read_usage(Database& database, JobId job, std::int32_t attempt);

enum class Reach : std::uint8_t {
  Start,  // what Store::load() gives
  All,    // archived sweeps, too, and at last what is said of them
};
/// REQUIRES: the store is of this version (migrations.h).
Result<void> read_rows(Database& database, Reach reach, const RowVisitor& visit);

}  // namespace pergpu::store
