// How many lanes the sweeps have that share, those whose steps have a `weight`: now, and summed
// over time.  What follows from it for the order is in job/schedule/starting_order.h.
//
// The sum is a level: seconds of a lane, each divided by the weight of the job that had it.  A
// sweep that has what is due keeps level with the others; one that had less is next where lanes
// cannot be divided. A sweep gets no credit for the time that it was away: one that comes, or comes
// back, begins level with the lowest of those that are at work.  What it had more than they before
// it went, it still has.  Nor does it get credit for the time in which no lane would have helped
// (`is_barred`), or it had nothing to start: it stays as far behind the others as it was.
//
// Start-time fair queueing (Goyal, Vin and Cheng, 1996) does so with packets, but for two things:
// levels rise while a job runs, for how long it will take is not known, and several run at a time.
#pragma once

#include <cstdint>
#include <map>

#include "ids.h"
#include "job/schedule/queue.h"

namespace pergpu {

/// Thousandths of lanes that such a job takes: 2000 of two GPUs, 250 of a quarter of one.
int thousandths_taken(const Demand& demand);

class FairShare {
 public:
  /// Jobs of one sweep.  Those of one pool and priority share with each other.
  struct Party {
    LaneId::Pool pool = {};
    int priority = 0;
    SweepId sweep = {};
    Party(SweepId its_sweep, const Demand& demand)
        : pool(demand.pool), priority(demand.priority), sweep(its_sweep) {}
    auto operator<=>(const Party&) const = default;
    bool shares_with(const Party& other) const {
      return pool == other.pool && priority == other.priority;
    }
  };
  /// Jobs of it wait.
  struct Waiting {
    bool is_barred = true;  // none of them could start whatever other jobs gave back
    // Of those that are not barred:
    int weight = 0;         // the most that any has
    int widest = 0;         // the most thousandths that any takes
    bool reserves = false;  // one waits for cpus, memory or a limit, too
  };

  /// A job starts.  Times are on one clock, and never go back.  Without a weight it does not count.
  void take(SweepId sweep, const Demand& demand, std::int64_t now_ns);
  /// The reverse, with the demand of the start.
  void give_back(SweepId sweep, const Demand& demand, std::int64_t now_ns);
  /// These wait, and no others.
  void meet(const std::map<Party, Waiting>& waiting, std::int64_t now_ns);

  /// No sweep has, or had, anything.
  bool empty() const { return had_.empty(); }
  /// Thousandths that it has now.
  int lanes(const Party& party) const;
  double level(const Party& party, std::int64_t now_ns) const;

  /// The same levels on a clock that begins now, with nothing taken.
  FairShare history(std::int64_t now_ns) const;

 private:
  struct Had {
    int lanes = 0;    // thousandths
    double rate = 0;  // at which its level rises: lanes, each divided by its weight
    double level = 0;
    std::int64_t as_of_ns = 0;
    bool is_here = false;  // has, or waited when they last met
    bool competes = true;  // could have used a lane then
    double behind = 0;     // so far was it when it last did; not above 0
    double level_at(std::int64_t now_ns) const;
  };
  void change(SweepId sweep, const Demand& demand, int thousandths, std::int64_t now_ns);

  std::map<Party, Had> had_;
};

}  // namespace pergpu
