// Words as one would type them in a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu::view {

/// As it is where no shell would change it; else in quotes.  A placeholder ({lr}, {train.out})
/// needs none.
std::string shell_word(std::string_view word);

/// A command line that sh reads back as these words.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace pergpu::view
