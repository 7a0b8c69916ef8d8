// The newest line of a metrics.jsonl as (name, text) pairs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pergpu::view {

using Metrics = std::vector<std::pair<std::string, std::string>>;

/// The scalars of one line, in the order written; empty when the line is no JSON object.  Nested
/// values are left out.
Metrics metrics_of_line(std::string_view line);

/// The same with nothing rounded: each value as JSON text ("0.41", "\"warm-up\"").  NaN and the
/// infinities, which JSON lacks, are the strings "nan", "inf" and "-inf".
Metrics exact_metrics_of_line(std::string_view line);

/// "step 100, loss 0.41".
std::string metrics_text(const Metrics& metrics);

}  // namespace pergpu::view
