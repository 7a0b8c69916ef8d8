// The sections that make the runs -> RunTable.  They multiply: every row of `runs` (or `runs_from`)
// with every row of [zip] with every combination of [grid]; [constants] are added to each.  In this
// order, the last key of [grid] varying fastest.  A parameter is given in one section only.
#include <fmt/core.h>

#include <algorithm>

#include "spec/runs/equal_rows.h"
#include "spec/runs/param_value.h"
#include "spec/runs/read_rows.h"
#include "spec/schema/draft.h"
#include "spec/schema/value_list.h"
#include "spec/templates/path_text.h"
#include "spec/templates/placeholders.h"
#include "spec/text/suggest.h"

namespace pergpu {
namespace {

class RunsReader {
 public:
  RunsReader(Draft& draft, const Node& root)
      : draft_(draft), report_(draft.report), table_(draft.runs), root_(root) {}

  void read() {
    // Columns in file order, whatever order the axes have.
    for (std::size_t i = 0; i < root_.keys.size(); ++i) {
      const std::string& key = root_.keys[i].text;
      const Node& node = root_.items[i];
      if (!has_type_of_section(key, node)) draft_.runs_are_incomplete = true;
      if (key == "grid") read_grid(node);
      if (key == "zip") read_zip(node);
      if (key == "runs") read_rows(node);
      if (key == "runs_from") read_rows_from(root_.keys[i], node);
      if (key == "constants") read_constants(node);
    }
    add_axis(std::move(rows_));
    add_axis(std::move(zip_));
    for (Axis& axis : grid_) table_.axes.push_back(std::move(axis));
    // Beside rows with different columns only this one axis has an unknown number of cells.
    add_axis(std::move(constants_));
    if (const Node* exclude = root_.find("exclude"); exclude != nullptr) read_exclusions(*exclude);
    check_names();
    check_overrides();
  }

 private:
  static bool has_type_of_section(std::string_view key, const Node& node) {
    if (key == "grid" || key == "zip" || key == "constants") return node.is(Node::Kind::Table);
    return key != "runs" || node.is(Node::Kind::List);
  }

  void add_axis(Axis axis) {
    if (axis.rows() > 0) table_.axes.push_back(std::move(axis));
  }

  /// The column of `key`, which belongs to `section` alone.
  std::optional<std::uint32_t> column(const Key& key, const std::string& section) {
    if (table_.columns.size() >= kMaxColumns && table_.find(key.text) == nullptr) {
      report_.error(key.at, fmt::format("more than {} parameters", kMaxColumns));
      return std::nullopt;
    }
    std::uint32_t c = table_.column(key.text, key.at);
    if (c == sections_.size()) {
      sections_.push_back(section);
    } else if (sections_[c] != section) {
      report_.error(key.at,
                    fmt::format("parameter `{}` is given twice; first in {} at {}", key.text,
                                sections_[c], refer(report_, table_.columns[c].at, key.at)));
      return std::nullopt;
    }
    return c;
  }

  void add_cell(Axis& axis, std::uint32_t c, const Node& value) {
    std::optional<ParamValue> v = param_value(report_, table_.columns[c].name, value);
    const bool is_good = v && !value.is_broken;
    if (is_good) axis.cells.push_back({c, table_.pool.add(*v)});
    if (!is_good) table_.columns[c].broken = axis.broken = true;
  }

  void check_equal(Axis& rows) {
    tell_words_apart(table_, rows);
    if (!rows.broken) report_equal_rows(report_, table_, rows);
  }

  void read_grid(const Node& node) {
    if (!expect_table({report_, "grid", node})) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      std::optional<std::uint32_t> c = column(node.keys[i], "[grid]");
      auto values = value_list(report_, draft_.folder, node.keys[i].text, node.items[i]);
      if (!values && c) table_.columns[*c].broken = true;
      if (!values || !c) continue;
      Axis axis;
      for (const Node& value : *values) {
        add_cell(axis, *c, value);
        axis.end_row(value.at);
      }
      tell_words_apart(table_, axis);
      if (!axis.broken) report_equal_values(report_, table_, axis, node.keys[i].text);
      grid_.push_back(std::move(axis));
    }
  }

  void read_zip(const Node& node) {
    if (!expect_table({report_, "zip", node})) return;
    std::vector<std::pair<std::uint32_t, std::vector<Node>>> lists;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      std::optional<std::uint32_t> c = column(node.keys[i], "[zip]");
      auto values = value_list(report_, draft_.folder, node.keys[i].text, node.items[i]);
      if (!values && c) table_.columns[*c].broken = true;
      if (!values || !c) continue;
      if (!lists.empty() && lists[0].second.size() != values->size()) {
        report_.error(
            node.items[i].at,
            fmt::format("lists of [zip] must have equal lengths: `{}` has {} values, `{}` has {}",
                        table_.columns[lists[0].first].name, lists[0].second.size(),
                        node.keys[i].text, values->size()));
        continue;
      }
      lists.emplace_back(*c, *std::move(values));
    }
    if (lists.empty()) return;
    for (std::size_t row = 0; row < lists[0].second.size(); ++row) {
      for (const auto& [c, values] : lists) add_cell(zip_, c, values[row]);
      zip_.end_row(lists[0].second[row].at);
    }
    check_equal(zip_);
  }

  void add_row(const Node& row, const std::string& section) {
    if (!row.is(Node::Kind::Table)) {
      report_.error(row.at,
                    fmt::format("a run must be a table of parameters, not {}", describe(row)));
      return;
    }
    for (std::size_t i = 0; i < row.keys.size(); ++i) {
      if (is_overridden(row.keys[i].text)) {
        std::erase_if(draft_.unmatched_overrides,
                      [&](const Key& key) { return key.text == row.keys[i].text; });
        continue;
      }
      std::optional<std::uint32_t> c = column(row.keys[i], section);
      if (c) add_cell(rows_, *c, row.items[i]);
    }
    rows_.end_row(row.at);
  }

  bool is_overridden(const std::string& name) const {
    return std::any_of(draft_.options.overrides.begin(), draft_.options.overrides.end(),
                       [&](const auto& o) { return o.first == name; });
  }

  void read_rows(const Node& node) {
    if (!node.is(Node::Kind::List)) {
      wrong_type({report_, "runs", node}, "a list of tables ([[runs]] in TOML)");
      return;
    }
    if (node.items.empty()) report_.error(node.at, "`runs` is empty; it needs at least one run");
    for (const Node& row : node.items) add_row(row, "`runs`");
    check_equal(rows_);
  }

  void read_rows_from(const Key& key, const Node& node) {
    if (root_.find("runs") != nullptr)
      report_.error(key.at, "`runs` and `runs_from` are both given; use only one of them");
    const std::size_t errors_before = report_.errors();
    std::optional<std::string> pattern = read_nonempty_text({report_, "runs_from", node});
    if (!pattern) {
      draft_.runs_are_incomplete = true;
      return;
    }
    Result<std::string> expanded = expand_path(*pattern);
    if (!expanded) {
      report_.error(node.at, fmt::format("`runs_from`: {}", expanded.error().message));
      draft_.runs_are_incomplete = true;
      return;
    }
    pattern = *std::move(expanded);
    visit_rows(report_, draft_.folder, draft_.shown_folder, *pattern, node.at,
               [&](Node&& row) { add_row(row, "`runs_from`"); });
    if (rows_.rows() == 0 && !report_.incomplete() && !report_.failed())
      report_.error(node.at, fmt::format("`runs_from`: \"{}\" has no rows", *pattern));
    // A row that could not be read may have any parameter.
    if (report_.errors() > errors_before) draft_.runs_are_incomplete = true;
    if (root_.find("runs") == nullptr) check_equal(rows_);
  }

  void read_constants(const Node& node) {
    if (!expect_table({report_, "constants", node})) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      std::optional<std::uint32_t> c = column(node.keys[i], "[constants]");
      if (c) add_cell(constants_, *c, node.items[i]);
    }
    constants_.end_row(node.at);
  }

  void read_exclusions(const Node& node) {
    if (!node.is(Node::Kind::List)) {
      wrong_type({report_, "exclude", node}, "a list of tables ([[exclude]] in TOML)");
      return;
    }
    std::vector<std::string_view> names;
    for (const Column& c : table_.columns) names.push_back(c.name);
    for (const Node& item : node.items) {
      if (!expect_table({report_, "exclude[]", item})) continue;
      Exclusion exclusion;
      exclusion.at = item.at;
      bool good = true;
      for (std::size_t i = 0; i < item.keys.size(); ++i) {
        const Key& key = item.keys[i];
        auto found = table_.by_name.find(key.text);
        if (found == table_.by_name.end()) {
          good = false;
          if (!report_.incomplete() && !draft_.runs_are_incomplete)
            report_.error(key.at, fmt::format("[[exclude]]: unknown parameter `{}`{}", key.text,
                                              did_you_mean(key.text, names)));
          continue;
        }
        Exclusion::Condition condition;
        condition.column = found->second;
        std::vector<Node> one = {item.items[i]};
        const std::vector<Node>& values =
            item.items[i].is(Node::Kind::List) ? item.items[i].items : one;
        for (const Node& value : values) {
          good = good && !value.is_broken;
          if (std::optional<ParamValue> v = param_value(report_, key.text, value))
            condition.values.push_back(v->compared());
        }
        exclusion.all.push_back(std::move(condition));
      }
      if (item.keys.empty()) report_.error(item.at, "an empty [[exclude]] would remove all runs");
      const bool is_known =
          std::none_of(exclusion.all.begin(), exclusion.all.end(),
                       [&](const auto& one) { return table_.columns[one.column].broken; });
      if (good && is_known && !item.keys.empty()) table_.exclusions.push_back(std::move(exclusion));
    }
  }

  void check_names() {
    std::unordered_map<std::string, const Column*> upper;
    for (const Column& c : table_.columns) {
      if (!is_identifier(c.name)) {
        report_.error(c.at, fmt::format("a parameter can't be named `{}`: use only letters, digits "
                                        "and _, and don't start with a digit",
                                        c.name));
        continue;
      }
      const std::optional<Builtin> builtin = builtin_of(c.name);
      if (builtin && !is_several_words(*builtin))
        report_.error(
            c.at, fmt::format("a parameter can't be named `{0}`: {{{0}}} is a built-in placeholder",
                              c.name));
      for (const StepDraft& step : draft_.steps)
        if (step.spec.name == c.name)
          report_.error(c.at, fmt::format("parameter `{}` has the same name as the step at line {}",
                                          c.name, step.at.line));
      auto [other, is_new] = upper.emplace(param_env_name(c.name), &c);
      if (!is_new)
        report_.error(c.at, fmt::format("parameters `{}` and `{}` differ only in case, so both "
                                        "would be ${} in a job; rename one of them",
                                        other->second->name, c.name, other->first));
    }
  }

  /// -p only replaces: a typing mistake would be a new parameter of every run, so that all of them
  /// would be done again.
  void check_overrides() {
    const std::vector<Key>& unmatched = draft_.unmatched_overrides;
    // Rows that could not be read may have the name.
    if (report_.incomplete() || (root_.find("runs_from") != nullptr && report_.failed())) return;
    const auto is_unmatched = [&](std::string_view name) {
      return std::any_of(unmatched.begin(), unmatched.end(),
                         [&](const Key& key) { return key.text == name; });
    };
    std::vector<std::string_view> names;
    for (const Column& c : table_.columns)
      if (!is_unmatched(c.name)) names.push_back(c.name);
    for (const Key& key : unmatched) {
      std::string hint = did_you_mean(key.text, names);
      if (hint.empty()) hint = "; -p only replaces parameters: add it to [constants] or [grid]";
      report_.error(key.at, fmt::format("the file has no parameter `{}`{}", key.text, hint));
    }
  }

  Draft& draft_;
  Report& report_;
  RunTable& table_;
  const Node& root_;
  std::vector<std::string> sections_;  // of each column
  std::vector<Axis> grid_;
  Axis zip_;
  Axis rows_;
  Axis constants_;
};

}  // namespace

void read_runs(Draft& draft, const Node& root) { RunsReader(draft, root).read(); }

}  // namespace pergpu
