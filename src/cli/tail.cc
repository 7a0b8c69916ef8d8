// Files are read from their end in blocks; a log of a gigabyte costs the same as a short one.
#include "cli/tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "os/fd.h"

namespace pergpu::cli {
namespace {

constexpr std::int64_t kBlock = 64 << 10;

os::UniqueFd open_regular(const std::string& path, std::int64_t* size) {
  // O_NONBLOCK: somebody may have put a FIFO there.
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) < 0 || !S_ISREG(st.st_mode)) return {};
  *size = st.st_size;
  return fd;
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
  return ::stat(path.c_str(), &st) == 0 ? st.st_size : 0;
}

std::vector<std::string> last_lines(const std::string& path, std::size_t count,
                                    std::int64_t begin) {
  std::int64_t size = 0;
  const os::UniqueFd fd = open_regular(path, &size);
  if (!fd) return {};
  return last_lines_in(read_range(fd.get(), std::max(begin, size - kBlock), size), count);
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
  const os::UniqueFd fd = open_regular(path, &size);
  if (!fd || count <= 0) return size;
  std::int64_t seen = 0;
  for (std::int64_t end = size; end > 0;) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - kBlock);
    const std::string block = read_range(fd.get(), begin, end);
    for (std::size_t i = block.size(); i-- > 0;) {
      const std::int64_t at = begin + static_cast<std::int64_t>(i);
      // The file's very last '\n' ends the last line and begins none.
      if (block[i] == '\n' && at != size - 1 && ++seen == count) return at + 1;
    }
    end = begin;
  }
  return 0;
}

}  // namespace pergpu::cli
