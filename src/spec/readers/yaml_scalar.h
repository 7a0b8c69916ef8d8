// What a plain (unquoted) YAML scalar is, and whether readers of YAML 1.1 and 1.2 disagree on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "spec/tree/node.h"

namespace pergpu {

struct YamlScalar {
  Node::Kind kind = Node::Kind::String;
  std::int64_t integer = 0;
  double number = 0;
  std::string trap = {};  // not empty: refused, with this message
};

/// By the core schema of YAML 1.2.
YamlScalar type_of_plain(std::string_view text);

}  // namespace pergpu
