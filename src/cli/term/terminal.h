// The terminal as this process finds it: what may be drawn, and single keys without Enter.
#pragma once

#include <termios.h>

#include <string_view>

#include "view/text/style.h"

namespace pergpu::cli {

/// For drawing on `fd`.  `colour` is auto, always or never; NO_COLOR, CLICOLOR_FORCE and TERM=dumb
/// decide under auto.  Width and height are 0 and 24 where `fd` is no terminal.
view::Style style_of(int fd, std::string_view colour);

/// May a block of lines be redrawn in place on `fd`: a terminal that is not dumb, we are in its
/// foreground, and this is no CI.
bool can_redraw(int fd);

/// True when `fd` is our terminal and we are the foreground group: touching its modes from the
/// background would stop us.
bool in_foreground(int fd);

/// Keys of a terminal one by one, unechoed; Ctrl-C stays a signal.  The modes are restored by
/// restore() and at the latest by the destructor.
class KeyMode {
 public:
  explicit KeyMode(int fd) : fd_(fd) {}
  ~KeyMode() { restore(); }
  KeyMode(const KeyMode&) = delete;
  KeyMode& operator=(const KeyMode&) = delete;

  /// False when `fd` isn't our terminal.
  bool enter();
  void restore();

 private:
  int fd_;
  bool entered_ = false;
  termios before_{};
};

}  // namespace pergpu::cli
