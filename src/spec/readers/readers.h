// The three spellings of a sweep file.  Each reader reports what its syntax forbids (or what would
// be read differently elsewhere) and returns the tree of what it could read, a table at the top.
#pragma once

#include <optional>

#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

/// After a syntax error the rest of the file is still read where that makes sense
/// (Report::incomplete is then set); nullopt when nothing of it could be.
std::optional<Node> read_toml(Report& report, std::uint32_t source);
std::optional<Node> read_yaml(Report& report, std::uint32_t source);
std::optional<Node> read_json(Report& report, std::uint32_t source);

/// One JSON value that takes up all of `text`, which lies at `offset` of the source: a line of a
/// JSON-lines file.
std::optional<Node> read_json_value(Report& report, std::uint32_t source, std::string_view text,
                                    std::size_t offset);

/// One TOML value ("1e-4", "[1, 2]", "\"x\""), as in -p NAME=VALUE; nullopt when it is none: then
/// it is a plain string.  Nothing is reported.
std::optional<Node> read_toml_value(std::string_view text, Place at);

/// A text without quotes whose type is that of its looks (a CSV cell, a word of the command line):
/// numbers in their usual spelling (number_word), true and false, null and None; all else is a
/// string, as it is.
Node typed_text(std::string_view text, Place at);

/// Where a number is asked for (--gpus 0.50): everything that JSON would call one is a number.
Node number_or_text(std::string_view text, Place at);

}  // namespace pergpu
