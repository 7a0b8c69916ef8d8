// Text of the user's file reaches a terminal here, so control characters are replaced: an escape
// sequence in a sweep file must not be executed by a terminal that shows its mistakes.
#include "spec/tree/diagnostics.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace pergpu {
namespace {

/// Tabs become one space, so that the caret stands below the right character.  C0, DEL and the
/// two-byte C1 controls become `?`.
std::string harmless(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '\t') {
      out += ' ';
    } else if (c < 0x20 || c == 0x7F) {
      out += '?';
    } else if (c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      out += '?';
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

auto sort_key(const Diagnostic& d) { return std::tie(d.file, d.line, d.column, d.message); }

}  // namespace

std::string to_text(const Diagnostic& d) {
  std::string out = harmless(d.file);
  if (d.line > 0) out += fmt::format(":{}:{}", d.line, d.column);
  out += ": ";
  if (d.severity == Diagnostic::Severity::Warning) out += "warning: ";
  out += harmless(d.message);
  out += '\n';
  if (d.line > 0) {
    out += fmt::format("{:5} | {}\n", d.line, harmless(d.source_line));
    out += fmt::format("      | {:>{}}\n", '^', std::clamp(d.column, 1, 500));
  }
  return out;
}

std::string to_text(const std::vector<Diagnostic>& all) {
  std::string out;
  for (const Diagnostic& d : all) out += to_text(d);
  return out;
}

void sort_diagnostics(std::vector<Diagnostic>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return sort_key(a) < sort_key(b);
  });
  all.erase(std::unique(all.begin(), all.end(),
                        [](const Diagnostic& a, const Diagnostic& b) {
                          return sort_key(a) == sort_key(b);
                        }),
            all.end());
}

}  // namespace pergpu
