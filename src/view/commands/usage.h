// What an attempt used, in lines for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pergpu::view {

/// `usage`: of op `show`.  What is not known is left out; no lines: nothing is.
std::vector<std::string> usage_lines(const nlohmann::json& usage);

/// What was learned of jobs like this one.
std::string learnt_text(const nlohmann::json& learnt);

}  // namespace pergpu::view
