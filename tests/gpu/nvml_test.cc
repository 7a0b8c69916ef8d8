// NVML through our own prototypes: layouts of process lists, absent functions, code words.
#include "gpu/nvml.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "gpu/throttle.h"
#include "support.h"

namespace pergpu::gpu {
namespace {

struct List {
  std::size_t stride;
  std::size_t count;
  bool clears_rest;
};

class ProcessList : public testing::TestWithParam<List> {};

std::vector<List> all_lists() {
  std::vector<List> lists;
  for (const std::size_t stride : {16u, 24u, 32u}) {
    // 61 is the first capacity, 62 and 400 need a second call.
    for (const std::size_t count : {0u, 1u, 2u, 3u, 4u, 6u, 60u, 61u, 62u, 400u}) {
      for (const bool clears_rest : {false, true}) lists.push_back({stride, count, clears_rest});
    }
  }
  return lists;
}

TEST_P(ProcessList, IsReadInEveryLayoutADriverEverWrote) {
  const List& list = GetParam();
  std::string processes;
  for (std::size_t i = 0; i < list.count; ++i) {
    processes += fmt::format(R"({}{{"pid": {}, "memory_bytes": {}}})", i == 0 ? "" : ",", 1000 + i,
                             i % 3 == 0 ? "null" : std::to_string(i << 20));
  }
  FakeDriver driver(fmt::format(
      R"({{"stride": {}, "clears_rest": {}, "gpus": [{{"used_bytes": 1, "processes": [{}]}}]}})",
      list.stride, list.clears_rest, processes));
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml) << nvml.error().message;
  ASSERT_EQ(nvml->init(), 0);
  const NvmlAnswer<NvmlDevice> device = nvml->device(0);
  ASSERT_TRUE(device.ok());
  const auto found = nvml->processes(device.value, NvmlProcessKind::Compute);
  ASSERT_TRUE(found.ok()) << found.code;
  ASSERT_EQ(found.value.size(), list.count);
  for (std::size_t i = 0; i < list.count; ++i) {
    EXPECT_EQ(found.value[i].pid, 1000 + i);
    EXPECT_EQ(found.value[i].memory_bytes,
              i % 3 == 0 ? std::nullopt : std::optional<std::uint64_t>(i << 20));
  }
  const auto graphics = nvml->processes(device.value, NvmlProcessKind::Graphics);
  EXPECT_TRUE(graphics.ok());
  EXPECT_TRUE(graphics.value.empty());
  nvml->shutdown();
}

INSTANTIATE_TEST_SUITE_P(Layouts, ProcessList, testing::ValuesIn(all_lists()),
                         [](const testing::TestParamInfo<List>& list) {
                           return fmt::format("{}bytes_{}entries{}", list.param.stride,
                                              list.param.count,
                                              list.param.clears_rest ? "_cleared" : "");
                         });

TEST(ProcessStride, UnknownLayoutIsNotGuessed) {
  constexpr std::size_t kCapacity = 61;
  std::vector<unsigned char> bytes(kCapacity * 64, kNvmlCanary);
  EXPECT_EQ(process_stride(bytes, 2, kCapacity), std::nullopt) << "nothing was written";
  std::memset(bytes.data(), 0, 2 * 40);
  EXPECT_EQ(process_stride(bytes, 2, kCapacity), std::nullopt) << "40 bytes an entry";
  std::memset(bytes.data(), 0, 3 * 16);
  std::memset(bytes.data() + 3 * 16, kNvmlCanary, 200);
  EXPECT_EQ(process_stride(bytes, 2, kCapacity), std::optional<std::size_t>(24))
      << "3 * 16 bytes are 2 entries of 24";
}

TEST(ProcessStride, NoTwoLayoutsEndAtTheSameByte) {
  for (const std::size_t capacity : {61u, 127u, 259u, 523u, 1051u}) {
    for (std::size_t count = 1; count <= capacity; ++count) {
      for (const std::size_t written : {count, capacity}) {
        for (const std::size_t stride : {16u, 24u, 32u}) {
          std::vector<unsigned char> bytes(capacity * 64, kNvmlCanary);
          bytes[stride * written - 1] = 0;
          ASSERT_EQ(process_stride(bytes, count, capacity), stride)
              << count << " of " << capacity << ", written " << written;
        }
      }
      if (capacity > 61) count += 6;
    }
  }
}

TEST(Nvml, UnknownEntrySizeIsAnAnswerThatIsNotOk) {
  FakeDriver driver(R"({"stride": 40, "gpus": [{"processes": [{"pid": 1}, {"pid": 2}]}]})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const auto found = nvml->processes(nvml->device(0).value, NvmlProcessKind::Compute);
  EXPECT_EQ(found.code, nvml_code::kStructVersion);
  EXPECT_TRUE(found.value.empty());
}

TEST(Nvml, ReadsWhatADeviceIs) {
  FakeDriver driver(R"({"driver": "570.1", "gpus": [{}, {
      "uuid": "GPU-b", "name": "Big", "pci": "00000000:C1:00.0", "minor": 5, "numa": 1,
      "cpus": [0, 63, 64, 130], "memory_bytes": 1000, "used_bytes": 400}]})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  EXPECT_EQ(nvml->driver_version(), "570.1");
  EXPECT_EQ(nvml->device_count().value, 2u);
  const NvmlDevice device = nvml->device(1).value;
  EXPECT_EQ(nvml->uuid(device).value, "GPU-b");
  EXPECT_EQ(nvml->name(device).value, "Big");
  EXPECT_EQ(nvml->pci_address(device).value, "0000:c1:00.0");
  EXPECT_EQ(nvml->minor_number(device).value, 5u);
  EXPECT_EQ(nvml->numa_node(device).value, 1u);
  EXPECT_EQ(nvml->near_cpus(device).value, (std::vector<int>{0, 63, 64, 130}));
  EXPECT_EQ(nvml->memory(device).value.total_bytes, 1000u);
  EXPECT_EQ(nvml->memory(device).value.used_bytes, 400u);
}

TEST(Nvml, OldDriverIsReadThroughItsFirstNamesAndStructs) {
  FakeDriver driver(
      R"({"stride": 16, "gpus": [{"memory_bytes": 1000, "used_bytes": 7, "processes": [{"pid": 9}]}]})");
  Result<Nvml> nvml = Nvml::load(kFakeNvmlOld);
  ASSERT_TRUE(nvml) << nvml.error().message;
  ASSERT_EQ(nvml->init(), 0);
  EXPECT_EQ(nvml->device_count().value, 1u);
  const NvmlDevice device = nvml->device(0).value;
  EXPECT_EQ(nvml->memory(device).value.used_bytes, 7u);
  EXPECT_EQ(nvml->processes(device, NvmlProcessKind::Compute).value.size(), 1u);
  EXPECT_EQ(nvml->numa_node(device).code, nvml_code::kFunctionNotFound);
  EXPECT_EQ(nvml->pci_address(device).code, nvml_code::kFunctionNotFound);
}

TEST(Nvml, OldDriverTellsWhyItsClocksAreLowByTheOldName) {
  FakeDriver driver(R"({"gpus": [{"throttle": 64}]})");
  for (const std::string& library : {kFakeNvml, kFakeNvmlOld}) {
    Result<Nvml> nvml = Nvml::load(library);
    ASSERT_TRUE(nvml) << nvml.error().message;
    ASSERT_EQ(nvml->init(), 0);
    EXPECT_EQ(nvml->throttle(nvml->device(0).value).value, 64u);
    EXPECT_EQ(nvml->clock_mhz(nvml->device(0).value).value, 1410u);
    nvml->shutdown();
  }
}

TEST(ThrottleWords, NameWhatIsInAJobsWay) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(throttle_words(0), Words{});
  EXPECT_EQ(throttle_words(0x1 | 0x2 | 0x100), Words{});  // idle; clocks as somebody set them
  EXPECT_EQ(throttle_words(0x4 | 0x40), (Words{"power-cap", "hw-thermal"}));
  EXPECT_EQ(throttle_words(0x8000'0000u | 0x80), (Words{"hw-power-brake", "bit-31"}));
}

TEST(Nvml, NewerStructThatIsRefusedFallsBackToTheOlder) {
  FakeDriver driver(
      R"({"gpus": [{"used_bytes": 7, "errors": {"nvmlDeviceGetMemoryInfo_v2": 25}}]})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  EXPECT_EQ(nvml->memory(nvml->device(0).value).value.used_bytes, 7u);
}

TEST(NvmlLoad, MissingLibraryMeansNoDriver) {
  const Result<Nvml> nvml = Nvml::load("/nonexistent/libnvidia-ml.so.1");
  ASSERT_FALSE(nvml);
  EXPECT_EQ(nvml.error().kind, ErrorKind::NotFound);
  EXPECT_NE(nvml.error().message.find("/nonexistent/libnvidia-ml.so.1"), std::string::npos);
}

TEST(NvmlLoad, FileThatIsNoLibraryIsNotTakenForAMissingDriver) {
  TempFolder folder;
  write(folder / "libnvidia-ml.so.1", "no library");
  const Result<Nvml> nvml = Nvml::load(folder / "libnvidia-ml.so.1");
  ASSERT_FALSE(nvml);
  EXPECT_EQ(nvml.error().kind, ErrorKind::Unavailable);
}

TEST(NvmlLoad, LibraryWithoutTheFunctionsIsRefusedByName) {
  const Result<Nvml> nvml = Nvml::load("libm.so.6");
  ASSERT_FALSE(nvml);
  EXPECT_EQ(nvml.error().kind, ErrorKind::Unavailable);
  EXPECT_NE(nvml.error().message.find("libm.so.6 isn't NVML"), std::string::npos);
}

TEST(NvmlWords, CarryTheNumber) {
  EXPECT_EQ(nvml_words(15), "the GPU is lost: it has fallen off the bus (NVML 15)");
  EXPECT_EQ(nvml_words(4242), "driver error (NVML 4242)");
}

TEST(SysfsPciAddress, ShortensOnlyADomainThatFits) {
  EXPECT_EQ(sysfs_pci_address("00000000:65:00.0"), "0000:65:00.0");
  EXPECT_EQ(sysfs_pci_address("0000:AF:00.0"), "0000:af:00.0");
  EXPECT_EQ(sysfs_pci_address("00010000:65:00.0"), "00010000:65:00.0");
  EXPECT_EQ(sysfs_pci_address(""), "");
}

TEST(NvmlHealthTest, IsReadWithoutWhatLiesBesideTheValues) {
  FakeDriver driver(
      R"({"gpus": [{}, {"repair_pending": true, "recovery_action": 2}, {"repair_failed": true}]})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const NvmlHealth well = nvml->health(nvml->device(0).value);
  EXPECT_EQ(well.repair_pending, false);
  EXPECT_EQ(well.repair_failed, false);
  EXPECT_EQ(well.recovery_action, 0);
  const NvmlHealth ill = nvml->health(nvml->device(1).value);
  EXPECT_EQ(ill.repair_pending, true);
  EXPECT_EQ(ill.repair_failed, false);
  EXPECT_EQ(ill.recovery_action, 2);
  EXPECT_EQ(nvml->health(nvml->device(2).value).repair_failed, true);
  nvml->shutdown();
}

TEST(NvmlXids, ThoseAfterTheRegistrationAreTakenOnceEachOfItsOwnGpu) {
  FakeDriver driver("{}");
  const std::string folder = driver.folder().path();
  driver.set(fmt::format(R"({{"gpus": 2, "xids": "{}"}})", folder));
  const std::string file = folder + "/GPU-00000000-0000-0000-0000-000000000000";
  write(file, "13\n");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const auto first = nvml->watch_xids(nvml->device(0).value);
  const auto second = nvml->watch_xids(nvml->device(1).value);
  ASSERT_TRUE(first.ok() && second.ok());
  using Xids = std::vector<NvmlXid>;
  EXPECT_EQ(nvml->take_xids(first.value), Xids{}) << "from before";
  write(file, "13\n31\n79\n");
  EXPECT_EQ(nvml->take_xids(second.value), Xids{});
  EXPECT_EQ(nvml->take_xids(first.value), (Xids{{.number = 31}, {.number = 79}}));
  EXPECT_EQ(nvml->take_xids(first.value), Xids{});
  nvml->unwatch(first.value);
  nvml->unwatch(second.value);
  nvml->shutdown();
}

TEST(NvmlXids, AnOldDriverWithoutEventsOrValuesIsNoError) {
  FakeDriver driver(R"({"gpus": [{"repair_pending": true}]})");
  Result<Nvml> nvml = Nvml::load(kFakeNvmlOld);
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const NvmlDevice device = nvml->device(0).value;
  EXPECT_EQ(nvml->watch_xids(device).code, nvml_code::kFunctionNotFound);
  EXPECT_EQ(nvml->health(device).repair_pending, false) << "it will never tell more";
  EXPECT_EQ(nvml->health(device).recovery_action, 0);
  nvml->shutdown();
}

TEST(NvmlHealthTest, ADriverThatRefusesTheNewestValueTellsTheOthers) {
  FakeDriver driver(R"({"gpus": [{"repair_pending": true, "recovery_action": null}]})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const NvmlHealth health = nvml->health(nvml->device(0).value);
  EXPECT_EQ(health.repair_pending, true);
  EXPECT_EQ(health.recovery_action, 0);
  nvml->shutdown();
}

TEST(NvmlHealthTest, AQuestionThatFailsIsNoAnswer) {
  FakeDriver driver(R"({"gpus": [{"errors": {"nvmlDeviceGetFieldValues": 999}}]})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const NvmlHealth health = nvml->health(nvml->device(0).value);
  EXPECT_FALSE(health.repair_pending || health.repair_failed || health.recovery_action);
  nvml->shutdown();
}

TEST(NvmlVersions, LibraryTellsItsOwnAlsoWhenItDoesNotFitTheDriver) {
  FakeDriver driver(R"({"library": "550.90.07", "cuda": 12040, "errors": {"nvmlInit_v2": 18}})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), nvml_code::kVersionMismatch);
  EXPECT_EQ(nvml->library_version(), "550.90.07");
  EXPECT_EQ(nvml->cuda_version(), "12.4");
}

TEST(NvmlVersions, TheCudaVersionInFrontIsNoPartOfTheDrivers) {
  EXPECT_EQ(driver_of_library("12.550.54.15"), "550.54.15");
  EXPECT_EQ(driver_of_library("11.470.42"), "470.42");
  EXPECT_EQ(driver_of_library("550.54.15"), "550.54.15");
  EXPECT_EQ(driver_of_library("12.4"), "12.4");
  EXPECT_EQ(driver_of_library(""), "");
}

TEST(NvmlSettingsTest, AreReadAndWhatAGpuDoesNotHaveIsNotTold) {
  FakeDriver driver(R"({"gpus": [{"persistent": false, "compute_mode": 3},
                                 {"mig": true, "mig_pending": false},
                                 {"errors": {"nvmlDeviceGetPersistenceMode": 3}}]})");
  Result<Nvml> nvml = Nvml::load();
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const NvmlSettings plain = nvml->settings(nvml->device(0).value);
  EXPECT_EQ(plain.persistent, false);
  EXPECT_EQ(plain.mig, std::nullopt);
  EXPECT_EQ(plain.compute_mode, 3);
  const NvmlSettings cut = nvml->settings(nvml->device(1).value);
  EXPECT_EQ(cut.persistent, true);
  EXPECT_EQ(cut.mig, true);
  EXPECT_EQ(cut.mig_pending, false);
  EXPECT_EQ(nvml->settings(nvml->device(2).value).persistent, std::nullopt);
  nvml->shutdown();
}

TEST(NvmlSettingsTest, AnOldDriverTellsNone) {
  FakeDriver driver(R"({"gpus": 1})");
  Result<Nvml> nvml = Nvml::load(kFakeNvmlOld);
  ASSERT_TRUE(nvml);
  ASSERT_EQ(nvml->init(), 0);
  const NvmlSettings settings = nvml->settings(nvml->device(0).value);
  EXPECT_FALSE(settings.persistent || settings.mig || settings.compute_mode);
  EXPECT_EQ(nvml->library_version(), "");
  EXPECT_EQ(nvml->cuda_version(), "");
  nvml->shutdown();
}

}  // namespace
}  // namespace pergpu::gpu
