// The answer to `plan` as people read it: what runs where and when, how long it takes, the
// bottleneck.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "view/text/style.h"

namespace pergpu::view {

/// `plan` is what `pergpu plan --json` prints (docs/plan.md).
std::string plan_text(const nlohmann::json& plan, const Style& style);

/// What is to be said beside it, a sentence each: jobs that are held or would not start, lanes that
/// are left out.
std::vector<std::string> plan_notes(const nlohmann::json& plan);

/// Steps whose durations a plan lacks, and how to give them, a line each; `missing` is the list of
/// the coordinator's answer.
std::string missing_text(const nlohmann::json& missing);
/// "How long does a job of step train take (13 of thirteen)? "
std::string missing_question(const nlohmann::json& step);

}  // namespace pergpu::view
