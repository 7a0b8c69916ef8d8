// What a shell asks when the user presses Tab; the scripts of `pergpu completions` call it.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pergpu::cli {

/// `pergpu complete -- WORDS…`: prints what the last of `words` (of the command line behind
/// `pergpu`, up to the cursor) may become, one a line: WORD, or WORD, a tab and what it means.  A
/// line that begins with a tab says what the shell itself knows instead: "files" (and the endings
/// of those that are meant), "folders" or "commands".
///
/// It starts nothing, waits for a coordinator but a moment, and says nothing of what went wrong.
int complete(const CLI::App& program, std::vector<std::string> words);

}  // namespace pergpu::cli
