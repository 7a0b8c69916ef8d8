// The sixteen basic colors only: terminals let their users choose them.
#include "view/text/style.h"

namespace pergpu::view {
namespace {

std::string_view sgr(Tone tone) {
  switch (tone) {
    case Tone::Plain:
      return "";
    case Tone::Good:
      return "32";
    case Tone::Bad:
      return "1;31";
    case Tone::Warn:
      return "33";
    case Tone::Busy:
      return "36";
    case Tone::Dim:
      return "2";
    case Tone::Bold:
      return "1";
  }
  return "";
}

}  // namespace

std::string paint(const Style& style, Tone tone, std::string_view text) {
  if (!style.colour || tone == Tone::Plain || text.empty()) return std::string(text);
  std::string out = "\x1b[";
  out.append(sgr(tone)).append("m").append(text).append("\x1b[0m");
  return out;
}

Tone tone_of_state(std::string_view state) {
  if (state == "done" || state == "free") return Tone::Good;
  if (state == "failed" || state == "timeout" || state == "lost" || state == "dirty" ||
      state == "quarantined") {
    return Tone::Bad;
  }
  if (state == "cancelled" || state == "skipped" || state == "held" || state == "foreign" ||
      state == "unknown") {
    return Tone::Warn;
  }
  if (state == "running" || state == "starting" || state == "stopping" || state == "busy") {
    return Tone::Busy;
  }
  return Tone::Plain;
}

std::string_view cut_mark(const Style& style) { return style.unicode ? "…" : ".."; }

std::string_view separator(const Style& style) { return style.unicode ? " · " : " | "; }

}  // namespace pergpu::view
