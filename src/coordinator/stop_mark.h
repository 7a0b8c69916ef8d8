// That a home's coordinator was stopped: a small file in the home, there from `pergpu coordinator
// stop` (or SIGTERM) until a command starts a coordinator again.  Only a command starts one
// meanwhile: no keeper that lost its coordinator, no client that watches.
#pragma once

#include <string>

#include "result.h"

namespace pergpu {

/// For clients that watch, or wait, while it is stopped.
inline constexpr char kStoppedWords[] =
    "the coordinator was stopped (`pergpu coordinator stop`): its jobs continue, and the next "
    "pergpu command that you run starts it again";

/// Where the mark could not be left.
std::string unmarked_words(const std::string& why);

/// Differs for each stop; "": it was not stopped, or that cannot be read.
std::string stop_mark(const std::string& home);
/// Needs no room on the disk after reserve_stop_mark().
Result<void> write_stop_mark(const std::string& home);
void remove_stop_mark(const std::string& home);
/// Best effort: without it a mark is written where there is room.
void reserve_stop_mark(const std::string& home);

/// Whether a coordinator that is about to serve a home may.  Made when its process begins; asked
/// when it has the lock of the home.
class StopGate {
 public:
  /// `was_asked_for`: by a command, or a service manager; else a keeper started it.
  StopGate(std::string home, bool was_asked_for);
  /// A stop before this process began shuts out only a coordinator that was not asked for; one
  /// since then, both.
  bool is_shut() const;

 private:
  std::string home_;
  bool was_asked_for_;
  std::string before_;
};

}  // namespace pergpu
