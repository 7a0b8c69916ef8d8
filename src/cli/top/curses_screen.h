// The terminal as a grid of cells, by ncurses: it knows the terminals and sends only what differs
// from what stands there.  No other file sees curses.h.
//
// One at a time.  Signals are the event loop's: block them (os::Loop::on_signals) before open().
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "result.h"
#include "view/top/grid.h"
#include "view/top/top_keys.h"

namespace pergpu::cli {

class CursesScreen {
 public:
  /// Takes stdin and stdout over.  `wants_unicode`: the environment's locale is UTF-8.  Invalid:
  /// the type of the terminal (TERM) is not known.
  static Result<std::unique_ptr<CursesScreen>> open(bool wants_colour, bool wants_unicode);
  /// The terminal is as it was before.
  ~CursesScreen();
  CursesScreen(const CursesScreen&) = delete;
  CursesScreen& operator=(const CursesScreen&) = delete;

  bool has_colour() const { return has_colour_; }
  bool is_unicode() const { return is_unicode_; }

  /// Gives the terminal back for as long as we are stopped, and takes it again.
  void suspend();
  void resume();
  /// The window has this size now.
  void resize(int columns, int rows);
  /// The next draw() sends everything.
  void forget();

  void draw(const view::Grid& grid);
  /// nullopt: no key waits.
  std::optional<view::TopKey> next_key();

 private:
  CursesScreen() = default;
  std::optional<view::TopKey> decode(int byte);

  void* screen_ = nullptr;  // SCREEN
  bool has_colour_ = false;
  bool is_unicode_ = false;
  std::string bytes_;  // the begin of a character beyond ASCII
};

}  // namespace pergpu::cli
