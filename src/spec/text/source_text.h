// The text of one input (a file, or a -p option) and the arithmetic of positions in it: byte
// offsets and lines and columns in code points, both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu {

class SourceText {
 public:
  /// `path` as it is to appear in messages.
  SourceText(std::string path, std::string text);

  const std::string& path() const { return path_; }
  const std::string& text() const { return text_; }
  /// Without its newline; empty when there is no such line.
  std::string_view line(std::uint32_t number) const;

  struct Position {
    std::uint32_t line = 1;
    std::uint32_t column = 1;
  };
  Position position(std::size_t offset) const;
  /// Offset of the line's first byte; the text's end when there is no such line.
  std::size_t line_begin(std::uint32_t number) const {
    return number == 0 ? 0 : number <= starts_.size() ? starts_[number - 1] : text_.size();
  }
  /// Of line and column (both from 1, columns in code points), clamped to the line's end.
  std::size_t offset(std::uint32_t line, std::uint32_t column) const;

 private:
  std::uint32_t line_of(std::size_t offset) const;

  std::string path_;
  std::string text_;
  std::vector<std::size_t> starts_;  // byte offset of each line

  // The last answer: readers ask from left to right, and counting from the line's start each time
  // would be quadratic in a file of one long line.
  struct Cached {
    std::size_t offset = 0;
    Position at = {};
  };
  mutable Cached cached_ = {};
};

inline constexpr std::size_t kMaxSpecFileBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxRunsFileBytes = std::size_t{1} << 30;
/// How deep lists and tables may be nested in each other.
inline constexpr int kMaxDepth = 64;

/// The whole file without a byte order mark, refused when it is larger than `max_bytes` or not a
/// regular file.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes);

/// Something that can be read once and has no name: a FIFO, /dev/fd/63 of `<(command)`.
bool is_pipe(const std::string& path);
/// What comes from it, to its end.
Result<std::string> read_pipe(const std::string& path, std::size_t max_bytes);

/// The same of what comes on standard input, to its end.
Result<std::string> read_standard_input(std::size_t max_bytes);

void drop_byte_order_mark(std::string& text);

/// Offset of the first byte that is not valid UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text);

/// "not valid UTF-8", and what the bytes seem to be.
std::string why_not_utf8(std::string_view text);

/// ASCII letters only.
std::string lower_case(std::string text);

/// Number of code points in valid UTF-8.
std::size_t count_code_points(std::string_view text);

}  // namespace pergpu
