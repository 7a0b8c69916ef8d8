// The full-screen view: rows per lane, then jobs, then the log of the chosen one.
//
// Pure: draw_top() is a function of what is known (TopSnapshot), what the user chose (TopState) and
// where it is drawn (TopSurface); press() of the same and a key.  cli/top/top.cc brings events and
// keys and does what an action asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "view/model/top_snapshot.h"
#include "view/text/style.h"
#include "view/top/grid.h"

namespace pergpu::view {

enum class TopSort : std::uint8_t { Order, Id, Name, State, Time, Lane };

struct TopAction {
  enum class Kind : std::uint8_t {
    None,
    Leave,
    Redraw,  // everything, whatever stands on the terminal
    Why,
    Show,
    Cancel,
    Kill,
    Hold,
    Release,
    Retry,
  };
  Kind kind = Kind::None;
  std::vector<std::int64_t> jobs = {};
  bool operator==(const TopAction&) const = default;
};

/// What the user chose.
struct TopState {
  enum class Log : std::uint8_t { Shown, Large, Hidden };
  enum class Mode : std::uint8_t {
    Jobs,
    Filter,   // is being typed
    Sort,     // the next key names a column
    Confirm,  // `question`
    Page,     // `page` covers the jobs
  };
  struct Page {
    std::string title = {};
    std::vector<std::string> lines = {};
    int first = 0;
  };

  bool readonly = false;
  Palette palette = Palette::Standard;
  std::int64_t selected = 0;           // a job; 0: none
  std::size_t row = 0;                 // its row among those that pass the filter
  std::size_t first = 0;               // the first row that is shown
  std::set<std::int64_t> tagged = {};  // jobs
  std::string filter = {};
  std::string filter_before = {};  // while another one is typed
  TopSort sort = TopSort::Order;
  bool reversed = false;
  bool charts = true;
  Log log = Log::Shown;
  Mode mode = Mode::Jobs;
  TopAction asked = {};  // Mode::Confirm: what `question` is about
  std::string question = {};
  Page page = {};
  std::string message = {};  // until the next key
  Tone message_tone = Tone::Plain;
};

struct TopSurface {
  int columns = 80;
  int rows = 24;
  bool unicode = true;
  std::int64_t utc_offset_s = 0;
};

/// Makes the state fit what is known now: a job that is gone is no longer chosen, the chosen row is
/// among those shown.  To be called after every change and before draw_top().
void settle(TopState& state, const TopSnapshot& snapshot, const TopSurface& surface);

/// REQUIRES: settle() was called.  Safe at any size.
Grid draw_top(const TopSnapshot& snapshot, const TopState& state, const TopSurface& surface);

}  // namespace pergpu::view
