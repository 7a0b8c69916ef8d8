// Where the statements of a TOML text begin and end: enough of its lexical rules to step over a
// statement that the parser refused, so that the rest of the file can still be checked.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace pergpu {

struct TomlStatement {
  std::size_t begin = 0;   // offset of its first line
  std::size_t end = 0;     // past its last newline
  bool is_header = false;  // [table] or [[table]]
  bool closed = true;      // false: a bracket or a multi-line string is still open at the end
};

/// Blank lines and comments belong to no statement.
std::vector<TomlStatement> toml_statements(std::string_view text);

}  // namespace pergpu
