// What can still be had is more than nothing, and no more than there is.
#include "os/process/free_memory.h"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include "os/fs/file.h"
#include "os/process/own_cgroups.h"

namespace pergpu::os {
namespace {

TEST(FreeMemory, IsMoreThanNothingAndNoMoreThanThereIs) {
  struct sysinfo all = {};
  ASSERT_EQ(::sysinfo(&all), 0);
  EXPECT_GT(free_memory(), std::uint64_t{1} << 20);
  EXPECT_LE(free_memory(), (std::uint64_t{all.totalram} + all.totalswap) * all.mem_unit);
}

TEST(OwnCgroups, GoFromTheInnermostToTheRoot) {
  for (const char* controller : {"", "memory", "cpu"}) {
    std::vector<std::string> folders = own_cgroups(controller);
    for (std::size_t i = 1; i < folders.size(); ++i) {
      EXPECT_EQ(folders[i - 1].rfind(folders[i] + "/", 0), 0u) << folders[i - 1];
    }
    if (!folders.empty() && *controller == '\0') {
      EXPECT_EQ(folders.back(), "/sys/fs/cgroup");
    }
  }
  EXPECT_TRUE(own_cgroups("no-such-controller").empty());
}

}  // namespace
}  // namespace pergpu::os
