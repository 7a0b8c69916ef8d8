// Signs for a user who looks elsewhere: the bell when all has ended, and progress in the tab or
// the task bar of terminals that know it (OSC 9;4).
//
// A terminal that does not know the sequence may take it for a message to be shown on the desktop,
// so it goes only to those that are known to know it.
#pragma once

#include <functional>
#include <string>

namespace pergpu::cli {

/// `variable` gives the value of an environment variable, "" where there is none.  Behind a
/// multiplexer the terminal is not known.
bool knows_progress(const std::function<std::string(const char* name)>& variable);

class TerminalSigns {
 public:
  /// Writes to `fd` (not owned), which is a terminal whenever show() or ring() is called.
  TerminalSigns(int fd, bool bell, bool progress);
  ~TerminalSigns() { clear(); }
  TerminalSigns(const TerminalSigns&) = delete;
  TerminalSigns& operator=(const TerminalSigns&) = delete;

  /// Something is written only where it changes.  `percent` from 0 to 100.
  void show(int percent, bool has_failed);
  /// Leaves nothing behind; a later show() begins again.
  void clear();
  void ring();

 private:
  void write(const std::string& bytes);

  int fd_;
  bool bell_;
  bool progress_;
  std::string shown_ = {};  // "": nothing
};

}  // namespace pergpu::cli
