// What two processes share by a descriptor, with and without memfd_create.
#include "os/fs/unnamed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "os/kernel.h"
#include "os/test_hooks.h"

namespace pergpu::os {
namespace {

class UnnamedFile : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { pretend_missing(KernelCall::MemfdCreate, GetParam()); }
  void TearDown() override { pretend_missing(KernelCall::MemfdCreate, false); }
};

TEST_P(UnnamedFile, HoldsWhatIsWrittenAndHasNoName) {
  const Result<UniqueFd> file = make_unnamed_file();
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(::write(file->get(), "abc", 3), 3);
  std::string text(3, '\0');
  EXPECT_EQ(::pread(file->get(), text.data(), 3, 0), 3);
  EXPECT_EQ(text, "abc");
  struct stat status = {};
  ASSERT_EQ(::fstat(file->get(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_NE(::fcntl(file->get(), F_GETFD) & FD_CLOEXEC, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, UnnamedFile, testing::Bool());

}  // namespace
}  // namespace pergpu::os
