// Where a device sits, from a sysfs of the test's own (gpu/locality.h).
#include "gpu/locality.h"

#include "support.h"

namespace pergpu::gpu {
namespace {

class LocalityTest : public testing::Test {
 protected:
  void device(const std::string& address, const std::string& node, const std::string& cpus) {
    const std::string folder = sysfs_ / ("bus/pci/devices/" + address);
    ASSERT_TRUE(os::make_dirs(folder, 0755));
    write(folder + "/numa_node", node);
    write(folder + "/local_cpulist", cpus);
  }
  TempFolder sysfs_;
};

TEST_F(LocalityTest, NodeAndItsCores) {
  device("0000:65:00.0", "1\n", "4-6,12\n");
  const Locality locality = locality_of(sysfs_.path(), "0000:65:00.0");
  EXPECT_EQ(locality.numa_node, 1);
  EXPECT_EQ(locality.near_cpus, (std::vector<int>{4, 5, 6, 12}));
}

TEST_F(LocalityTest, DeviceWithoutANodeIsNearNothingThoughSysfsListsAllCores) {
  device("0000:65:00.0", "-1\n", "0-63\n");
  const Locality locality = locality_of(sysfs_.path(), "0000:65:00.0");
  EXPECT_EQ(locality.numa_node, -1);
  EXPECT_TRUE(locality.near_cpus.empty());
}

TEST_F(LocalityTest, UnknownOrOddAddressIsNearNothing) {
  for (const char* address : {"", "0000:99:00.0", "../../../etc"}) {
    EXPECT_EQ(locality_of(sysfs_.path(), address).numa_node, -1) << address;
  }
}

TEST_F(LocalityTest, CoresOfANode) {
  ASSERT_TRUE(os::make_dirs(sysfs_ / "devices/system/node/node3", 0755));
  write(sysfs_ / "devices/system/node/node3/cpulist", "8-9\n");
  EXPECT_EQ(cpus_of_node(sysfs_.path(), 3), (std::vector<int>{8, 9}));
  EXPECT_TRUE(cpus_of_node(sysfs_.path(), 4).empty());
}

TEST(CpuList, MalformedOnesAreNoList) {
  EXPECT_EQ(parse_cpu_list("0"), std::vector<int>{0});
  EXPECT_EQ(parse_cpu_list("0-1,3"), (std::vector<int>{0, 1, 3}));
  for (const char* text : {"", "x", "1-", "3-1", "1;2", "-1", "0-99999999", "1 "}) {
    EXPECT_TRUE(parse_cpu_list(text).empty()) << text;
  }
}

}  // namespace
}  // namespace pergpu::gpu
