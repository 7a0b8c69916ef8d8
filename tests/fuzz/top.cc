// The full-screen view of whatever a coordinator and a job say, at any size, after any keys: first
// bytes columns, rows and how many keys, then these; then a line for each event, and last the log.
#include "view/top/top.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "job/json_depth.h"
#include "view/model/top_snapshot.h"
#include "view/text/utf8.h"
#include "view/top/top_keys.h"

namespace {

using namespace pergpu;

void check_frame(const view::TopSnapshot& snapshot, const view::TopState& state,
                 const view::TopSurface& surface) {
  const view::Grid grid = view::draw_top(snapshot, state, surface);
  for (const std::string& line : grid.lines()) {
    fuzz::check(view::columns_of(line) <= surface.columns, "a line is no wider than the screen");
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      fuzz::check(byte >= 0x20 && byte != 0x7f, "no control byte is drawn");
      fuzz::check(surface.unicode || byte < 0x80, "without UTF-8 all is ASCII");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  view::TopSurface surface;
  surface.columns = input.byte();
  surface.rows = input.byte() % 80;
  const int keys = input.byte();
  surface.unicode = keys % 2 == 0;
  std::string pressed;
  for (int i = 0; i < keys % 32; ++i) pressed += static_cast<char>(input.byte());

  view::TopSnapshot snapshot;
  std::string_view rest = input.rest();
  for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (nests_deeper_than(line, kMostNestedJson)) continue;
    const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object()) (void)view::take_event(snapshot, event);
  }
  view::sample(snapshot);
  view::TopState state;
  view::settle(state, snapshot, surface);
  snapshot.log_of = state.selected;
  snapshot.log = std::string(rest);
  check_frame(snapshot, state, surface);
  for (const char c : pressed) {
    view::TopKey key{.name = view::TopKey::Name::Char, .code = static_cast<unsigned char>(c)};
    const auto named = static_cast<std::uint32_t>(view::TopKey::Name::Other);
    if (key.code > 0x7f) key.name = static_cast<view::TopKey::Name>(key.code % (named + 1));
    state = view::press(std::move(state), key, snapshot, surface).state;
    check_frame(snapshot, state, surface);
  }
  return 0;
}
