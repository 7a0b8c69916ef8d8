// GPUs by name only, where no driver tells of any.
#include "gpu/allocated_gpus.h"

#include <gtest/gtest.h>

namespace pergpu::gpu {
namespace {

using Names = std::vector<std::string>;

class Driver final : public GpuInventory {
 public:
  void look(std::function<void(const GpuLook&)> done) override { done(shown); }
  GpuLook shown;
};

TEST(AllocatedGpus, StandInForADriverThatIsNotThere) {
  Driver driver;
  driver.shown = {.why = "no NVIDIA driver", .no_driver = true};
  AllocatedGpus gpus(driver, {"2", "GPU-x"});
  GpuLook seen;
  gpus.look([&](const GpuLook& look) { seen = look; });
  ASSERT_TRUE(seen.complete);
  ASSERT_EQ(seen.gpus.size(), 2u);
  EXPECT_EQ(seen.gpus[0].uuid, "2");
  EXPECT_EQ(seen.gpus[0].index, 2);
  EXPECT_EQ(seen.gpus[1].uuid, "GPU-x");
  EXPECT_EQ(seen.gpus[1].index, 1);
}

TEST(AllocatedGpus, LeaveTheWordToADriverThatIs) {
  Driver driver;
  driver.shown = {.complete = false, .why = "the probe did not answer"};
  AllocatedGpus gpus(driver, {"2"});
  GpuLook seen{.complete = true};
  gpus.look([&](const GpuLook& look) { seen = look; });
  EXPECT_FALSE(seen.complete);
  EXPECT_TRUE(seen.gpus.empty());
}

TEST(AllocatedGpus, OfAmdAreTheNamedOnesAlone) {
  Driver driver;
  driver.shown = {.complete = true, .gpus = {{.uuid = "GPU-18a4d2a7b0c1e3f5"}}};
  const auto seen = [&](Names names) {
    AllocatedGpus gpus(driver, std::move(names));
    std::string uuid;
    gpus.look([&](const GpuLook& look) { uuid = look.gpus.at(0).uuid; });
    return uuid;
  };
  EXPECT_EQ(seen({"0"}), "0") << "the first that this allocation may use";
  EXPECT_EQ(seen({}), "GPU-18a4d2a7b0c1e3f5");
}

TEST(AllocatedGpus, AreNamedAsCudaReadsTheList) {
  EXPECT_EQ(device_names("0,3"), (Names{"0", "3"}));
  EXPECT_EQ(device_names("GPU-a"), Names{"GPU-a"});
  EXPECT_TRUE(device_names("").empty());
  EXPECT_TRUE(device_names("-1,2").empty());
  EXPECT_EQ(device_names("1,,2"), Names{"1"});
}

}  // namespace
}  // namespace pergpu::gpu
