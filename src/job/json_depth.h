// How deep a JSON text nests, found before it is parsed.  The parser does not mind depth, but
// functions that walk or write the tree call themselves once a level: a text of brackets would end
// the process by its stack.
#pragma once

#include <string_view>

namespace pergpu {

/// None of our texts comes near: parameters nest 64 deep at most (spec/text/source_text.h).
inline constexpr int kMostNestedJson = 100;

/// Whether lists and objects nest deeper than `most`.  Brackets in strings do not count.
bool nests_deeper_than(std::string_view json, int most);

}  // namespace pergpu
