// Room and limits as the kernel tells them (os/fs/space.h).
#include "os/fs/space.h"

#include <sys/resource.h>

#include "fixture.h"

namespace pergpu::os {
namespace {

TEST(Space, OfAFolderIsItsFileSystems) {
  const TempDir dir;
  const Result<Space> space = space_of(dir.path());
  ASSERT_TRUE(space) << space.error().message;
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_LE(space->free_bytes, space->total_bytes);
}

TEST(Space, OfWhatIsNotThereIsAnErrorThatNamesIt) {
  const TempDir dir;
  const Result<Space> space = space_of(dir / "none");
  ASSERT_FALSE(space);
  EXPECT_NE(space.error().message.find(dir / "none"), std::string::npos);
}

TEST(ProcessLimits, AreThoseOfThisProcess) {
  rlimit files = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(own_limits().open_files.soft, files.rlim_cur);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 1u << 30;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &lower), 0);
  EXPECT_EQ(own_limits().file_bytes.soft, 1u << 30);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(own_limits().file_bytes.soft,
            before.rlim_cur == RLIM_INFINITY ? kUnlimited : before.rlim_cur);
}

}  // namespace
}  // namespace pergpu::os
