// One scanner serves lines and streams.  It looks at one element at a time (a code point, an
// invalid byte or a whole CSI sequence); an element that is not complete is kept for the next
// piece.
#include "view/text/escape.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "utf8_bytes.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

enum class EscapeMode { Line, Stream };

constexpr char kEscape = 0x1b;

/// Longest CSI sequence that is recognized; a longer one is shown as text, so that a job cannot
/// make the filter hold back its output forever.
constexpr std::size_t kLongestCsi = 64;

enum class Csi { Complete, Incomplete, None };

/// Is there a CSI sequence at `at` (ESC '[' parameters, intermediates, final byte)?
Csi csi_at(std::string_view text, std::size_t at, std::size_t* end) {
  std::size_t i = at + 1;
  if (i == text.size()) return Csi::Incomplete;
  if (text[i] != '[') return Csi::None;
  for (++i; i < text.size() && i - at < kLongestCsi; ++i) {
    const char c = text[i];
    if (c >= 0x40 && c <= 0x7e) {
      *end = i + 1;
      return Csi::Complete;
    }
    if (c < 0x20 || c > 0x3f) return Csi::None;
  }
  return i == text.size() && i - at < kLongestCsi ? Csi::Incomplete : Csi::None;
}

/// Marks that reorder or hide text: "trojan source".  Joiners of scripts and emoji (200c, 200d)
/// stay.
bool is_deceptive(std::uint32_t c) {
  return c == 0x200b || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xe0000 && c <= 0xe007f) ||
         c == 0x061c;
}

/// Could the bytes from `at` be the begin of a longer code point?
bool is_truncated_utf8(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
  if (lead >= 0xf5 || text.size() - at >= want) return false;
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (!is_continuation(text[i])) return false;
  }
  return true;
}

/// Appends the safe form of `text` to `out`; returns how many bytes were consumed (in Stream mode
/// less than all when `text` ends within an element).
std::size_t scan(std::string_view text, EscapeMode mode, bool last, std::string& out) {
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == kEscape) {
      std::size_t end = 0;
      const Csi csi = csi_at(text, at, &end);
      if (csi == Csi::Complete) {
        at = end;
        continue;
      }
      if (csi == Csi::Incomplete && !last) return at;
    }
    if (!last && is_truncated_utf8(text, at)) return at;
    if (c == '\n' || c == '\t' || c == '\r') {
      out += mode == EscapeMode::Stream ? c : ' ';
      ++at;
      continue;
    }
    const std::size_t begin = at;
    const std::uint32_t code = next_code_point(text, &at);
    if (code == kInvalid) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(text[begin]));
    } else if (code < 0x20 || code == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", code);
    } else if ((code >= 0x80 && code < 0xa0) || is_deceptive(code)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    } else {
      out.append(text.substr(begin, at - begin));
    }
  }
  return at;
}

}  // namespace

std::string safe_line(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  scan(text, EscapeMode::Line, true, out);
  return out;
}

std::string LogFilter::feed(std::string_view piece) {
  std::string out;
  if (held_.empty()) {
    held_ = piece.substr(scan(piece, EscapeMode::Stream, false, out));
    return out;
  }
  held_.append(piece);
  held_.erase(0, scan(held_, EscapeMode::Stream, false, out));
  return out;
}

std::string LogFilter::finish() {
  std::string out;
  scan(held_, EscapeMode::Stream, true, out);
  held_.clear();
  return out;
}

std::string_view after_carriage_return(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const std::size_t at = line.rfind('\r');
  return at == std::string_view::npos ? line : line.substr(at + 1);
}

}  // namespace pergpu::view
