// A command given as one string, split into words as a POSIX shell would, without any expansion.
// Done before placeholders are replaced: a value with spaces stays one argument.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu {

/// Quotes, backslashes and white space only.  What only a shell could do (pipes, redirections,
/// variables, wildcards …) is Invalid when it is not quoted, and the message says so.
Result<std::vector<std::string>> split_command(std::string_view text);

}  // namespace pergpu
