// What "there" means is in os/fs/expected_files.h.
#include "keeper/outputs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "os/fs/expected_files.h"

namespace pergpu::keeper {

timespec stamp_of(int fd) {
  struct stat st = {};
  (void)::futimens(fd, nullptr);
  (void)::fstat(fd, &st);
  return st.st_mtim;
}

std::optional<MissingOutput> first_missing(const std::vector<std::string>& outputs,
                                           const std::vector<std::string>& patterns,
                                           timespec since) {
  for (const std::string& path : outputs) {
    std::string why = os::why_not_there(path, since);
    if (!why.empty()) return MissingOutput{.path = path, .why = std::move(why)};
  }
  for (const std::string& pattern : patterns) {
    std::string why = os::why_no_match(pattern, since);
    if (!why.empty()) return MissingOutput{.path = pattern, .why = std::move(why)};
  }
  return std::nullopt;
}

}  // namespace pergpu::keeper
