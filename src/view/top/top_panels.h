// The panels of `top`: lanes, jobs, the log.  For top.cc only.
#pragma once

#include <string_view>

#include "view/top/grid.h"
#include "view/top/top.h"

namespace pergpu::view {

/// A title across the screen.
void draw_title(Grid& grid, int row, std::string_view text, Palette palette);

// Each writes at most `rows` rows from `row` on.
void draw_lanes(Grid& grid, int row, int rows, const TopSnapshot& snapshot, const TopState& state,
                const TopSurface& surface);
void draw_jobs(Grid& grid, int row, int rows, const TopSnapshot& snapshot, const TopState& state);
void draw_log(Grid& grid, int row, int rows, const TopSnapshot& snapshot, const TopState& state);

}  // namespace pergpu::view
