// How a view may draw: colors or not, how wide, which characters.  A value, so that every view is
// a function of (snapshot, style); cli/term/terminal.h fills it from the terminal and the
// environment.
//
// A state is never shown by color alone: its word is always there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pergpu::view {

enum class Tone : std::uint8_t { Plain, Good, Bad, Warn, Busy, Dim, Bold };

struct Style {
  bool colour = false;
  bool unicode = true;            // the terminal's locale is UTF-8
  int width = 0;                  // columns; 0: do not cut
  int height = 24;                // rows; the status view stays below it
  std::int64_t utc_offset_s = 0;  // for times of day
};

/// `text` in the tone's colors, or as it is.
std::string paint(const Style& style, Tone tone, std::string_view text);

Tone tone_of_state(std::string_view state);

/// What stands where text was cut.
std::string_view cut_mark(const Style& style);

/// Between two facts on one line.
std::string_view separator(const Style& style);

}  // namespace pergpu::view
