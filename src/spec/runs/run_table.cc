// The axes turn like an odometer, the last one fastest; only the cells of the axes that moved are
// changed between two runs.  Columns are written in the order of canonical JSON, sorted once.
#include "spec/runs/run_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "spec/text/canonical_json.h"

namespace pergpu {
namespace {

constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

class Expansion {
 public:
  Expansion(Report& report, RunTable& table)
      : report_(report),
        table_(table),
        current_(table.columns.size(), kAbsent),
        first_(table.columns.size(), kAbsent),
        row_(table.axes.size(), 0),
        hits_(table.exclusions.size(), 0) {
    for (std::uint32_t c = 0; c < table.columns.size(); ++c) order_.push_back(c);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return utf16_less(table.columns[a].name, table.columns[b].name);
    });
    for (std::uint32_t c : order_) {
      std::string prefix;
      append_json_string(prefix, table.columns[c].name);
      prefixes_.push_back(prefix + ":");
    }
  }

  std::vector<RunSpec> all() {
    std::vector<RunSpec> runs;
    std::size_t count = 1;
    for (const Axis& axis : table_.axes) {
      if (axis.rows() == 0) return runs;  // reported where the list is empty
      if (count > kMaxRuns / axis.rows()) {
        report_.error(axis.places[0],
                      fmt::format("the lists multiply to more than {} runs", kMaxRuns));
        return runs;
      }
      count *= axis.rows();
    }
    if (table_.exclusions.empty()) runs.reserve(count);
    for (std::size_t a = 0; a < table_.axes.size(); ++a) enter_row(a);
    std::size_t bytes = 0;
    do {
      if (is_excluded()) continue;
      runs.push_back(write_run(runs.empty()));
      bytes += runs.back().json.size() + runs.back().texts.size();
      if (bytes > kMaxRunsBytes) return too_large(runs);
    } while (advance());
    finish(runs);
    return runs;
  }

 private:
  /// Values of a megabyte may stand in a million runs.
  std::vector<RunSpec> too_large(const std::vector<RunSpec>& runs) {
    std::uint32_t longest = kAbsent;
    for (std::uint32_t c = 0; c < current_.size(); ++c) {
      const bool is_longer = current_[c] != kAbsent &&
                             (longest == kAbsent || table_.pool.json(current_[c]).size() >
                                                        table_.pool.json(current_[longest]).size());
      if (is_longer) longest = c;
    }
    report_.error(longest == kAbsent ? Place{} : table_.columns[longest].at,
                  fmt::format("the parameters of all runs would exceed {} GiB (at run {}); put "
                              "`{}` into a file, and its path into the sweep",
                              kMaxRunsBytes >> 30, runs.size() - 1,
                              longest == kAbsent ? "" : table_.columns[longest].name));
    return {};
  }

  void enter_row(std::size_t a) {
    const Axis& axis = table_.axes[a];
    for (std::size_t i = axis.begins[row_[a]]; i < axis.begins[row_[a] + 1]; ++i)
      current_[axis.cells[i].column] = axis.cells[i].value;
  }
  void leave_row(std::size_t a) {
    const Axis& axis = table_.axes[a];
    for (std::size_t i = axis.begins[row_[a]]; i < axis.begins[row_[a] + 1]; ++i)
      current_[axis.cells[i].column] = kAbsent;
  }

  bool advance() {
    for (std::size_t a = table_.axes.size(); a-- > 0;) {
      leave_row(a);
      bool wraps = ++row_[a] == table_.axes[a].rows();
      if (wraps) row_[a] = 0;
      enter_row(a);
      if (!wraps) return true;
    }
    return false;
  }

  bool is_excluded() {
    bool any = false;
    for (std::size_t e = 0; e < table_.exclusions.size(); ++e) {
      const Exclusion& exclusion = table_.exclusions[e];
      bool matches = std::all_of(
          exclusion.all.begin(), exclusion.all.end(), [&](const Exclusion::Condition& c) {
            std::uint32_t value = current_[c.column];
            return value != kAbsent && std::find(c.values.begin(), c.values.end(),
                                                 table_.pool.compared(value)) != c.values.end();
          });
      if (matches) ++hits_[e];
      any |= matches;
    }
    return any;
  }

  RunSpec write_run(bool is_first) {
    RunSpec run;
    std::string& json = scratch_;
    json = "{";
    for (std::size_t i = 0; i < order_.size(); ++i) {
      std::uint32_t c = order_[i];
      std::uint32_t value = current_[c];
      note(c, value, is_first);
      if (value == kAbsent) continue;
      if (json.size() > 1) json += ',';
      json += prefixes_[i];
      json += table_.pool.json(value);
      std::string_view text = table_.pool.text(value);
      if (text.empty()) continue;
      run.texts += run.texts.empty() ? '{' : ',';
      run.texts += prefixes_[i];
      append_json_string(run.texts, text);
    }
    json += '}';
    if (!run.texts.empty()) {
      run.texts += '}';
      run.texts.shrink_to_fit();
    }
    run.json = std::string(json);  // no spare capacity: there may be millions
    return run;
  }

  void note(std::uint32_t c, std::uint32_t value, bool is_first) {
    Column& column = table_.columns[c];
    if (value != kAbsent) ++column.present;
    if (is_first) first_[c] = value;
    if (value == kAbsent && column.missing_at.line == 0) column.missing_at = place_of_rows();
    if (value == first_[c] || column.differs) return;
    column.differs = value == kAbsent || first_[c] == kAbsent ||
                     table_.pool.json(value) != table_.pool.json(first_[c]);
  }

  /// The row that makes this run lack something: only `runs` rows may differ in their columns.
  Place place_of_rows() const {
    return table_.axes.empty() ? Place{} : table_.axes[0].places[row_[0]];
  }

  void finish(const std::vector<RunSpec>& runs) {
    for (std::size_t e = 0; e < hits_.size(); ++e)
      if (hits_[e] == 0) report_.warning(table_.exclusions[e].at, "this exclude matches no run");
    if (runs.empty() && !table_.exclusions.empty())
      report_.error(table_.exclusions.back().at, "no runs left: [[exclude]] removes all of them");
  }

  Report& report_;
  RunTable& table_;
  std::vector<std::uint32_t> current_;  // the value of each column in this run
  std::vector<std::uint32_t> first_;    // and in the first run
  std::vector<std::size_t> row_;        // of each axis
  std::vector<std::size_t> hits_;       // of each exclusion
  std::vector<std::uint32_t> order_;    // columns in the order of canonical JSON
  std::vector<std::string> prefixes_;   // `"name":` in that order
  std::string scratch_;
};

}  // namespace

std::uint32_t ValuePool::add(const ParamValue& value) {
  Entry entry;
  entry.begin = block_.size();
  entry.json_size = static_cast<std::uint32_t>(value.json.size());
  entry.text_size = static_cast<std::uint32_t>(value.text.size());
  entry.value_size = static_cast<std::uint32_t>(value.value.size());
  entry.is_word = value.is_word;
  block_ += value.json;
  block_ += value.text;
  block_ += value.value;
  entries_.push_back(entry);
  return static_cast<std::uint32_t>(entries_.size() - 1);
}

std::uint32_t RunTable::column(const std::string& name, Place at) {
  auto [found, is_new] = by_name.emplace(name, static_cast<std::uint32_t>(columns.size()));
  if (is_new) {
    Column c;
    c.name = name;
    c.at = at;
    columns.push_back(std::move(c));
  }
  return found->second;
}

const Column* RunTable::find(std::string_view name) const {
  auto found = by_name.find(std::string(name));
  return found == by_name.end() ? nullptr : &columns[found->second];
}

std::vector<RunSpec> expand(Report& report, RunTable& table) {
  return Expansion(report, table).all();
}

}  // namespace pergpu
