// Compared by device and inode: an open file keeps its inode, so a number is never given twice.
#include "os/fs/named_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

namespace pergpu::os {

NamedFile::NamedFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)) {}

bool NamedFile::is_there() const { return fd_ && leads_to(path_, fd_.get()); }

bool leads_to(const std::string& path, int fd) {
  struct stat opened = {};
  struct stat named = {};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace pergpu::os
