// A list keeps its place in [grid], so that the order of the runs does not change; any other value
// becomes a constant.
#include "spec/schema/overrides.h"

#include <fmt/core.h>

#include <algorithm>

#include "spec/runs/word_list.h"
#include "spec/templates/placeholders.h"
#include "spec/text/source_text.h"

namespace pergpu {
namespace {

void erase(Node& table, std::string_view name) {
  for (std::size_t i = 0; i < table.keys.size(); ++i)
    if (table.keys[i].text == name) {
      table.keys.erase(table.keys.begin() + static_cast<std::ptrdiff_t>(i));
      table.items.erase(table.items.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
}

Node* member(Node& table, std::string_view name) {
  for (std::size_t i = 0; i < table.keys.size(); ++i)
    if (table.keys[i].text == name) return &table.items[i];
  return nullptr;
}

/// The section, made when the file has none; null when it is no table (reported elsewhere).
Node* section(Node& root, std::string_view name, Place at) {
  Node* found = member(root, name);
  if (found == nullptr) {
    Node table;
    table.kind = Node::Kind::Table;
    table.at = at;
    root.keys.push_back({std::string(name), at});
    root.items.push_back(std::move(table));
    found = &root.items.back();
  }
  return found->is(Node::Kind::Table) ? found : nullptr;
}

bool is_in_tree(Node& root, std::string_view name) {
  for (std::string_view section_name : {"grid", "zip", "constants"})
    if (Node* table = member(root, section_name);
        table != nullptr && member(*table, name) != nullptr)
      return true;
  Node* rows = member(root, "runs");
  return rows != nullptr && std::any_of(rows->items.begin(), rows->items.end(),
                                        [&](Node& row) { return member(row, name) != nullptr; });
}

bool is_list(const Node& value) {
  return value.is(Node::Kind::List) ||
         (value.is(Node::Kind::Table) &&
          (value.find("glob") != nullptr ||
           (value.find("from") != nullptr && value.find("to") != nullptr)));
}

void put(Node& root, const Key& key, Node value) {
  for (std::string_view name : {"zip", "constants"})
    if (Node* table = member(root, name); table != nullptr) erase(*table, key.text);
  if (Node* rows = member(root, "runs"); rows != nullptr)
    for (Node& row : rows->items) erase(row, key.text);
  bool list = is_list(value);
  Node* grid = list ? section(root, "grid", key.at) : member(root, "grid");
  if (grid != nullptr && list) {
    if (Node* old = member(*grid, key.text); old != nullptr) {
      *old = std::move(value);
      return;
    }
    grid->keys.push_back(key);
    grid->items.push_back(std::move(value));
    return;
  }
  if (grid != nullptr) erase(*grid, key.text);
  Node* constants = section(root, "constants", key.at);
  if (constants == nullptr) return;
  constants->keys.push_back(key);
  constants->items.push_back(std::move(value));
}

}  // namespace

std::vector<Key> apply_overrides(
    Report& report, Node& root, const std::vector<std::pair<std::string, std::string>>& overrides) {
  std::vector<std::string> seen;
  std::vector<Key> not_in_tree;
  for (const auto& [name, text] : overrides) {
    Place at{report.add_source(fmt::format("-p {}={}", name, text), text), 0, 0};
    if (!is_identifier(name)) {
      report.error(
          at,
          fmt::format("-p expects NAME=VALUE, where NAME is a parameter name, not \"{}\"", name));
      continue;
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      report.error(at, fmt::format("-p {} is given twice", name));
      continue;
    }
    seen.push_back(name);
    if (!is_in_tree(root, name)) {
      not_in_tree.push_back({name, at});
      // A parameter that is in no section would be one more of every run.
      if (member(root, "runs_from") == nullptr) continue;
    }
    if (find_invalid_utf8(text) != std::string_view::npos) {
      report.error(at, "not valid UTF-8");
      continue;
    }
    if (std::optional<Node> value = read_word_value(report, name, text, at))
      put(root, {name, at}, *std::move(value));
  }
  return not_in_tree;
}

}  // namespace pergpu
