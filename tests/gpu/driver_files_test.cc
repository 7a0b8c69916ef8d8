// What the kernel tells of NVIDIA's driver (gpu/driver_files.h).
#include "gpu/driver_files.h"

#include <unistd.h>

#include "support.h"

namespace pergpu::gpu {
namespace {

TEST(KernelModule, TellsItsVersion) {
  EXPECT_EQ(kernel_module_version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  "
                                     "Tue Mar  5 22:23:56 UTC 2024\nGCC version:  12.2.0\n"),
            "550.54.15");
  EXPECT_EQ(kernel_module_version_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                                     "580.65.06  Release Build  (builder)\n"),
            "580.65.06");
  EXPECT_EQ(kernel_module_version_in("GCC version: none\nx 1.2\n"), "");
  EXPECT_EQ(kernel_module_version_in(""), "");
}

TEST(LoggedXids, AreFoundInTheKernelsLog) {
  const std::string log =
      "6,1,100,-;usb 1-1: new device\n"
      "4,2,200,-;NVRM: Xid (PCI:0000:65:00): 79, pid=4711, name=python3, GPU has fallen off\n"
      " SUBSYSTEM=pci\n"
      "4,3,300,-;NVRM: Xid (0000:B1:00): 31, Ch 00000010\n"
      "4,4,400,-;NVRM: Xid (PCI:0000:65:00.0): 79, again\n"
      "4,5,500,-;NVRM: Xid (PCI:0000:65:00): many\n"
      "4,6,600,-;NVRM: Xid (cut";
  EXPECT_EQ(xids_in(log),
            (std::vector<LoggedXid>{{"0000:65:00", 79}, {"0000:b1:00", 31}, {"0000:65:00", 79}}));
  EXPECT_TRUE(xids_in("").empty());
}

class DriverFiles : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(os::make_dirs(os::parent_of(root_ / path), 0755));
    write(root_ / path, text);
  }
  void device(const std::string& address, const std::string& vendor, const std::string& kind) {
    put("sys/bus/pci/devices/" + address + "/vendor", vendor + "\n");
    put("sys/bus/pci/devices/" + address + "/class", kind + "\n");
  }
  TempFolder root_;
};

TEST_F(DriverFiles, GpusAreCountedByVendorAndKind) {
  EXPECT_EQ(gpus_on_bus(root_.path()), 0);
  device("0000:65:00.0", "0x10de", "0x030200");
  device("0000:65:00.1", "0x10de", "0x040300");  // the sound of a graphics card
  device("0000:b1:00.0", "0x10de", "0x030000");
  device("0000:00:02.0", "0x8086", "0x030000");
  EXPECT_EQ(gpus_on_bus(root_.path()), 2);
}

TEST_F(DriverFiles, TheModulesOwnFileTellsWhereTheOtherIsMissing) {
  EXPECT_EQ(kernel_module_version(root_.path()), "");
  put("sys/module/nvidia/version", "535.129.03\n");
  EXPECT_EQ(kernel_module_version(root_.path()), "535.129.03");
}

TEST_F(DriverFiles, ALogThatCannotBeReadIsAnError) {
  EXPECT_FALSE(logged_xids(root_.path()));
  put("dev/kmsg", "4,2,200,-;NVRM: Xid (PCI:0000:65:00): 48, pid=1\n");
  const Result<std::vector<LoggedXid>> xids = logged_xids(root_.path());
  ASSERT_TRUE(xids) << xids.error().message;
  EXPECT_EQ(*xids, (std::vector<LoggedXid>{{"0000:65:00", 48}}));
}

}  // namespace
}  // namespace pergpu::gpu
