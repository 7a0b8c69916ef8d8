// What the folders of a sweep show of that which was handed over of it, for a coordinator that does
// not know it, or not any more.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ids.h"
#include "result.h"
#include "slurm/array_call.h"
#include "slurm/handover_owner.h"
#include "store/handover.h"
#include "store/records.h"

namespace pergpu {

/// A handover, as its folder shows it.
struct FoundHandover {
  SweepId sweep = {};
  store::Handover handover = {};
  std::string folder = {};
  Owner owner = {};
  std::int64_t number = 0;
  bool withdrawn = false;
  bool is_new_here = false;  // the store does not have all yet that came of it
  ClosedTasks closed = {};
  std::set<JobId> told_to_end = {};      // as they are numbered there
  std::set<std::int32_t> was_held = {};  // tasks, in Slurm's queue, by their coordinator
  std::vector<store::Life> lives = {};
};

/// What is to be found out of a sweep.
struct HandoverQuestion {
  SweepId sweep = {};
  std::string from = {};  // who asks: this host and home
  std::string root = {};
  std::vector<std::string> homes = {};  // folders that are there while its file system is
  std::int64_t umask = 022;
  std::set<std::string> known = {};  // keys
  bool takes = false;                // what is others' is taken over
  bool is_known = false;             // all was found out before, while it was this one's
  bool is_new = false;               // none of its jobs has begun, as far as is known here
  bool reruns = false;               // what had ended runs again
};

struct HandoverAnswer {
  std::string claimant = {};  // who decides for it; "": not known
  bool takes = false;         // as it was asked
  bool is_known = false;      // all of it, from before
  std::vector<FoundHandover> found = {};
  std::string trouble = {};  // why nothing is known yet
};

/// Reads what is there, and takes it over where that is asked for.  An answer without `trouble`.
/// Blocks.  What cannot be read is an error: only what is not there means nothing.
Result<HandoverAnswer> find_handovers(const HandoverQuestion& question);

}  // namespace pergpu
