// Reading the environment happens here and not in view/, which must stay a function of its
// arguments.
#include "cli/term/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <string>

#include "duration.h"
#include "os/clock.h"
#include "os/process/paths.h"
#include "os/terminal.h"

namespace pergpu::cli {
namespace {

bool is_dumb() {
  const std::string term = os::environment_variable("TERM");
  return term.empty() || term == "dumb";
}

bool wants_colour(int fd, std::string_view colour) {
  if (colour != "auto") return colour == "always";
  if (!os::environment_variable("NO_COLOR").empty()) return false;
  const std::string force = os::environment_variable("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return os::is_terminal(fd) && !is_dumb();
}

bool locale_is_utf8() {
  std::string locale = os::environment_variable("LC_ALL");
  if (locale.empty()) locale = os::environment_variable("LC_CTYPE");
  if (locale.empty()) locale = os::environment_variable("LANG");
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return locale.find("UTF-8") != std::string::npos || locale.find("UTF8") != std::string::npos;
}

std::int64_t utc_offset_s() {
  os::RealClock clock;
  const std::time_t now_s = clock.now().wall_ns / kSecond;
  std::tm local{};
  return ::localtime_r(&now_s, &local) ? local.tm_gmtoff : 0;
}

}  // namespace

view::Style style_of(int fd, std::string_view colour) {
  view::Style style;
  style.colour = wants_colour(fd, colour);
  style.utc_offset_s = utc_offset_s();
  if (os::is_terminal(fd)) {
    const os::TerminalSize size = os::terminal_size(fd);
    style.width = size.columns;
    style.height = size.rows;
    style.unicode = locale_is_utf8();
  }
  return style;
}

bool in_foreground(int fd) { return os::is_terminal(fd) && ::tcgetpgrp(fd) == ::getpgrp(); }

bool can_redraw(int fd) {
  return !is_dumb() && os::environment_variable("CI").empty() && in_foreground(fd);
}

bool KeyMode::enter() {
  if (!in_foreground(fd_)) return false;
  if (!entered_ && ::tcgetattr(fd_, &before_) < 0) return false;
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  keys.c_cc[VMIN] = 1;
  keys.c_cc[VTIME] = 0;
  entered_ = ::tcsetattr(fd_, TCSADRAIN, &keys) == 0;
  return entered_;
}

void KeyMode::restore() {
  if (entered_ && in_foreground(fd_)) ::tcsetattr(fd_, TCSADRAIN, &before_);
  entered_ = false;
}

}  // namespace pergpu::cli
