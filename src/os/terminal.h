// What a descriptor's terminal is like.
#pragma once

namespace pergpu::os {

bool is_terminal(int fd);

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
/// The window's size; $COLUMNS and $LINES, then 80 x 24, where the kernel does not know.
TerminalSize terminal_size(int fd);

}  // namespace pergpu::os
