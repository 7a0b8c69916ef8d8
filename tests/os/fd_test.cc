#include "os/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace pergpu::os {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesAtTheEndOfItsLife) {
  int number = -1;
  {
    const UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, MovedFromOwnsNothing) {
  UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  const UniqueFd second(std::move(first));
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, AssignedOverClosesTheOldOne) {
  UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int old = first.get();
  UniqueFd second(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int kept = second.get();
  first = std::move(second);
  EXPECT_FALSE(is_open(old));
  EXPECT_EQ(first.get(), kept);
}

TEST(UniqueFd, ResetToItselfStaysOpen) {
  UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  fd.reset(fd.get());
  EXPECT_TRUE(is_open(fd.get()));
}

TEST(UniqueFd, ReleasedIsTheCallers) {
  UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = fd.release();
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(UniqueFd, ClosingKeepsErrno) {
  UniqueFd fd(1 << 20);  // not open: close fails with EBADF
  errno = ENOSPC;
  fd.reset();
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace pergpu::os
