// `~` and variables in texts that name files, in a sweep file and in options.
//
// `$NAME` and `${NAME}` stand for a variable of the shell that submits, `~` at the beginning for
// its $HOME, `$$` for a `$` and `$~` for a `~`.  They are replaced when the sweep is read, as if
// the value had been written there.  All else that begins so (`$(…)`, `~otto`, a variable that is
// not set) is a mistake, because a file or folder of that very name is hardly wanted.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "result.h"

namespace pergpu {

/// Whether a variable may be empty.  In a path it may not: "$OUT/runs" would be "/runs".
enum class Emptiness { Refused, Allowed };

/// Of the environment of this process.  Invalid, with text to follow a key: it is not set, empty,
/// not UTF-8, or looks like a secret, which must not be stored beside the sweep.
Result<std::string> variable_of_shell(std::string_view name, Emptiness empty = Emptiness::Refused);

/// `text` without variables.  Invalid: as above.
Result<std::string> expand_path(std::string_view text);

/// The same of a text with placeholders.  `${NAME}` is refused where `is_parameter(NAME)`, because
/// `{NAME}` is a placeholder then.
Result<std::string> expand_template(std::string_view text,
                                    const std::function<bool(std::string_view)>& is_parameter,
                                    Emptiness empty = Emptiness::Refused);

/// The same of the path of one file or folder, where a pattern would be taken for a name.
Result<std::string> expand_single_path(std::string_view text);

/// What is wrong with `text` as the name of one file or folder: "" or "is one path, and …".
std::string why_no_single_path(std::string_view text);

/// The text that expands to `text`.
std::string without_variables(std::string_view text);

/// `$name` or `${name}` is in `text`.
bool uses_variable(std::string_view text, std::string_view name);

/// "caf\\xe9" of bytes that are no UTF-8.
std::string with_bytes_escaped(std::string_view bytes);

}  // namespace pergpu
