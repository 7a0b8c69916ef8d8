// Text of jobs on its way to a terminal: whatever it was, and however it arrived, what comes out
// cannot command the terminal, and is UTF-8.  First byte: how long the pieces are.
#include "view/text/escape.h"

#include "fuzz.h"
#include "view/text/utf8.h"

namespace {

using namespace pergpu;

void check_safe(std::string_view text, bool is_line) {
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t c = view::next_code_point(text, &at);
    fuzz::check(c != view::kInvalid, "what is shown is UTF-8");
    const bool kept = !is_line && (c == '\n' || c == '\t' || c == '\r');
    fuzz::check(kept || (c >= 0x20 && c != 0x7f && (c < 0x80 || c >= 0xa0)),
                "no control character is shown");
    fuzz::check(c != 0x202e && c != 0x2066 && c != 0x200f, "nothing reorders a line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t piece = 1 + input.byte() % 16;
  const std::string_view text = input.rest();

  const std::string line = view::safe_line(text);
  check_safe(line, true);
  fuzz::check(view::safe_line(line) == line, "a safe line stays as it is");

  view::LogFilter whole;
  std::string expected = whole.feed(text);
  expected += whole.finish();
  check_safe(expected, false);

  view::LogFilter filter;
  std::string shown;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view now = rest.substr(0, piece);
    rest.remove_prefix(now.size());
    shown += filter.feed(now);
  }
  shown += filter.finish();
  fuzz::check(shown == expected, "what is shown does not depend on how it arrives");

  const std::string_view last = view::after_carriage_return(text);
  fuzz::check(last.find('\r') == last.npos, "one carriage return decides");
  check_safe(view::cut(line, 20), true);
  fuzz::check(view::columns_of(view::cut(line, 20)) <= 20, "a cut text fits");
  return 0;
}
