// Files are read from their end in blocks; a log of a gigabyte costs the same as a short one.
#include "cli/job_files/tail.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "os/fd.h"

namespace pergpu::cli {
namespace {

constexpr std::int64_t kTailBlock = 64 << 10;

os::UniqueFd open_sized(const std::string& path, os::Writer writer, std::int64_t* size) {
  Result<os::UniqueFd> fd = os::open_written(path, writer);
  struct stat st {};
  if (!fd || ::fstat(fd->get(), &st) < 0) return {};
  *size = st.st_size;
  return *std::move(fd);
}

std::string read_range(int fd, std::int64_t begin, std::int64_t end) {
  std::string bytes(static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin)), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n =
        ::pread(fd, bytes.data() + got, bytes.size() - got, begin + static_cast<std::int64_t>(got));
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::int64_t file_size(const std::string& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

std::vector<std::string> last_lines(const std::string& path, std::size_t count, std::int64_t begin,
                                    os::Writer writer) {
  std::int64_t size = 0;
  const os::UniqueFd fd = open_sized(path, writer, &size);
  if (!fd) return {};
  return last_lines_in(read_range(fd.get(), std::max(begin, size - kTailBlock), size), count);
}

std::vector<std::string> last_lines_in(std::string_view text, std::size_t count) {
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (!rest.empty() && lines.size() < count) {
    if (rest.back() == '\n') rest.remove_suffix(1);
    const std::size_t at = rest.rfind('\n');
    const std::string_view line = at == std::string_view::npos ? rest : rest.substr(at + 1);
    if (!is_blank(line)) lines.emplace_back(line);
    rest = at == std::string_view::npos ? std::string_view() : rest.substr(0, at + 1);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::int64_t offset_of_last_lines(const std::string& path, std::int64_t count) {
  std::int64_t size = 0;
  const os::UniqueFd fd = open_sized(path, os::Writer::Keeper, &size);
  if (!fd || count <= 0) return size;
  std::int64_t seen = 0;
  std::int64_t line_end = size;
  for (std::int64_t end = size; end > 0;) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - kTailBlock);
    if (os::next_data(fd.get(), begin) >= end) return end;  // a hole, which no job's log has
    const std::string block = read_range(fd.get(), begin, end);
    for (std::size_t i = block.size(); i-- > 0;) {
      const std::int64_t at = begin + static_cast<std::int64_t>(i);
      // The file's very last '\n' ends the last line and begins none.
      if (block[i] != '\n' || at == size - 1) continue;
      if (++seen == count) return at + 1;
      line_end = at;
    }
    end = begin;
    if (end > 0 && line_end - end >= kLongestLine) return end;
  }
  return 0;
}

}  // namespace pergpu::cli
