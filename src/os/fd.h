// UniqueFd: owns one file descriptor.  Every descriptor of pergpu is close-on-exec.
#pragma once

#include <cstddef>
#include <utility>

namespace pergpu::os {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  /// Closes the owned descriptor (errno is preserved) and takes `fd`.
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// Lets this process have as many descriptors as it may; what cannot be raised stays.
void raise_descriptor_limit();
std::size_t descriptor_limit();

}  // namespace pergpu::os
