// Journal: what is recorded in one turn of the loop becomes one transaction.
//
//   record(row)   the world takes it now, the store with the turn's batch
//   then(effect)  runs when everything recorded so far is durable: starts, acknowledgements,
//   replies flush()       ends the turn
//
// So an outcome and the next intent are one transaction, and nothing is started or acknowledged
// before its completion.  When the store cannot be written, writable() is false (the coordinator
// starts nothing and kills nothing), rows and effects wait in order, and retry() tries them again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "state/world.h"
#include "store/store.h"

namespace pergpu {

class Journal {
 public:
  Journal(World& world, Store& store);

  /// REQUIRES: the row fits the world (a contradiction is a bug: the process ends, nothing of the
  /// turn is stored).
  void record(Row row);
  void then(std::function<void()> effect);
  void flush();

  /// A batch the world takes only once it is durable (submit): `done` runs after that, or with the
  /// error and nothing changed.  REQUIRES: called after flush() or with nothing recorded.
  void commit_first(Batch batch, std::function<void(Result<void>)> done);

  /// Brings archived sweeps back into the world, one call after the other.  `done` runs when they
  /// are there, or with what is wrong; before this returns if none of them is archived.
  void fetch(std::vector<SweepId> sweeps, std::function<void(Result<void>)> done);

  bool writable() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  /// Appends what could not be stored once more.  Called by a timer while !writable().
  void retry();
  /// Nothing waits for the disk.
  bool idle() const {
    return in_flight_ == 0 && batch_.empty() && effects_.empty() && unsaved_.empty();
  }
  bool fetches() const { return fetches_; }

 private:
  struct Turn {
    std::shared_ptr<const Batch> rows;
    std::vector<std::function<void()>> effects;
  };
  struct Fetch {
    std::vector<SweepId> sweeps;
    std::function<void(Result<void>)> done;
  };
  void append(Turn turn);
  void fetch_next();

  World& world_;
  Store& store_;
  Batch batch_;
  std::vector<std::function<void()>> effects_;
  std::vector<Turn> unsaved_;  // failed, in order
  int in_flight_ = 0;
  std::deque<Fetch> to_fetch_;
  bool fetches_ = false;  // the first of to_fetch_
  std::string failure_;
};

}  // namespace pergpu
