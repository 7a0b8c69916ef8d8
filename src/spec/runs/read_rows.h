// `runs_from`: rows that lie in other files.  JSON lines, CSV, or a pattern of files with one run
// each (JSON, TOML or YAML).
#pragma once

#include <functional>
#include <string>

#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

/// Calls `visit` with each row, a table, in order.  `pattern` is relative to `folder`; files are
/// named in messages with `shown_folder` in front.  Mistakes are reported in those files, a file
/// that is missing at `at`.
void visit_rows(Report& report, const std::string& folder, const std::string& shown_folder,
                const std::string& pattern, Place at, const std::function<void(Node&&)>& visit);

/// The files that match, sorted, relative to `folder` as the pattern is.
std::vector<std::string> glob_files(const std::string& folder, const std::string& pattern);
bool is_glob(std::string_view pattern);

}  // namespace pergpu
