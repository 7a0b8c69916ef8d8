// The runs of a sweep before they are written out: axes (a list of [grid], the rows of [zip] or of
// `runs`) whose product is the sweep, kept small enough for millions of rows.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spec/runs/param_value.h"
#include "spec/sweep/sweep.h"
#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

inline constexpr std::size_t kMaxRuns = 10'000'000;
/// Of the parameters of all runs together, as JSON: client and coordinator keep them in memory.
inline constexpr std::size_t kMaxRunsBytes = std::size_t{2} << 30;
inline constexpr std::size_t kMaxColumns = 2'000;

/// A parameter, by the number of its column.
struct Column {
  std::string name = {};
  Place at = {};  // where it is first named
  // Filled by expand():
  std::size_t present = 0;  // number of runs that have it
  Place missing_at = {};    // the row of the first run without it
  bool differs = false;
  bool broken = false;  // one of its values was refused: nothing further is said of it
};

/// All values in one block: a string object for each would cost more than the values.
class ValuePool {
 public:
  std::uint32_t add(const ParamValue& value);
  std::string_view json(std::uint32_t i) const {
    return std::string_view(block_).substr(entries_[i].begin, entries_[i].json_size);
  }
  std::string_view text(std::uint32_t i) const {
    return std::string_view(block_).substr(entries_[i].begin + entries_[i].json_size,
                                           entries_[i].text_size);
  }
  /// ParamValue::compared().
  std::string_view compared(std::uint32_t i) const {
    const Entry& entry = entries_[i];
    return entry.value_size == 0
               ? json(i)
               : std::string_view(block_).substr(entry.begin + entry.json_size + entry.text_size,
                                                 entry.value_size);
  }
  bool is_word(std::uint32_t i) const { return entries_[i].is_word; }

 private:
  struct Entry {
    std::uint64_t begin = 0;
    std::uint32_t json_size = 0;
    std::uint32_t text_size = 0;
    std::uint32_t value_size = 0;
    bool is_word = false;
  };
  std::string block_;
  std::vector<Entry> entries_;
};

struct Cell {
  std::uint32_t column = 0;
  std::uint32_t value = 0;  // of the pool
};

/// Rows, each with some of the columns.
struct Axis {
  std::vector<std::size_t> begins = {0};  // row i: cells[begins[i]] … cells[begins[i + 1]]
  std::vector<Cell> cells = {};
  std::vector<Place> places = {};  // of each row
  bool broken = false;             // a value of it was refused: what else is wrong is unknown

  std::size_t rows() const { return places.size(); }
  void end_row(Place at) {
    begins.push_back(cells.size());
    places.push_back(at);
  }
};

/// One [[exclude]]: a run that has one of the values in every column is left out.
struct Exclusion {
  struct Condition {
    std::uint32_t column = 0;
    std::vector<std::string> values = {};  // ParamValue::compared()
  };
  std::vector<Condition> all = {};
  Place at = {};
};

struct RunTable {
  std::vector<Column> columns = {};  // file order
  std::unordered_map<std::string, std::uint32_t> by_name = {};
  ValuePool pool = {};
  std::vector<Axis> axes = {};  // the first varies slowest
  std::vector<Exclusion> exclusions = {};

  std::uint32_t column(const std::string& name, Place at);
  const Column* find(std::string_view name) const;
};

/// All combinations of the axes' rows but the excluded ones, in order; fills in Column's facts.
/// Reports too many runs, no runs, and exclusions that match nothing.
std::vector<RunSpec> expand(Report& report, RunTable& table);

}  // namespace pergpu
