// Which jobs `top` shows, in which order, and how its panels share the screen.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "view/top/top.h"

namespace pergpu::view {

/// The words of a filter, all of which have to hold.  A word stands in the job's name, number,
/// state, lane or reason; FIELD=TEXT (sweep, run, step, state, lane, id, reason) in that field;
/// with `!` before it, it must not.  Capital and small letters are the same.
bool passes(const JobSnapshot& job, std::string_view filter);

/// Those that pass the filter, sorted.  They point into the snapshot.
std::vector<const JobSnapshot*> rows_of(const TopSnapshot& snapshot, const TopState& state);

std::string_view name_of(TopSort sort);

/// Rows of the screen; a panel of 0 rows is not drawn.  From top to bottom.
struct TopLayout {
  int sweeps = 0;
  int charts = 0;
  int lanes = 0;
  int jobs = 0;  // with its title
  int log = 0;   // with its title
  int page = 0;  // with its title; in place of lanes, jobs and log
  int job_rows() const { return jobs > 1 ? jobs - 1 : 0; }
};
TopLayout layout_of(const TopSnapshot& snapshot, const TopState& state, const TopSurface& surface);

/// The page's lines as they are drawn, without its title.
std::vector<std::string> lines_of(const TopState::Page& page, const TopSurface& surface);

}  // namespace pergpu::view
