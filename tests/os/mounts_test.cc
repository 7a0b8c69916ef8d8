// Which file system a path lies on, of texts (os/fs/mounts.h).
#include "os/fs/mounts.h"

#include <gtest/gtest.h>

namespace pergpu::os {
namespace {

constexpr char kMounts[] =
    "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
    "23 22 0:30 / /home rw shared:5 master:1 - nfs4 server:/home rw,vers=4.2\n"
    "24 23 0:31 /a /home/alice/a\\040b rw - xfs /dev/sdb rw\n"
    "25 22 0:32 / /data rw - ext4 /dev/sdc rw\n"
    "26 22 0:33 / /data rw - lustre server:/data rw\n"
    "nonsense\n"
    "27 22 0:34 / /sys rw - sysfs\n";

std::string type_at(std::string_view path) {
  const std::vector<Mount> mounts = mounts_in(kMounts);
  const Mount* mount = mount_at(mounts, path);
  return mount == nullptr ? "" : mount->type;
}

TEST(Mounts, TheLongestPointThatHoldsThePathCounts) {
  EXPECT_EQ(type_at("/usr/bin"), "ext4");
  EXPECT_EQ(type_at("/home/bob"), "nfs4");
  EXPECT_EQ(type_at("/home"), "nfs4");
  EXPECT_EQ(type_at("/homes/bob"), "ext4");
  EXPECT_EQ(type_at("/home/alice/a b/x"), "xfs");
}

TEST(Mounts, TheLaterOneOnAPointCoversTheEarlier) { EXPECT_EQ(type_at("/data/x"), "lustre"); }

TEST(Mounts, LinesThatMakeNoSenseAreLeftOut) {
  const std::vector<Mount> mounts = mounts_in(kMounts);
  ASSERT_EQ(mounts.size(), 6u);
  EXPECT_EQ(mounts[2].root, "/a");
  EXPECT_EQ(mounts[1].options, "rw,vers=4.2");
  EXPECT_EQ(mounts.back().options, "");
  EXPECT_TRUE(mounts_in("").empty());
  EXPECT_EQ(mount_at({}, "/x"), nullptr);
}

TEST(Mounts, NetworkFileSystemsAreKnownByName) {
  for (const char* type : {"nfs", "nfs4", "lustre", "cifs", "fuse.sshfs"}) {
    EXPECT_TRUE(is_network_type(type)) << type;
  }
  for (const char* type : {"ext4", "xfs", "tmpfs", "overlay", "fuse", "", "nfsd"}) {
    EXPECT_FALSE(is_network_type(type)) << type;
  }
}

}  // namespace
}  // namespace pergpu::os
