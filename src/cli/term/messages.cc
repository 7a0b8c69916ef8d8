// stderr is not buffered: what say() is given goes out in one write.
#include "cli/term/messages.h"

#include <cstdio>
#include <string>

#include "cli/term/exit_code.h"
#include "cli/term/standard_output.h"
#include "view/text/escape.h"
#include "view/text/long_text.h"

namespace pergpu::cli {

bool print(std::string_view data) { return standard_output().write(data); }

void say(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out += view::safe_line(view::short_line(text.substr(0, end))) + "\n";
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  std::fwrite(out.data(), 1, out.size(), stderr);
}

int fail(const Error& error) {
  say("pergpu: " + error.message);
  return exit_code_of(error);
}

}  // namespace pergpu::cli
