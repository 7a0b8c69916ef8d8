// Serial lines and some container consoles report 0 x 0, so there are fallbacks.
#include "os/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace pergpu::os {
namespace {

int positive_from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (!text) return otherwise;
  int value = 0;
  const auto [end, code] = std::from_chars(text, text + std::strlen(text), value);
  return code == std::errc() && *end == '\0' && value > 0 ? value : otherwise;
}

}  // namespace

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

TerminalSize terminal_size(int fd) {
  winsize window{};
  TerminalSize size;
  const bool known = ::ioctl(fd, TIOCGWINSZ, &window) == 0;
  size.columns = known && window.ws_col > 0 ? window.ws_col
                                            : positive_from_environment("COLUMNS", size.columns);
  size.rows =
      known && window.ws_row > 0 ? window.ws_row : positive_from_environment("LINES", size.rows);
  return size;
}

}  // namespace pergpu::os
