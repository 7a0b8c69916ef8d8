// Only scalars keep their text: lists and tables are rendered as their canonical JSON.
#include "spec/param_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "spec/canonical_json.h"
#include "spec/typed.h"

namespace pergpu {
namespace {

class Writer {
 public:
  Writer(Report& report, std::string_view name) : report_(report), name_(name) {}

  bool write(const Node& node, std::string& to) {
    switch (node.kind) {
      case Node::Kind::Null:
        to += "null";
        return true;
      case Node::Kind::Bool:
        to += node.integer != 0 ? "true" : "false";
        return true;
      case Node::Kind::Int:
        if (node.integer > kMaxExactInteger || node.integer < -kMaxExactInteger)
          return fail(node,
                      fmt::format("{} is beyond 2^53, where JSON readers lose digits; quote it "
                                  "to pass it as a text",
                                  node.text));
        to += canonical_number(static_cast<double>(node.integer));
        return true;
      case Node::Kind::Float:
        if (!std::isfinite(node.number))
          return fail(node,
                      fmt::format("{} cannot be written as JSON; quote it to pass it as a text",
                                  node.text));
        to += canonical_number(node.number);
        return true;
      case Node::Kind::String:
        if (node.text.find('\0') != std::string::npos)
          return fail(node, "it holds a NUL character, which no program could be given");
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
    report_.error(node.at, fmt::format("parameter `{}`: {}", name_, why));
    return false;
  }

  Report& report_;
  std::string_view name_;
};

}  // namespace

std::optional<ParamValue> param_value(Report& report, std::string_view name, const Node& node) {
  ParamValue out;
  if (!Writer(report, name).write(node, out.json)) return std::nullopt;
  bool keeps_text =
      node.is(Node::Kind::Int) || node.is(Node::Kind::Float) || node.is(Node::Kind::Bool);
  if (keeps_text && node.text != out.json) out.text = node.text;
  return out;
}

}  // namespace pergpu
