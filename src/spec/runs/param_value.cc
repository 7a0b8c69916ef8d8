// Only scalars keep their text: lists and tables are rendered as their JSON.
#include "spec/runs/param_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "spec/readers/readers.h"
#include "spec/text/canonical_json.h"
#include "spec/text/number_text.h"
#include "spec/tree/typed.h"

namespace pergpu {
namespace {

/// All digits, also of an integer that no 64 bits hold.
std::string integer_text(const Node& node) {
  std::string_view text = node.text;
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  if (text != "-0" && looks_like_json_integer(text)) return std::string(text);
  return std::to_string(node.integer);
}

/// How the numbers of a value are written.
enum class Numbers {
  Exact,      // integers with all their digits, floats with a point
  Canonical,  // by RFC 8785 to the letter, as doubles
};

class Writer {
 public:
  Writer(Report* report, std::string_view name, Numbers numbers)
      : report_(report), name_(name), numbers_(numbers) {}

  bool write(const Node& node, std::string& to) {
    switch (node.kind) {
      case Node::Kind::Null:
        to += "null";
        return true;
      case Node::Kind::Bool:
        to += node.integer != 0 ? "true" : "false";
        return true;
      case Node::Kind::Int:
        to += integer_text(node);
        return true;
      case Node::Kind::Float:
        if (!std::isfinite(node.number))
          return fail(
              node,
              fmt::format("{} can't be written as JSON; put it in quotes to pass it as a string",
                          node.text));
        to += numbers_ == Numbers::Exact ? float_text(node.number) : canonical_number(node.number);
        return true;
      case Node::Kind::String:
        if (node.text.find('\0') != std::string::npos)
          return fail(node, "it contains a NUL character, which can't be passed to a program");
        append_json_string(to, node.text);
        return true;
      case Node::Kind::List: {
        bool good = true;
        to += '[';
        for (std::size_t i = 0; i < node.items.size(); ++i) {
          if (i > 0) to += ',';
          good &= write(node.items[i], to);
        }
        to += ']';
        return good;
      }
      case Node::Kind::Table:
        return write_table(node, to);
    }
    return false;
  }

 private:
  bool write_table(const Node& node, std::string& to) {
    std::vector<std::size_t> order(node.keys.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return utf16_less(node.keys[a].text, node.keys[b].text);
    });
    bool good = true;
    bool first = true;
    to += '{';
    for (std::size_t i : order) {
      if (!first) to += ',';
      first = false;
      append_json_string(to, node.keys[i].text);
      to += ':';
      good &= write(node.items[i], to);
    }
    to += '}';
    return good;
  }

  bool fail(const Node& node, const std::string& why) {
    if (report_ != nullptr) report_->error(node.at, fmt::format("parameter `{}`: {}", name_, why));
    return false;
  }

  Report* report_;  // null: nothing is reported
  std::string_view name_;
  Numbers numbers_;
};

bool may_hold_floats(const Node& node) {
  return node.is(Node::Kind::Float) || node.is(Node::Kind::List) || node.is(Node::Kind::Table);
}

}  // namespace

std::optional<ParamValue> param_value(Report& report, std::string_view name, const Node& node) {
  ParamValue out;
  out.is_word = node.is_word;
  if (!Writer(&report, name, Numbers::Exact).write(node, out.json)) return std::nullopt;
  const bool keeps_text = node.is(Node::Kind::Int) || node.is(Node::Kind::Float) ||
                          node.is(Node::Kind::Bool) || (node.is(Node::Kind::Null) && node.is_word);
  if (keeps_text && node.text != out.json) out.text = node.text;
  if (!may_hold_floats(node)) return out;
  Writer(nullptr, name, Numbers::Canonical).write(node, out.value);
  if (out.value == out.json) out.value.clear();
  return out;
}

}  // namespace pergpu
