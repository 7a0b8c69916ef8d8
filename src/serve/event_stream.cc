// Numbers of an id are decimal and whole; anything else is not our id, which costs a
// snapshot and no more.
#include "serve/event_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace pergpu::serve {
namespace {

constexpr std::size_t kNumbers = 6;

}  // namespace

std::string id_of(const Position& p) {
  return fmt::format("{}.{}.{}.{}.{}.{}.{}", p.server, p.all, p.sweep, p.sweep_id, p.job, p.attempt,
                     p.offset);
}

std::optional<Position> position_of(std::string_view id) {
  const std::size_t dot = id.find('.');
  if (dot == 0 || dot == id.npos) return std::nullopt;
  Position position{.server = std::string(id.substr(0, dot))};
  std::array<std::uint64_t, kNumbers> numbers{};
  const char* at = id.data() + dot;
  const char* const end = id.data() + id.size();
  for (std::uint64_t& number : numbers) {
    if (at == end || *at != '.') return std::nullopt;
    const auto [next, code] = std::from_chars(at + 1, end, number);
    if (code != std::errc() || number > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    at = next;
  }
  if (at != end) return std::nullopt;
  position.all = numbers[0];
  position.sweep = numbers[1];
  position.sweep_id = static_cast<std::int64_t>(numbers[2]);
  position.job = static_cast<std::int64_t>(numbers[3]);
  position.attempt = static_cast<std::int64_t>(numbers[4]);
  position.offset = static_cast<std::int64_t>(numbers[5]);
  return position;
}

std::string event_text(std::string_view id, std::string_view name, std::string_view data) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", id, name, data);
}

std::size_t unfinished_utf8(std::string_view text) {
  const std::size_t look = std::min<std::size_t>(text.size(), 3);
  for (std::size_t back = 1; back <= look; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // within a sequence
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace pergpu::serve
