// `doctor`: what was looked at on this machine, and what came of each look.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "view/commands/segments.h"
#include "view/text/style.h"

namespace pergpu::view {

enum class FindingState : std::uint8_t {
  Ok,
  Note,     // as it is; good to know
  Unknown,  // could not be looked at
  Warning,  // works, and something may be lost or be slow
  Problem,  // something does not work
};
std::string_view to_string(FindingState state);
/// Warnings and problems.
bool is_to_mend(FindingState state);

struct Finding {
  std::string check = {};  // its name in docs/doctor.md
  FindingState state = FindingState::Ok;
  std::string what = {};  // "gpu3: the GPU is lost"
  std::string why = {};   // why it matters
  std::string mend = {};  // the command; lines of them, or of words; "": nothing can be done
};

std::string doctor_text(const std::vector<Finding>& findings, const Style& style);
/// docs/schema/doctor.json
nlohmann::json doctor_json(const std::vector<Finding>& findings,
                           const std::vector<Segment>& segments, std::string_view version);

}  // namespace pergpu::view
