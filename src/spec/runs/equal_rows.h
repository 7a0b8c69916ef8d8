// Rows of one axis (a list of [grid], the rows of [zip] or of `runs`) that are equal: a mistake,
// but for words that only stand for the same number.
#pragma once

#include <string>

#include "spec/runs/run_table.h"
#include "spec/tree/report.h"

namespace pergpu {

/// Two different words are two runs: where rows are equal but for the spelling of a word (1e-4 and
/// 0.0001), those words that are not spelled as JSON spells them become strings.
void tell_words_apart(RunTable& table, Axis& axis);

/// Reports rows that say the same.  REQUIRES: tell_words_apart().
void report_equal_rows(Report& report, const RunTable& table, const Axis& axis);
/// The same of a list of one parameter.
void report_equal_values(Report& report, const RunTable& table, const Axis& axis,
                         const std::string& name);

}  // namespace pergpu
