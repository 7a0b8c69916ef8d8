// The shared memory of this user: what the coordinator holds, and what processes have.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cli/client/place.h"
#include "result.h"
#include "view/commands/segments.h"

namespace pergpu::cli {

/// One request to the coordinator's meeting place (broker/meeting_request.h), and the answer
/// to it.  ErrorKind::NotFound: no coordinator runs, and none is started.
Result<nlohmann::json> ask_meeting_place(
    const Place& place, const nlohmann::json& request,
    std::chrono::milliseconds patience = std::chrono::seconds(5));

/// What the coordinator holds, without who has it; empty where none answers in time.
std::vector<view::Segment> held_segments(const Place& place, std::chrono::milliseconds patience);

/// All of it, oldest first.  Where no coordinator answers, what processes have.
std::vector<view::Segment> find_segments(const Place& place);

}  // namespace pergpu::cli
