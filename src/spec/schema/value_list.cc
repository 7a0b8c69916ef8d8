// Ranges are snapped to few enough digits that 0.1 + 2 * 0.1 is 0.3 and that the last bit of pow()
// cannot make the parameters, and so the identity of jobs, differ from machine to machine.
#include "spec/schema/value_list.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <span>

#include "spec/runs/read_rows.h"
#include "spec/templates/path_text.h"
#include "spec/text/canonical_json.h"
#include "spec/text/number_text.h"
#include "spec/text/source_text.h"
#include "spec/text/suggest.h"
#include "spec/tree/typed.h"

namespace pergpu {
namespace {

constexpr int kLinearDigits = 15;
constexpr int kLogDigits = 12;
constexpr KeyType kCount = takes::whole(2, 1'000'000);
constexpr std::array<std::string_view, 2> kScales = {"linear", "log"};

constexpr KnownKey kGlob[] = {
    {"glob", takes::text(), "",
     "files that match this pattern, sorted, as paths relative to the sweep file", true},
};
constexpr KnownKey kRange[] = {
    {"from", takes::only(KeyType::Kind::Number), "", "the first number", true},
    {"to", takes::only(KeyType::Kind::Number), "", "the last number", true},
    {"n", kCount, "", "number of values, including both ends", true},
    {"scale", takes::choice(kScales), "`\"linear\"`",
     "`\"linear\"`: equal steps; `\"log\"`: equal factors"},
};

/// An integer only between integers.
Node number_node(double value, bool between_floats, Place at) {
  Node node;
  node.at = at;
  node.text = canonical_number(value);
  node.number = value;
  bool whole = !between_floats && value == std::floor(value) &&
               std::fabs(value) <= static_cast<double>(kMaxExactInteger);
  node.kind = whole ? Node::Kind::Int : Node::Kind::Float;
  if (whole) node.integer = static_cast<std::int64_t>(value);
  return node;
}

class ListReader {
 public:
  ListReader(Report& report, const std::string& folder, std::string_view name, const Node& node)
      : report_(report), folder_(folder), name_(name), node_(node) {}

  std::optional<std::vector<Node>> read() {
    switch (node_.kind) {
      case Node::Kind::List:
        return written_out();
      case Node::Kind::Table:
        if (node_.find("glob") != nullptr) return glob();
        if (node_.find("from") != nullptr || node_.find("to") != nullptr) return range();
        fail(node_.at, "must be a list, {glob = …} or {from = …, to = …, n = …}");
        return std::nullopt;
      case Node::Kind::Null:
      case Node::Kind::Bool:
      case Node::Kind::Int:
      case Node::Kind::Float:
      case Node::Kind::String:
        fail(node_.at, fmt::format("must be a list, not {}; a single value belongs in [constants]",
                                   describe(node_)));
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  void fail(Place at, std::string_view why) {
    report_.error(at, fmt::format("`{}` {}", name_, why));
  }

  std::optional<std::vector<Node>> written_out() {
    if (node_.items.empty()) {
      fail(node_.at, "is an empty list; it needs at least one value");
      return std::nullopt;
    }
    bool good = true;
    for (const Node& item : node_.items)
      if (item.is(Node::Kind::Table) && item.find("glob") != nullptr) {
        fail(item.at, fmt::format("has a glob inside its list; write {} = {{ glob = … }}", name_));
        good = false;
      }
    if (!good) return std::nullopt;
    return node_.items;
  }

  bool only(std::span<const KnownKey> rows) {
    bool good = true;
    std::vector<std::string_view> known;
    for (const KnownKey& row : rows) known.push_back(row.name);
    for (const Key& key : node_.keys) {
      bool found = false;
      for (std::string_view k : known) found |= key.text == k;
      if (!found)
        fail(key.at,
             fmt::format("has the unknown key `{}`{}", key.text, did_you_mean(key.text, known)));
      good &= found;
    }
    return good;
  }

  std::optional<std::vector<Node>> glob() {
    if (!only(kGlob)) return std::nullopt;
    const Node& pattern = *node_.find("glob");
    std::string key = fmt::format("{}.glob", name_);
    std::optional<std::string> text = read_nonempty_text({report_, key, pattern});
    if (!text) return std::nullopt;
    const Result<std::string> expanded = expand_path(*text);
    if (!expanded) {
      fail(pattern.at, expanded.error().message);
      return std::nullopt;
    }
    std::vector<Node> out;
    for (std::string& file : glob_files(folder_, *expanded)) {
      if (find_invalid_utf8(file) != std::string_view::npos) {
        fail(pattern.at, fmt::format("\"{}\" matches a file whose name is not valid UTF-8: \"{}\"; "
                                     "rename it, or change the pattern",
                                     *text, with_bytes_escaped(file)));
        return std::nullopt;
      }
      Node node;
      node.kind = Node::Kind::String;
      node.at = pattern.at;
      node.text = std::move(file);
      out.push_back(std::move(node));
    }
    if (out.empty()) {
      fail(pattern.at, fmt::format("is empty: no file matches \"{}\"", *expanded));
      return std::nullopt;
    }
    return out;
  }

  std::optional<double> bound(std::string_view which) {
    const Node* node = node_.find(which);
    if (node == nullptr) {
      fail(node_.at, fmt::format("lacks `{}`", which));
      return std::nullopt;
    }
    bool number = node->is(Node::Kind::Int) || node->is(Node::Kind::Float);
    if (!number || !std::isfinite(node->number)) {
      std::string key = fmt::format("{}.{}", name_, which);
      wrong_type({report_, key, *node}, "a number");
      return std::nullopt;
    }
    return node->number;
  }

  std::optional<std::vector<Node>> range() {
    bool good = only(kRange);
    std::optional<double> from = bound("from");
    std::optional<double> to = bound("to");
    std::optional<std::int64_t> n;
    std::string n_key = fmt::format("{}.n", name_);
    if (const Node* count = node_.find("n"); count != nullptr) {
      n = read_whole({report_, n_key, *count}, kCount.min, kCount.max);
    } else {
      fail(node_.at, "lacks `n`, the number of values");
    }
    bool log = false;
    if (const Node* scale = node_.find("scale"); scale != nullptr) {
      std::string key = fmt::format("{}.scale", name_);
      std::optional<std::size_t> choice =
          read_choice({report_, key, *scale}, {kScales.begin(), kScales.end()});
      good &= choice.has_value();
      log = choice == 1U;
    }
    if (!good || !from || !to || !n) return std::nullopt;
    if (log && (*from <= 0 || *to <= 0)) {
      fail(node_.at, "has a log scale, so `from` and `to` must be greater than 0");
      return std::nullopt;
    }
    if (*from == *to) {
      fail(node_.at, "has the same number for `from` and `to`");
      return std::nullopt;
    }
    std::vector<Node> out;
    const bool floats =
        node_.find("from")->is(Node::Kind::Float) || node_.find("to")->is(Node::Kind::Float);
    for (std::int64_t i = 0; i < *n; ++i) {
      // The ends are as written, digit for digit.
      const Node* end = i == 0 ? node_.find("from") : i + 1 == *n ? node_.find("to") : nullptr;
      if (end != nullptr) {
        out.push_back(*end);
        continue;
      }
      double part = static_cast<double>(i) / static_cast<double>(*n - 1);
      double value = log ? std::pow(10.0, std::log10(*from) * (1 - part) + std::log10(*to) * part)
                         : *from * (1 - part) + *to * part;
      std::string digits = fmt::format("{:.{}g}", value, log ? kLogDigits : kLinearDigits);
      out.push_back(number_node(to_double(digits), floats, node_.at));
    }
    return out;
  }

  Report& report_;
  const std::string& folder_;
  std::string_view name_;
  const Node& node_;
};

}  // namespace

std::vector<KnownKey> glob_keys() { return {std::begin(kGlob), std::end(kGlob)}; }
std::vector<KnownKey> range_keys() { return {std::begin(kRange), std::end(kRange)}; }

std::optional<std::vector<Node>> value_list(Report& report, const std::string& folder,
                                            std::string_view name, const Node& node) {
  return ListReader(report, folder, name, node).read();
}

}  // namespace pergpu
