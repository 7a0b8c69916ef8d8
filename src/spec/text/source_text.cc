// Columns are counted in code points, as editors show them; a tab is one column.
#include "spec/text/source_text.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "utf8_bytes.h"

namespace pergpu {

SourceText::SourceText(std::string path, std::string text)
    : path_(std::move(path)), text_(std::move(text)) {
  starts_.push_back(0);
  for (std::size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n', at + 1))
    starts_.push_back(at + 1);
}

std::string_view SourceText::line(std::uint32_t number) const {
  if (number == 0 || number > starts_.size()) return {};
  std::size_t begin = starts_[number - 1];
  std::size_t end = number < starts_.size() ? starts_[number] - 1 : text_.size();
  if (end > begin && text_[end - 1] == '\r') --end;
  return std::string_view(text_).substr(begin, end - begin);
}

std::uint32_t SourceText::line_of(std::size_t offset) const {
  // Usually the line of the last answer, or the one after it.
  for (std::size_t line = cached_.at.line; line <= cached_.at.line + 1 && line <= starts_.size();
       ++line)
    if (starts_[line - 1] <= offset && (line == starts_.size() || offset < starts_[line]))
      return static_cast<std::uint32_t>(line);
  auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  return static_cast<std::uint32_t>(after - starts_.begin());
}

SourceText::Position SourceText::position(std::size_t offset) const {
  offset = std::min(offset, text_.size());
  std::uint32_t line = line_of(offset);
  std::size_t from = starts_[line - 1];
  std::uint32_t column = 1;
  if (cached_.at.line == line && cached_.offset <= offset && cached_.offset >= from) {
    from = cached_.offset;
    column = cached_.at.column;
  }
  column += static_cast<std::uint32_t>(
      count_code_points(std::string_view(text_).substr(from, offset - from)));
  cached_ = {offset, {line, column}};
  return cached_.at;
}

std::size_t SourceText::offset(std::uint32_t line, std::uint32_t column) const {
  if (line == 0) return 0;
  if (line > starts_.size()) return text_.size();
  std::size_t at = starts_[line - 1];
  std::size_t end = line < starts_.size() ? starts_[line] : text_.size();
  std::uint32_t i = 1;
  if (cached_.at.line == line && cached_.at.column <= column && cached_.offset >= at) {
    at = cached_.offset;
    i = cached_.at.column;
  }
  for (; i < column && at < end; ++i) {
    ++at;
    while (at < end && is_continuation(text_[at])) ++at;
  }
  if (i == column) cached_ = {at, {line, column}};
  return at;
}

namespace {

/// `expected`: about how many bytes are to come.
Result<std::string> read_all(int fd, const std::string& name, std::size_t expected,
                             std::size_t max_bytes) {
  std::string text;
  std::size_t used = 0;
  // One byte more than allowed is asked for, so that a file that grows meanwhile is noticed too.
  text.resize(std::min(expected, max_bytes) + 1);
  while (true) {
    if (used == text.size()) text.resize(std::min(text.size() * 2, max_bytes + 1));
    ssize_t n = ::read(fd, text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(fmt::format("read {}", name));
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > max_bytes)
      return Error{ErrorKind::Invalid, 0,
                   fmt::format("{} is larger than {} MiB", name, max_bytes >> 20)};
  }
  text.resize(used);
  drop_byte_order_mark(text);
  return text;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return os_error(fmt::format("open {}", path));
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat st = {};
  if (::fstat(fd, &st) != 0) return os_error(fmt::format("stat {}", path));
  if (!S_ISREG(st.st_mode))
    return Error{ErrorKind::Invalid, 0, fmt::format("{} is not a regular file", path)};
  return read_all(fd, path, static_cast<std::size_t>(st.st_size), max_bytes);
}

bool is_pipe(const std::string& path) {
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/", "/dev/stdin"})
    if (path.compare(0, folder.size(), folder) == 0) return true;
  struct stat st = {};
  return ::stat(path.c_str(), &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

Result<std::string> read_pipe(const std::string& path, std::size_t max_bytes) {
  constexpr std::size_t kUsual = 4096;
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return os_error(fmt::format("open {}", path));
  Result<std::string> text = read_all(fd, path, kUsual, max_bytes);
  ::close(fd);
  return text;
}

Result<std::string> read_standard_input(std::size_t max_bytes) {
  constexpr std::size_t kUsual = 4096;
  return read_all(STDIN_FILENO, "standard input", kUsual, max_bytes);
}

void drop_byte_order_mark(std::string& text) {
  if (text.compare(0, 3, "\xEF\xBB\xBF") == 0) text.erase(0, 3);
}

std::string why_not_utf8(std::string_view text) {
  const std::string_view begin = text.substr(0, 2);
  if (begin == "\xFF\xFE" || begin == "\xFE\xFF")
    return "not valid UTF-8 but UTF-16: save the file as UTF-8";
  return "not valid UTF-8";
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      ++i;
      continue;
    }
    std::size_t more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
    if (c < 0xC2 || c > 0xF4 || i + more >= text.size()) return i;
    unsigned char second = static_cast<unsigned char>(text[i + 1]);
    // Overlong forms, surrogates and values beyond U+10FFFF show in the second byte.
    if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) ||
        (c == 0xF0 && second < 0x90) || (c == 0xF4 && second > 0x8F))
      return i;
    for (std::size_t k = 1; k <= more; ++k)
      if (!is_continuation(text[i + k])) return i;
    i += more + 1;
  }
  return std::string_view::npos;
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return text;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

}  // namespace pergpu
