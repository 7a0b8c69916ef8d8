// Devices to lanes, and the lists with which users name devices (gpu/lanes.h).
#include "gpu/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pergpu::gpu {
namespace {

GpuLook three_gpus() {
  GpuLook look;
  look.complete = true;
  for (const char* uuid : {"GPU-5a2b0000-aa", "GPU-5a2c0000-bb", "GPU-77000000-cc"}) {
    GpuReading& reading = look.gpus.emplace_back();
    reading.uuid = uuid;
    reading.index = static_cast<int>(look.gpus.size()) - 1;
  }
  return look;
}

using Uuids = std::vector<std::string>;

Uuids selected(std::string_view list) {
  Result<Uuids> uuids = select_gpus(three_gpus(), list, "--devices");
  EXPECT_TRUE(uuids) << uuids.error().message;
  return uuids ? *uuids : Uuids{"error"};
}

std::string refused(std::string_view list) {
  Result<Uuids> uuids = select_gpus(three_gpus(), list, "--devices");
  EXPECT_FALSE(uuids) << list;
  if (uuids) return "";
  EXPECT_EQ(uuids.error().kind, ErrorKind::Invalid);
  return uuids.error().message;
}

TEST(GpuLanes, FollowTheIndexNotTheOrderOfTheReading) {
  GpuLook look = three_gpus();
  std::swap(look.gpus[0], look.gpus[2]);
  const std::vector<GpuLane> lanes = gpu_lanes(look);
  ASSERT_EQ(lanes.size(), 3u);
  EXPECT_EQ(lanes[0].uuid, "GPU-5a2b0000-aa");
  EXPECT_EQ(lanes[2].id, (LaneId{.pool = LaneId::Pool::Gpu, .sweep = {}, .slot = 2}));
}

TEST(GpuLanes, DeviceWithoutIdentityHasNoLaneButALostOneHas) {
  GpuLook look = three_gpus();
  look.gpus[0].uuid = "";
  look.gpus[1].health = GpuHealth::Lost;
  ASSERT_EQ(gpu_lanes(look).size(), 2u);
  EXPECT_EQ(gpu_lanes(look)[0].uuid, "GPU-5a2c0000-bb");
}

TEST(SelectGpus, TakesIndicesAndUniquePrefixesInTheOrderGiven) {
  EXPECT_EQ(selected("2,0"), (Uuids{"GPU-77000000-cc", "GPU-5a2b0000-aa"}));
  EXPECT_EQ(selected("GPU-5a2c"), (Uuids{"GPU-5a2c0000-bb"}));
  EXPECT_EQ(selected(" gpu-77 , 1 "), (Uuids{"GPU-77000000-cc", "GPU-5a2c0000-bb"}));
}

TEST(SelectGpus, EmptyListAndMinusOneEndTheList) {
  EXPECT_EQ(selected(""), Uuids{});
  EXPECT_EQ(selected("-1"), Uuids{});
  EXPECT_EQ(selected("NoDevFiles"), Uuids{});
  EXPECT_EQ(selected("0,2,-1,1"), (Uuids{"GPU-5a2b0000-aa", "GPU-77000000-cc"}));
}

TEST(SelectGpus, NamesWhatIsThereWhenAnEntryFitsNothing) {
  EXPECT_EQ(refused("7"),
            "--devices: there is no GPU 7; this machine has 0 = GPU-5a2b0000-aa, "
            "1 = GPU-5a2c0000-bb, 2 = GPU-77000000-cc");
  EXPECT_NE(refused("GPU-9").find("neither a GPU number nor the beginning of a GPU's UUID"),
            std::string::npos);
}

TEST(SelectGpus, AmbiguousPrefixNamesTheCandidates) {
  EXPECT_EQ(refused("GPU-5a2"),
            "--devices: \"GPU-5a2\" matches several GPUs: GPU-5a2b0000-aa and GPU-5a2c0000-bb; "
            "write more of the UUID");
}

/// GPU 0 whole, GPU 1 cut into two.
GpuLook cut_gpu() {
  GpuLook look;
  look.complete = true;
  look.gpus = {{.uuid = "GPU-aa", .index = 0},
               {.uuid = "MIG-bb", .index = 1, .instance = 0},
               {.uuid = "MIG-cc", .index = 1, .instance = 3},
               {.uuid = "GPU-dd", .index = 2}};
  return look;
}

TEST(GpuLanes, OfInstancesAreNamedByGpuAndInstanceAndStandAmongTheGpus) {
  std::vector<std::string> names;
  GpuLook look = cut_gpu();
  std::reverse(look.gpus.begin(), look.gpus.end());
  for (const GpuLane& lane : gpu_lanes(look)) names.push_back(to_string(lane.id));
  EXPECT_EQ(names, (std::vector<std::string>{"gpu0", "gpu1:0", "gpu1:3", "gpu2"}));
}

TEST(SelectGpus, TakesInstancesByNumberAndUuidAndAllOfAGpuByItsNumber) {
  const auto chosen = [](std::string_view list) {
    Result<Uuids> uuids = select_gpus(cut_gpu(), list, "--devices");
    return uuids ? *uuids : Uuids{uuids.error().message};
  };
  EXPECT_EQ(chosen("1:3"), Uuids{"MIG-cc"});
  EXPECT_EQ(chosen("mig-b"), Uuids{"MIG-bb"});
  EXPECT_EQ(chosen("1,0"), (Uuids{"MIG-bb", "MIG-cc", "GPU-aa"}));
  EXPECT_EQ(chosen("1:1"), Uuids{"--devices: there is no GPU 1:1; this machine has 0 = GPU-aa, "
                                 "1:0 = MIG-bb, 1:3 = MIG-cc, 2 = GPU-dd"});
  EXPECT_EQ(chosen("0:0").size(), 1u);
  EXPECT_NE(chosen("0:0").front().find("no GPU 0:0"), std::string::npos);
  EXPECT_NE(chosen("1,1:3").front().find("names GPU 1:3 (MIG-cc) twice"), std::string::npos);
  for (const char* wrong : {"1:", ":1", "1:-1", "1:x"}) {
    EXPECT_NE(chosen(wrong).front().find("neither a GPU number"), std::string::npos) << wrong;
  }
}

TEST(SelectGpus, RefusesDoublesAndGaps) {
  EXPECT_EQ(refused("0,GPU-5a2b"), "--devices: \"0,GPU-5a2b\" names GPU 0 (GPU-5a2b0000-aa) twice");
  EXPECT_NE(refused("0,,1").find("empty entry"), std::string::npos);
  EXPECT_NE(refused("0,").find("empty entry"), std::string::npos);
  EXPECT_NE(refused("MIG-1234").find("neither a GPU number"), std::string::npos);
  EXPECT_NE(refused("-2").find("there is no GPU -2"), std::string::npos);
}

TEST(SelectGpus, SaysSoWhenThereIsNone) {
  const Result<Uuids> uuids = select_gpus(GpuLook{}, "0", "CUDA_VISIBLE_DEVICES");
  ASSERT_FALSE(uuids);
  EXPECT_EQ(uuids.error().message,
            "CUDA_VISIBLE_DEVICES: there is no GPU 0; this machine has no GPU that pergpu can see");
}

TEST(CpuBudget, IsTheEqualShareAtLeastOne) {
  EXPECT_EQ(default_cpu_budget(64, 8), 8);
  EXPECT_EQ(default_cpu_budget(2, 8), 1);
  EXPECT_EQ(default_cpu_budget(13, 4), 3);
  EXPECT_EQ(default_cpu_budget(4, 0), 4);
}

}  // namespace
}  // namespace pergpu::gpu
