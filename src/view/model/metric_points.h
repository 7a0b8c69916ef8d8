// A metrics.jsonl as points of charts.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace pergpu::view {

/// {"schema":1,"names":[…],"points":[{…}…]}: of each line of `text` that is an object its numbers,
/// in order; of more than `most` lines evenly chosen ones, the newest among them.  `names`: of all
/// points, in order of appearance.  Lines that hold no number are passed over.
nlohmann::json metric_points(std::string_view text, std::size_t most);

}  // namespace pergpu::view
