// What may be changed of a sweep that was submitted, as typed: `pergpu set SEL priority=5`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu {

/// Only what was given.
struct Settings {
  std::optional<int> priority = std::nullopt;      // of steps
  std::optional<int> weight = std::nullopt;        // of steps; 0: none
  std::optional<int> max_parallel = std::nullopt;  // of steps; 0: as many as there is room for
  std::optional<int> lanes = std::nullopt;         // of a sweep
  bool operator==(const Settings&) const = default;
};

/// The names, in the order in which they are documented.
inline constexpr std::string_view kSettings[] = {"priority", "weight", "max_parallel", "lanes"};

/// Looks like KEY=VALUE; a selector may have a `=` behind a `/` only.
bool is_setting(std::string_view word);

/// Invalid: nothing was given, or some of it cannot be; the message has every mistake.
Result<Settings> settings_of(const std::vector<std::string>& words);

}  // namespace pergpu
