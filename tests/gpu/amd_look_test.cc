// AMD GPUs, from a sysfs and a /proc of the test's own (gpu/amd_look.h).
#include "gpu/amd_look.h"

#include "amd_tree.h"
#include "gpu/amd_uuid.h"
#include "gpu/foreign.h"

namespace pergpu::gpu {
namespace {

constexpr const char* kFirst = "0000:03:00.0";
constexpr const char* kSecond = "0000:83:00.0";

class AmdLook : public testing::Test {
 protected:
  std::vector<GpuReading> look(const std::set<int>& skip = {}) {
    touched_.clear();
    return looker_.look(skip, [this](int index) { touched_.push_back(index); });
  }
  std::vector<std::string> uuids() {
    std::vector<std::string> out;
    for (const GpuReading& reading : look()) out.push_back(reading.uuid);
    return out;
  }
  void two_cards() {
    tree_.card(0, kSecond, "00000000000000b2\n");
    tree_.card(1, kFirst, "18a4d2a7b0c1e3f5\n");
  }

  AmdTree tree_;
  AmdLooker looker_{tree_.sysfs(), tree_.proc()};
  std::vector<int> touched_;
};

TEST_F(AmdLook, MachineWithoutThemHasNone) {
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(looker_.usage({"GPU-18a4d2a7b0c1e3f5"}, {}, [](int) { FAIL(); }).empty());
}

TEST_F(AmdLook, ReadsEachInTheOrderOfTheBus) {
  two_cards();
  tree_.card(2, "10000:01:00.0", "c3\n");
  tree_.file(kFirst, "numa_node", "1\n");
  tree_.file(kFirst, "local_cpulist", "8-11\n");
  tree_.file(kSecond, "product_name", "AMD Instinct MI210\n");
  const std::vector<GpuReading> seen = look();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].uuid, "GPU-18a4d2a7b0c1e3f5");
  EXPECT_EQ(seen[0].pci, kFirst);
  EXPECT_EQ(seen[0].index, 0);
  EXPECT_EQ(seen[0].name, "AMD GPU 744c");
  EXPECT_EQ(seen[0].numa_node, 1);
  EXPECT_EQ(seen[0].near_cpus, (std::vector<int>{8, 9, 10, 11}));
  EXPECT_EQ(seen[0].total_bytes, 17163091968u);
  EXPECT_EQ(seen[0].used_bytes, 12345678u);
  EXPECT_EQ(seen[0].utilization, 7);
  EXPECT_EQ(seen[0].health, GpuHealth::Ok);
  EXPECT_TRUE(seen[0].processes.empty());
  EXPECT_EQ(seen[1].uuid, "GPU-00000000000000b2");
  EXPECT_EQ(seen[1].index, 1);
  EXPECT_EQ(seen[1].name, "AMD Instinct MI210");
  EXPECT_EQ(seen[2].uuid, "GPU-00000000000000c3") << "with the zeros that ROCm's runtime writes";
  EXPECT_EQ(touched_, (std::vector<int>{0, 1, 2}));
}

TEST_F(AmdLook, WhatIsNoGpuToComputeOnIsLeftOut) {
  tree_.card(10, "0000:01:00.0", "");             // as a rule in the processor
  tree_.card(11, "0000:02:00.0", "0\n");          // "none"
  tree_.card(12, "0000:04:00.0", "a1\n", "0\n");  // no memory of its own
  tree_.card(13, "0000:05:00.0", "a2\n", "");
  tree_.card(14, "0000:06:00.0", "a3\n");
  tree_.file("0000:06:00.0", "vendor", "0x10de\n");
  two_cards();
  EXPECT_EQ(uuids(), (std::vector<std::string>{"GPU-18a4d2a7b0c1e3f5", "GPU-00000000000000b2"}));
}

TEST_F(AmdLook, GarbageInFilesIsNoGpuAndNoValue) {
  tree_.card(0, "0000:01:00.0", "not an id\n");
  tree_.card(1, "0000:02:00.0", "a1\n", "-1\n");
  tree_.card(2, kFirst, "a2\n");
  tree_.file(kFirst, "gpu_busy_percent", "101\n");
  tree_.file(kFirst, "product_name", "\x1b[31mred\n");
  tree_.file(kFirst, "numa_node", "\n");
  const std::vector<GpuReading> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].utilization, std::nullopt);
  EXPECT_EQ(seen[0].name, "?[31mred");
  EXPECT_EQ(seen[0].numa_node, -1);
  EXPECT_EQ(seen[0].health, GpuHealth::Ok);
}

TEST_F(AmdLook, PartsOfADividedGpuAreNoLanes) {
  two_cards();
  tree_.card(2, "0000:83:00.1", "b2\n");
  EXPECT_EQ(uuids(), (std::vector<std::string>{"GPU-18a4d2a7b0c1e3f5", "GPU-00000000000000b2"}));
}

TEST_F(AmdLook, AGpuThatCannotBeReadAnyMoreKeepsItsNameAndComesBack) {
  two_cards();
  ASSERT_EQ(look().size(), 2u);
  tree_.remove_file(kFirst, "mem_info_vram_used");
  tree_.remove_file(kFirst, "unique_id");
  const std::vector<GpuReading> seen = look();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].uuid, "GPU-18a4d2a7b0c1e3f5");
  EXPECT_EQ(seen[0].health, GpuHealth::Unknown);
  EXPECT_NE(seen[0].note.find("mem_info_vram_used"), std::string::npos);
  EXPECT_EQ(seen[1].health, GpuHealth::Ok);
  tree_.file(kFirst, "mem_info_vram_used", "5\n");
  EXPECT_EQ(look()[0].health, GpuHealth::Ok);
}

TEST_F(AmdLook, AGpuThatIsGoneIsInErrorAndTheOthersKeepTheirNumbers) {
  two_cards();
  ASSERT_EQ(look().size(), 2u);
  tree_.remove_card(1);
  const std::vector<GpuReading> seen = look();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].health, GpuHealth::Error);
  EXPECT_FALSE(seen[0].note.empty());
  EXPECT_EQ(seen[1].index, 1);
  EXPECT_EQ(touched_, std::vector<int>{1});
  EXPECT_TRUE(looker_.usage({seen[0].uuid}, {}, [](int) {}).empty());
}

TEST_F(AmdLook, SkippedGpuIsNotTouched) {
  two_cards();
  const std::vector<GpuReading> seen = look({0});
  EXPECT_EQ(seen[0].health, GpuHealth::Unknown);
  EXPECT_EQ(seen[0].uuid, "GPU-18a4d2a7b0c1e3f5");
  EXPECT_EQ(touched_, std::vector<int>{1});
}

TEST_F(AmdLook, ProcessesAreThoseWithMemoryOnIt) {
  two_cards();
  const pid_t self = ::getpid();
  tree_.client(self, 3, kFirst, 30, "544428 KiB");
  tree_.client(self, 4, kFirst, 30, "544428 KiB");  // a duplicate of it
  tree_.client(self, 5, kFirst, 31, "22 MiB");
  tree_.client(::getppid(), 6, kSecond, 30, "0");
  tree_.client(::getppid(), 7, "0000:ff:00.0", 32, "1 MiB");
  tree_.client(999'999'999, 8, kSecond, 33, "1 MiB");  // has ended meanwhile
  const std::vector<GpuReading> seen = look();
  ASSERT_EQ(seen[0].processes.size(), 1u);
  const GpuProcess& process = seen[0].processes[0];
  EXPECT_EQ(process.pid, self);
  EXPECT_EQ(process.memory_bytes, (544428ull << 10) + (22ull << 20));
  EXPECT_TRUE(process.compute);
  EXPECT_TRUE(process.matched);
  EXPECT_EQ(process.uid, ::getuid());
  EXPECT_FALSE(process.ancestors.empty());
  EXPECT_TRUE(seen[1].processes.empty());
  EXPECT_EQ(judge(seen[0], {}).use, GpuUse::Foreign);
  EXPECT_EQ(judge(seen[1], {}).use, GpuUse::Free);
}

TEST_F(AmdLook, WhoOnlyDrawsDoesNotCompute) {
  two_cards();
  const pid_t self = ::getpid();
  tree_.client(self, 3, kFirst, 1, "700 MiB", "drm-engine-gfx:\t39456116802 ns\n");
  tree_.file(kFirst, "mem_info_vram_used", fmt::format("{}\n", 710 * kMiB));
  EXPECT_EQ(judge(look()[0], {}).use, GpuUse::Free);
  tree_.client(self, 4, kFirst, 2, "1 MiB", "drm-engine-compute:\t5 ns\n");
  EXPECT_EQ(judge(look()[0], {}).use, GpuUse::Foreign);
}

TEST_F(AmdLook, MemoryOfAProcessThatIsNotOursToReadClosesTheGpu) {
  two_cards();
  tree_.file(kFirst, "mem_info_vram_used", fmt::format("{}\n", 8 * 1024 * kMiB));
  EXPECT_EQ(judge(look()[0], {}).use, GpuUse::UnknownHolder);
}

TEST_F(AmdLook, TellsWhatThoseAskedForAreDoing) {
  two_cards();
  ASSERT_EQ(look().size(), 2u);
  tree_.file(kSecond, "gpu_busy_percent", "99\n");
  const std::vector<std::string> asked = {"GPU-00000000000000b2", "GPU-0000000000000000"};
  const std::vector<GpuUsage> told =
      looker_.usage(asked, {}, [](int index) { EXPECT_EQ(index, 1); });
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0],
            (GpuUsage{.uuid = "GPU-00000000000000b2", .busy_percent = 99, .used_bytes = 12345678}));
  EXPECT_TRUE(looker_.usage(asked, {1}, [](int) { FAIL(); }).empty());
}

TEST(AmdUuid, IsTheIdWithItsZeros) {
  EXPECT_EQ(amd_uuid("18a4d2a7b0c1e3f5\n"), "GPU-18a4d2a7b0c1e3f5");
  EXPECT_EQ(amd_uuid("0x1f\n"), "GPU-000000000000001f");
  for (const char* text : {"", "\n", "0", "0x", "0000000000000000\n", "xyz", "18a4d2a7b0c1e3f5a"}) {
    EXPECT_EQ(amd_uuid(text), std::nullopt) << text;
  }
}

TEST(AmdUuid, IsToldFromOthersByItsForm) {
  EXPECT_TRUE(is_amd_uuid("GPU-18a4d2a7b0c1e3f5"));
  EXPECT_TRUE(is_amd_uuid("GPU-DEADBEEFDEADBEEF"));
  for (const char* uuid :
       {"", "0", "GPU-", "GPU-18a4d2a7b0c1e3f", "GPU-11111111-0000-0000-0000-000000000001",
        "MIG-11111111-0000-0000-0000-000000000001", "GPU-11111111-0000-00"}) {
    EXPECT_FALSE(is_amd_uuid(uuid)) << uuid;
  }
  EXPECT_TRUE(are_amd_uuids({"GPU-18a4d2a7b0c1e3f5"}));
  EXPECT_FALSE(are_amd_uuids({"GPU-18a4d2a7b0c1e3f5", "1"}));
  EXPECT_FALSE(are_amd_uuids({}));
}

}  // namespace
}  // namespace pergpu::gpu
