// The text of server-sent events (WHATWG HTML, 9.2), and the position in our topics that their ids
// carry: a browser sends the last one back when it connects again.  Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pergpu::serve {

/// What a reader has got.
struct Position {
  std::string server = {};  // whose numbers these are: another server's mean nothing
  std::uint64_t all = 0;
  std::uint64_t sweep = 0;
  std::int64_t sweep_id = 0;
  // Of the log:
  std::int64_t job = 0;
  std::int64_t attempt = 0;
  std::int64_t offset = 0;
  bool operator==(const Position&) const = default;
};

/// Letters, digits, '-' and '.'.
std::string id_of(const Position& position);
/// nullopt: not our id.
std::optional<Position> position_of(std::string_view id);

/// `data`: one line.
std::string event_text(std::string_view id, std::string_view name, std::string_view data);

/// How many bytes at the end of `text` are the begin of a UTF-8 sequence that has not come whole: 0
/// to 3.
std::size_t unfinished_utf8(std::string_view text);

}  // namespace pergpu::serve
