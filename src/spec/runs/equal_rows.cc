// Rows are found equal by a hash of their cells: there may be millions.
#include "spec/runs/equal_rows.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "spec/text/canonical_json.h"

namespace pergpu {
namespace {

constexpr std::string_view kHowToRepeat =
    "to repeat runs, add a parameter: repeat = [1, 2, 3], or -g repeat=1..3";

std::span<const Cell> cells_of(const Axis& axis, std::size_t row) {
  return std::span(axis.cells).subspan(axis.begins[row], axis.begins[row + 1] - axis.begins[row]);
}

/// Words are what they are, numbers of files are equal when their values are.
std::string_view compared(const ValuePool& pool, std::uint32_t value) {
  return pool.is_word(value) ? pool.json(value) : pool.compared(value);
}

/// Cells in the order of their columns, so that the order of keys in a row does not matter.
std::string key_of(const RunTable& table, const Axis& axis, std::size_t row) {
  const std::span<const Cell> written = cells_of(axis, row);
  std::vector<Cell> cells(written.begin(), written.end());
  std::sort(cells.begin(), cells.end(),
            [](const Cell& a, const Cell& b) { return a.column < b.column; });
  std::string out;
  for (const Cell& cell : cells) {
    const std::string_view value = compared(table.pool, cell.value);
    out += fmt::format("{}:{}:", cell.column, value.size());
    out += value;
  }
  return out;
}

/// Rows with equal keys, each group in file order.
std::vector<std::vector<std::size_t>> equal_rows(const RunTable& table, const Axis& axis) {
  struct Hashed {
    std::uint64_t hash;
    std::size_t row;
  };
  std::vector<Hashed> hashes;
  hashes.reserve(axis.rows());
  for (std::size_t row = 0; row < axis.rows(); ++row) {
    const std::string key = key_of(table, axis, row);
    hashes.push_back({XXH3_64bits(key.data(), key.size()), row});
  }
  std::sort(hashes.begin(), hashes.end(), [](const Hashed& a, const Hashed& b) {
    return std::pair(a.hash, a.row) < std::pair(b.hash, b.row);
  });
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    const std::size_t row = hashes[i].row;
    const std::size_t before = hashes[i - 1].row;
    if (hashes[i].hash != hashes[i - 1].hash) continue;
    if (key_of(table, axis, row) != key_of(table, axis, before)) continue;
    if (groups.empty() || groups.back().back() != before) groups.push_back({before});
    groups.back().push_back(row);
  }
  return groups;
}

std::string_view text_in(const RunTable& table, const Axis& axis, std::size_t row,
                         std::uint32_t column) {
  for (const Cell& cell : cells_of(axis, row))
    if (cell.column == column) return table.pool.text(cell.value);
  return {};
}

ParamValue as_string(const ValuePool& pool, std::uint32_t value) {
  ParamValue out;
  append_json_string(out.json, pool.text(value));
  out.is_word = true;
  return out;
}

}  // namespace

void tell_words_apart(RunTable& table, Axis& axis) {
  for (const std::vector<std::size_t>& group : equal_rows(table, axis)) {
    for (std::size_t i = axis.begins[group[0]]; i < axis.begins[group[0] + 1]; ++i) {
      const std::uint32_t column = axis.cells[i].column;
      const std::string first(text_in(table, axis, group[0], column));
      const bool is_spelled_differently =
          std::any_of(group.begin(), group.end(),
                      [&](std::size_t row) { return text_in(table, axis, row, column) != first; });
      if (!is_spelled_differently) continue;
      for (std::size_t row : group) {
        for (std::size_t c = axis.begins[row]; c < axis.begins[row + 1]; ++c) {
          const Cell& cell = axis.cells[c];
          const bool changes = cell.column == column && table.pool.is_word(cell.value) &&
                               !table.pool.text(cell.value).empty();
          if (changes) axis.cells[c].value = table.pool.add(as_string(table.pool, cell.value));
        }
      }
    }
  }
}

void report_equal_rows(Report& report, const RunTable& table, const Axis& axis) {
  for (const std::vector<std::size_t>& group : equal_rows(table, axis)) {
    for (std::size_t i = 1; i < group.size(); ++i) {
      const Place at = axis.places[group[i]];
      report.error(at, fmt::format("this run has the same parameters as the one at {}; {}",
                                   refer(report, axis.places[group[i - 1]], at), kHowToRepeat));
    }
  }
}

void report_equal_values(Report& report, const RunTable& table, const Axis& axis,
                         const std::string& name) {
  for (const std::vector<std::size_t>& group : equal_rows(table, axis)) {
    const std::span<const Cell> cells = cells_of(axis, group[0]);
    if (cells.empty()) continue;  // its values were refused
    for (std::size_t i = 1; i < group.size(); ++i)
      report.error(axis.places[group[i]],
                   fmt::format("`{}` has the value {} twice; {}", name,
                               table.pool.compared(cells[0].value), kHowToRepeat));
  }
}

}  // namespace pergpu
