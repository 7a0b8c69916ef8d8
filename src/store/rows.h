// Rows of the store's tables, written in a batch's order.
#pragma once

#include <cstddef>
#include <set>
#include <span>

#include "result.h"
#include "store/environment.h"
#include "store/sqlite.h"
#include "store/store.h"

namespace pergpu::store {

/// The insert statements, prepared once.
class RowWriter {
 public:
  static Result<RowWriter> prepare(Database& database);
  /// REQUIRES: inside a transaction.
  Result<void> write(const Batch& batch);
  /// What was written since the last call of either is durable: files that no row needs any more
  /// go.
  void committed();
  void rolled_back() { unneeded_.clear(); }

 private:
  Result<void> write(const row::Sweep& r);
  Result<void> write(const row::Run& r);
  Result<void> write(const row::NewJob& r);
  Result<void> write(const row::Event& r);
  Result<void> write(const row::Limit& r);
  Result<void> write(const row::Meta& r);
  Result<void> write(const row::Archived& r);
  Result<void> write(const row::Environment& r);
  Result<void> write(const row::Usage& r);

  /// The next rows of `rows`, with one statement where enough of them are runs, or jobs, of one
  /// sweep; returns how many.
  Result<std::size_t> write_next(std::span<const Row> rows);
  template <typename R>
  Result<void> write_many(Statement& statement, std::span<const Row> rows);

  /// A run or a job of it is written: it is no archived sweep any more.
  Result<void> bring_back(SweepId sweep);

  Statement sweep_, run_, runs_, job_, jobs_, event_, limit_, meta_, archived_, brought_back_,
      usage_, old_usage_;
  SweepId back_ = {};  // brought back by this batch, last
  EnvironmentFiles environments_;
  std::set<SweepId> unneeded_;
};

}  // namespace pergpu::store
