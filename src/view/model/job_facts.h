// What a job's snapshot says, in one place: its names, lanes, state and time; and
// how many jobs are in each state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/text/style.h"

namespace pergpu::view {

/// "thirteen/03-method=edm/train"; a once-step's job is "thirteen/_once/classifier".
std::string name_of(const JobSnapshot& job);
/// The same without the sweep.
std::string short_name_of(const JobSnapshot& job);

std::vector<std::string> lanes_of(const JobSnapshot& job);
/// "gpu0", "gpu0-3"; "": none is known.
std::string lane_text_of(const JobSnapshot& job);
/// The node of a cluster, else the lane; "": none is known.
std::string place_of(const JobSnapshot& job);

bool is_live(const JobSnapshot& job);     // starting, running, stopping
bool is_waiting(const JobSnapshot& job);  // queued, held: what is known of an attempt is history
bool is_ended(const JobSnapshot& job);    // done, failed, timeout, cancelled, skipped, lost
/// Ended in a way that deserves a look at its log: failed, timeout, lost.
bool is_failure(const JobSnapshot& job);

/// What it reported of itself, else the text of `newest` (by job: metrics, or the last line of its
/// log).
std::string sign_of_life(const std::map<std::int64_t, std::string>& newest, const JobSnapshot& job);

/// Seconds of the newest attempt, up to `now_ns` (wall clock) for a live job; negative: none.
double elapsed_s(const JobSnapshot& job, std::int64_t now_ns);

std::map<std::string, std::int64_t> counts_of(const std::vector<JobSnapshot>& jobs);
/// "12 done, 1 failed, 3 queued", each count with its word; "no jobs".
std::string counts_text(const std::map<std::string, std::int64_t>& counts, const Style& style);

}  // namespace pergpu::view
