// A library for LD_PRELOAD: the disk below $PERGPU_HOME fails as the file $FAULTY_DISK says.
//
//   "ENOSPC" "EIO" "EROFS"   writes and syncs fail
//   "delay 5000"             syncs take so many milliseconds longer
//   "hang"                   what is below a folder "dead-mount", anywhere, does not answer
//   no such file             the disk is well
//
// $FAULTY_DISK.hit is there once a call has failed.
//
// Only what goes through libc is seen: the store's writes do, keepers are static.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool lies_in_home(int fd) {
  const char* home = std::getenv("PERGPU_HOME");
  if (home == nullptr) return false;
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path);
  if (length <= 0) return false;
  const std::string_view file(path, static_cast<std::size_t>(length));
  return file.starts_with(home) && file.find("pergpu.db") != std::string_view::npos;
}

/// What the file says; "" when there is none.
std::string_view order(char (&text)[64]) {
  const char* path = std::getenv("FAULTY_DISK");
  if (path == nullptr) return {};
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t length = ::read(fd, text, sizeof text);
  ::close(fd);
  return length <= 0 ? std::string_view()
                     : std::string_view(text, static_cast<std::size_t>(length));
}

/// Whether the call has to fail; errno is then set.
bool fails(int fd, bool is_sync) {
  const int before = errno;
  char text[64];
  const std::string_view what = order(text);
  errno = before;
  if (what.empty() || what.starts_with("hang") || !lies_in_home(fd)) return false;
  if (what.starts_with("delay ")) {
    if (is_sync) ::usleep(static_cast<useconds_t>(std::atol(text + 6)) * 1000);
    return false;
  }
  std::string hit = std::getenv("FAULTY_DISK");
  ::close(::open((hit + ".hit").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  errno = what.starts_with("ENOSPC") ? ENOSPC : what.starts_with("EROFS") ? EROFS : EIO;
  return true;
}

}  // namespace

extern "C" {

char* realpath(const char* path, char* out) {
  static const auto call = real<char*(const char*, char*)>("realpath");
  char text[64];
  while (std::strstr(path, "/dead-mount") != nullptr && order(text).starts_with("hang")) {
    ::usleep(10'000);
  }
  return call(path, out);
}
ssize_t write(int fd, const void* bytes, size_t count) {
  static const auto call = real<ssize_t(int, const void*, size_t)>("write");
  return fails(fd, false) ? -1 : call(fd, bytes, count);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  static const auto call = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return fails(fd, false) ? -1 : call(fd, bytes, count, at);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t at) {
  static const auto call = real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return fails(fd, false) ? -1 : call(fd, bytes, count, at);
}
int ftruncate64(int fd, off64_t size) {
  static const auto call = real<int(int, off64_t)>("ftruncate64");
  return fails(fd, false) ? -1 : call(fd, size);
}
int fsync(int fd) {
  static const auto call = real<int(int)>("fsync");
  return fails(fd, true) ? -1 : call(fd);
}
int fdatasync(int fd) {
  static const auto call = real<int(int)>("fdatasync");
  return fails(fd, true) ? -1 : call(fd);
}
}
