// Redrawing a block of lines in place: from what stands on the terminal to what should stand there.
// Pure: the caller writes the bytes, and decides when.
//
// The cursor rests at the begin of the line below the block.
#pragma once

#include <string>
#include <vector>

namespace pergpu::view {

/// Bytes that turn the block `before`, drawn at `width_then` columns, into `after` on a terminal of
/// `width` columns.  Unchanged lines are skipped; after a change of width everything is drawn
/// again. Empty when nothing changed.
std::string redraw(const std::vector<std::string>& before, int width_then,
                   const std::vector<std::string>& after, int width);

/// Bytes that remove the block.
std::string erase(const std::vector<std::string>& before, int width_then, int width);

}  // namespace pergpu::view
