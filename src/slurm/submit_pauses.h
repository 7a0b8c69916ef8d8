// When sweeps that Slurm has not taken are to be submitted again.  Each has its own pauses: one
// that is refused keeps no other from the cluster.  Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ids.h"

namespace pergpu {

/// Times are of the boot clock.
class SubmitPauses {
 public:
  /// An array of the sweep was surely not taken, in Slurm's words.  Its next pause is longer.
  void refused(SweepId sweep, std::string words, std::int64_t now_ns);
  /// … because it was one too many with `tasks` tasks: half as many may have a place yet.
  void had_too_many(SweepId sweep, int tasks);
  /// Slurm has not answered: no other sweep would be heard either.
  void unheard(std::int64_t now_ns);
  /// One was taken; `longest`: how long the site lets them be.
  void taken(SweepId sweep, int longest);

  std::int64_t next_ns(SweepId sweep) const;
  /// Tasks of the sweep's next array, at most; 0: as many as the site allows.
  int most_tasks(SweepId sweep) const;
  /// Why its last array was not taken; "": it was, or there was none.
  std::string words(SweepId sweep) const;

 private:
  struct Pause {
    std::int64_t length_ns = 0;
    std::int64_t next_ns = 0;
    /// Each time twice as long as the last.
    void lengthen(std::int64_t now_ns);
  };
  struct Own {
    Pause pause = {};
    int most_tasks = 0;
    std::string words = {};
  };
  std::map<SweepId, Own> own_;
  Pause all_;
};

}  // namespace pergpu
