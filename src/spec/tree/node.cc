// How values are called in messages.
#include "spec/tree/node.h"

#include <fmt/core.h>

namespace pergpu {

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Null:
      return "nothing";
    case Node::Kind::Bool:
      return fmt::format("{}", node.text);
    case Node::Kind::Int:
    case Node::Kind::Float:
      return fmt::format("the number {}", node.text);
    case Node::Kind::String:
      return node.text.size() > 60 ? fmt::format("a string of {} bytes", node.text.size())
                                   : fmt::format("the string \"{}\"", node.text);
    case Node::Kind::List:
      return "a list";
    case Node::Kind::Table:
      return "a table";
  }
  return "something else";
}

}  // namespace pergpu
