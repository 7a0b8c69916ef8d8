// What is left of a path when it is taken apart.
#include "os/fs/path_names.h"

#include <gtest/gtest.h>

namespace pergpu::os {
namespace {

using Names = std::vector<std::string>;

TEST(PathNames, AreThoseBetweenTheSlashes) {
  EXPECT_EQ(names_in("/a/b c/d"), (Names{"a", "b c", "d"}));
  EXPECT_EQ(names_in("a"), (Names{"a"}));
}

TEST(PathNames, LeaveOutWhatLeadsNowhere) {
  EXPECT_EQ(names_in("//a/./b/"), (Names{"a", "b"}));
  EXPECT_EQ(names_in("/"), Names{});
  EXPECT_EQ(names_in(""), Names{});
}

TEST(PathBelow, IsWhatIsLeftOfThePath) {
  EXPECT_EQ(path_below("/runs", "/runs/s/01"), "s/01");
  EXPECT_EQ(path_below("/runs/", "/runs//s"), "s");
  EXPECT_EQ(path_below("/", "/s/01"), "s/01");
  EXPECT_EQ(path_below("/", "//s"), "s");
  for (const char* path : {"/runs", "/runs/", "/runs2/s", "runs/s", ""})
    EXPECT_EQ(path_below("/runs", path), "") << path;
  EXPECT_EQ(path_below("", "/s"), "");
}

TEST(PathNames, KeepTheWayUp) {
  EXPECT_EQ(names_in("a/../.b/..."), (Names{"a", "..", ".b", "..."}));
}

}  // namespace
}  // namespace pergpu::os
