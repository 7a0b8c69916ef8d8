// World -> snapshots: what clients get of jobs and sweeps.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/snapshot.h"
#include "coordinator/coordinator.h"

namespace pergpu {

/// Which processes a job's newest attempt left running, and were ended, as text; "": none.
std::string left_running(const Job& job);

JobSnapshot describe(const Coordinator& coordinator, const Job& job);
SweepSnapshot describe(const Coordinator& coordinator, const Sweep& sweep);
/// The same in two parts, because a sweep may have many runs: all but these, and the next
/// `count` of them, or as many as there are, behind those that `out` has.
SweepSnapshot describe_but_runs(const Coordinator& coordinator, const Sweep& sweep);
void describe_runs(const Sweep& sweep, std::size_t count, SweepSnapshot& out);
/// Everything of one job: JobSnapshot plus parameters, command, resources, the newest attempt.
nlohmann::json describe_whole(const Coordinator& coordinator, const Job& job);
/// Where it is and why, in plain words.
nlohmann::json describe_why(const Coordinator& coordinator, const Job& job);
/// All GPUs and lanes, as `pergpu gpus --json` prints them.
nlohmann::json describe_gpus(const Coordinator& coordinator);

}  // namespace pergpu
