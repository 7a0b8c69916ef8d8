// The folder name of a run: "03-method=edm,seed=2".  Given once, at first submit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/sweep/sweep.h"
#include "spec/templates/run_parameters.h"

namespace pergpu {

inline constexpr std::size_t kMaxRunNameBytes = 80;

/// `index` padded with zeros to the digits of `count - 1`, at least two, then the `columns` that
/// the run has, but for those with a secret's name (job/redact.h).  Only [A-Za-z0-9._=,+-]; other
/// bytes become `_`; at most kMaxRunNameBytes, where what was cut is stood for by a short hash.
/// Starts with a digit, so it is never empty, "." or "..".
std::string run_folder_name(const RunParameters& parameters, std::int64_t index, std::int64_t count,
                            const std::vector<std::string>& columns);
/// The same; a run whose JSON is damaged is named by its index alone.
std::string run_folder_name(const RunSpec& run, std::int64_t index, std::int64_t count,
                            const std::vector<std::string>& columns);

}  // namespace pergpu
