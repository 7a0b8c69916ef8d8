// The order in which the first jobs of the classes are asked whether they can start: that of the
// queue, but that the sweeps of one priority which share, those with a `weight`, stand together at
// the place of the oldest of them.
//
// Of those that share a pool of lanes, a sweep goes first that with one job more still has no more
// than its part of the lanes that they have or could have, then those that have less than it, then
// the others; among equals the one whose level (job/schedule/fair_share.h) is the lowest.  The
// parts divide the lanes at once, also when many become free together: each sweep has its part,
// rounded down or up.  The levels decide who has it rounded up, the only lane or the third of
// three: each in turn, by time and not by jobs.  They decide everything where a job takes more
// lanes than its sweep's part has, and those are several, or lanes may not be what is short: it
// would come after the parts of others that cannot be filled.
//
// A class that was overtaken often enough for room to be kept for it goes before both.  Who is
// barred has no part.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "job/schedule/fair_share.h"
#include "job/schedule/queue.h"
#include "job/schedule/schedule.h"

namespace pergpu {

/// One walk.  Queue and capacity must not change meanwhile.
class StartingOrder {
 public:
  /// Records in `shares`, those of the capacity or a copy, what waits.
  StartingOrder(const ReadyQueue& queue, const Capacity& capacity, FairShare& shares);
  /// Null: that was the last one.
  const ReadyQueue::Head* next();

 private:
  enum class Room : std::uint8_t { ForTheJob, ForSomeOfIt, None };  // in a sweep's part
  /// All that share a pool.
  struct Sharers {
    std::int64_t weight = 0;
    std::int64_t lanes = 0;  // thousandths
    bool has_parts = true;   // else levels decide everything
  };
  struct Ranked {
    std::tuple<bool, Room, double, std::size_t> rank = {};  // the least goes first
    const ReadyQueue::Head* head = nullptr;
    bool operator<(const Ranked& other) const { return rank > other.rank; }  // for a heap
  };
  void meet();
  void gather(int priority);
  Sharers sharers(LaneId::Pool pool, int priority) const;
  Room room_in(const Sharers& all, const FairShare::Party& its, const Demand& demand) const;
  const ReadyQueue::Head* pop();

  const ReadyQueue* queue_;
  const Capacity* capacity_;
  FairShare* shares_;
  std::set<ReadyQueue::Head>::const_iterator next_;
  std::map<FairShare::Party, FairShare::Waiting> waiting_ = {};
  std::vector<const ReadyQueue::Head*> sharing_ = {};  // of all priorities, in the queue's order
  std::vector<Ranked> heap_ = {};                      // of the priority in `gathered_`
  std::optional<int> gathered_ = std::nullopt;
};

}  // namespace pergpu
