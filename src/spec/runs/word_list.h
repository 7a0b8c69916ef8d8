// Values of a parameter as they are typed on the command line: V1,V2,… of -g, VALUE of -p.
//
//   mlp,resnet    1e-3,1e-4    words, typed by their looks (typed_text)
//   0..3          0..10..5     whole numbers with both ends; 00..03 are texts of two digits
//   [64],[64,64]  "a,b",c      values in TOML or JSON
//   ["a", "b"]    {from = …}   the list itself in TOML or JSON
//
// What looks like one of these and is none is an error, never a text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

/// Of -g: a list, or a table that stands for one.
std::optional<Node> read_word_list(Report& report, const std::string& name, std::string_view text,
                                   Place at);

/// Of -p: one value, or a list as above but without commas between words.
std::optional<Node> read_word_value(Report& report, const std::string& name, std::string_view text,
                                    Place at);

}  // namespace pergpu
