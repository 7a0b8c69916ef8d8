// mmap takes what lies beyond the end of a file, and kills who looks at it; so the size is asked
// for first.
#include "share/file_mapping.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace pergpu::share {
namespace {

Result<void> all_of_it_is_there(int fd, std::uint64_t offset, std::size_t size) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return os_error("look at descriptor " + std::to_string(fd));
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorKind::Invalid, EINVAL,
                 "descriptor " + std::to_string(fd) + " isn't a regular file"};
  }
  std::uint64_t length = static_cast<std::uint64_t>(status.st_size);
  if (size > 0 && offset <= length && size <= length - offset) return {};
  return Error{ErrorKind::Invalid, EINVAL,
               std::to_string(size) + " bytes from " + std::to_string(offset) +
                   " on can't be mapped: the file has " + std::to_string(length) + " bytes"};
}

}  // namespace

Result<FileMapping> FileMapping::map(int fd, std::uint64_t offset, std::size_t size, View view) {
  if (Result<void> there = all_of_it_is_there(fd, offset, size); !there) {
    return std::move(there).error();
  }
  std::size_t skip = offset % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  Result<Mapping> mapping = Mapping::map(fd, offset - skip, skip + size, view);
  if (!mapping) {
    return os_error("map " + std::to_string(size) + " bytes of descriptor " + std::to_string(fd),
                    mapping.error().os_errno);
  }
  return FileMapping(std::move(*mapping), skip);
}

}  // namespace pergpu::share
