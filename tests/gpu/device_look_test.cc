// One look at all GPUs, against the fake NVML (gpu/device_look.h).
#include "gpu/device_look.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/foreign.h"
#include "gpu/health.h"
#include "os/fd.h"
#include "support.h"

namespace pergpu::gpu {
namespace {

// NVML and a looker that both stay for the whole test, as in the probe.
class DeviceLook : public testing::Test {
 protected:
  GpuLook look(std::string_view scenario, const std::set<int>& skip = {}) {
    driver_.set(scenario);
    if (!nvml_) {
      Result<Nvml> loaded = Nvml::load();
      EXPECT_TRUE(loaded);
      nvml_.emplace(std::move(*loaded));
      EXPECT_EQ(nvml_->init(), 0);
    }
    touched_.clear();
    return looker_.look(*nvml_, skip, [this](int index) { touched_.push_back(index); });
  }
  ~DeviceLook() override {
    if (!nvml_) return;
    looker_.forget(*nvml_);
    nvml_->shutdown();
  }

  FakeDriver driver_{"{}"};
  TempFolder sysfs_;
  TempFolder dev_;
  DeviceLooker looker_{sysfs_.path(), dev_.path()};
  std::optional<Nvml> nvml_;
  std::vector<int> touched_;
};

TEST_F(DeviceLook, ReadsEveryGpu) {
  const GpuLook seen = look(R"({"gpus": 8})");
  EXPECT_TRUE(seen.complete);
  EXPECT_EQ(seen.why, "");
  ASSERT_EQ(seen.gpus.size(), 8u);
  EXPECT_EQ(seen.gpus[7].uuid, "GPU-77777777-0000-0000-0000-000000000007");
  EXPECT_EQ(seen.gpus[7].index, 7);
  EXPECT_EQ(seen.gpus[7].minor, 7);
  EXPECT_EQ(seen.gpus[7].health, GpuHealth::Ok);
  EXPECT_EQ(seen.gpus[7].total_bytes, 80ull << 30);
  // Then each is asked once how far away the ones after it are.
  EXPECT_EQ(touched_, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6}));
  touched_.clear();
  look(R"({"gpus": 8})");
  EXPECT_EQ(touched_, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(DeviceLook, DriverWithoutGpusIsACompleteLook) {
  const GpuLook seen = look(R"({"gpus": []})");
  EXPECT_TRUE(seen.complete);
  EXPECT_FALSE(seen.no_driver);
  EXPECT_EQ(seen.why, "the NVIDIA driver finds no GPU");
}

TEST_F(DeviceLook, SysfsKnowsTheNodeBeforeNvmlIsAsked) {
  ASSERT_TRUE(os::make_dirs(sysfs_ / "bus/pci/devices/0000:65:00.0", 0755));
  write(sysfs_ / "bus/pci/devices/0000:65:00.0/numa_node", "1\n");
  write(sysfs_ / "bus/pci/devices/0000:65:00.0/local_cpulist", "8-11\n");
  const GpuLook seen = look(R"({"gpus": [{"pci": "00000000:65:00.0", "numa": 0, "cpus": [0]},
                                         {"numa": 1, "cpus": [2, 3]}]})");
  EXPECT_EQ(seen.gpus[0].numa_node, 1);
  EXPECT_EQ(seen.gpus[0].near_cpus, (std::vector<int>{8, 9, 10, 11}));
  EXPECT_EQ(seen.gpus[1].numa_node, 1);
  EXPECT_EQ(seen.gpus[1].near_cpus, (std::vector<int>{2, 3}));
}

TEST_F(DeviceLook, TellsHowFarApartGpusAre) {
  const char* world = R"({"gpus": 3, "ancestors": [[0, 10, 40], [10, 0, 40], [40, 40, 0]],
                          "nvlinks": [[2, 0]]})";
  const GpuLook seen = look(world);
  EXPECT_EQ(seen.gpus[0].distances, (std::vector<int>{0, 10, kByNvLink}));
  EXPECT_EQ(seen.gpus[1].distances, (std::vector<int>{10, 0, 40}));
  EXPECT_EQ(seen.gpus[2].distances, (std::vector<int>{kByNvLink, 40, 0}));
  EXPECT_EQ(look(world).gpus[2].distances, seen.gpus[2].distances) << "at each look";
}

TEST_F(DeviceLook, ADriverThatDoesNotTellThemIsOneWithoutDistances) {
  const GpuLook seen = look(R"({"gpus": 2, "errors": {"nvmlDeviceGetP2PStatus": 3,
                                "nvmlDeviceGetTopologyCommonAncestor": 3}})");
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Ok);
  EXPECT_EQ(seen.gpus[0].distances, (std::vector<int>{0, 0}));
}

TEST_F(DeviceLook, ProcessesCarryWhatProcKnows) {
  const GpuLook seen = look(fmt::format(
      R"({{"gpus": [{{"processes": [{{"pid": {0}, "memory_bytes": 5}}, {{"pid": 1, "type": "graphics"}},
                                    {{"pid": {0}, "type": "graphics"}}]}}]}})",
      ::getpid()));
  ASSERT_EQ(seen.gpus.size(), 1u);
  ASSERT_EQ(seen.gpus[0].processes.size(), 2u) << "one in both lists computes";
  const GpuProcess& self = seen.gpus[0].processes[0];
  EXPECT_TRUE(self.compute);
  EXPECT_EQ(self.memory_bytes, 5u);
  if (!seen.in_container) {
    EXPECT_EQ(self.uid, ::getuid());
  }
  EXPECT_FALSE(seen.gpus[0].processes[1].compute);
}

struct Code {
  int code;
  GpuHealth health;
};
class DeviceCode : public DeviceLook, public testing::WithParamInterface<Code> {};

TEST_P(DeviceCode, DecidesAboutItsGpuAndNoOther) {
  const auto& [code, health] = GetParam();
  const GpuLook seen =
      look(fmt::format(R"({{"gpus": [{{}}, {{"errors": {{"nvmlDeviceGetMemoryInfo_v2": {0},
                           "nvmlDeviceGetMemoryInfo": {0}}}}}, {{}}]}})",
                       code));
  EXPECT_TRUE(seen.complete);
  ASSERT_EQ(seen.gpus.size(), 3u);
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Ok);
  EXPECT_EQ(seen.gpus[1].health, health);
  EXPECT_EQ(seen.gpus[1].uuid, "GPU-11111111-0000-0000-0000-000000000001");
  EXPECT_EQ(seen.gpus[2].health, GpuHealth::Ok);
  EXPECT_EQ(seen.gpus[1].note.empty(), health == GpuHealth::Ok);
  if (health != GpuHealth::Ok) {
    EXPECT_NE(seen.gpus[1].note.find(fmt::format("(NVML {})", code)), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(OfNvml, DeviceCode,
                         testing::Values(Code{3, GpuHealth::Ok}, Code{4, GpuHealth::Ok},
                                         Code{13, GpuHealth::Ok}, Code{25, GpuHealth::Ok},
                                         Code{10, GpuHealth::Unknown}, Code{15, GpuHealth::Lost},
                                         Code{28, GpuHealth::Lost}, Code{16, GpuHealth::Error},
                                         Code{17, GpuHealth::Error}, Code{11, GpuHealth::Error},
                                         Code{14, GpuHealth::Error}, Code{999, GpuHealth::Error},
                                         Code{4711, GpuHealth::Error}),
                         [](const testing::TestParamInfo<Code>& one) {
                           return fmt::format("code{}", one.param.code);
                         });

TEST_F(DeviceLook, GpuThatCannotBeOpenedIsInErrorEvenWithoutPermission) {
  const GpuLook seen = look(
      R"({"gpus": [{"errors": {"nvmlDeviceGetHandleByIndex_v2": 4}}, {"errors": {"nvmlDeviceGetUUID": 17}}]})");
  EXPECT_TRUE(seen.complete);
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Error);
  EXPECT_EQ(seen.gpus[0].uuid, "");
  EXPECT_EQ(seen.gpus[1].health, GpuHealth::Error);
}

TEST_F(DeviceLook, LostGpuKeepsItsNameAndComesBack) {
  EXPECT_EQ(look(R"({"gpus": 2})").gpus[1].health, GpuHealth::Ok);
  const GpuLook seen = look(R"({"gpus": [{}, {"lost": true}]})");
  EXPECT_TRUE(seen.complete);
  EXPECT_EQ(seen.gpus[1].health, GpuHealth::Lost);
  EXPECT_EQ(seen.gpus[1].uuid, "GPU-11111111-0000-0000-0000-000000000001");
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Ok);
  EXPECT_EQ(look(R"({"gpus": 2})").gpus[1].health, GpuHealth::Ok);
}

TEST_F(DeviceLook, UnknownLayoutOfTheProcessListClosesTheGpu) {
  const GpuLook seen =
      look(R"({"driver": "999.1", "stride": 40, "gpus": [{"processes": [{"pid": 1}]}, {}]})");
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Unknown);
  EXPECT_NE(seen.gpus[0].note.find("driver 999.1"), std::string::npos);
  EXPECT_EQ(seen.gpus[1].health, GpuHealth::Ok) << "an empty list has no layout";
}

TEST_F(DeviceLook, SkippedGpuIsNotTouched) {
  const GpuLook seen = look(R"({"gpus": [{}, {"hang": ["*"]}, {}]})", {1});
  EXPECT_TRUE(seen.complete);
  EXPECT_EQ(seen.gpus[1].health, GpuHealth::Unknown);
  EXPECT_EQ(touched_, (std::vector<int>{0, 2, 0}));
}

TEST_F(DeviceLook, OrphanIsLookedForOnlyWhenMemoryIsInUseThatNobodyExplains) {
  write(dev_ / "nvidia0", "");
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const os::UniqueFd device(::open((dev_ / "nvidia0").c_str(), O_RDONLY));
  const pid_t orphan = ::fork();
  if (orphan == 0) {
    char byte = 0;
    ::close(gate[1]);
    ::_exit(::read(gate[0], &byte, 1) == 0 ? 0 : 1);
  }
  EXPECT_TRUE(look(R"({"gpus": 1})").gpus[0].device_holders.empty());
  const GpuLook held = look(R"({"gpus": [{"used_bytes": 8000000000}]})");
  ASSERT_EQ(held.gpus[0].device_holders.size(), 1u);
  EXPECT_EQ(held.gpus[0].device_holders[0].pid, orphan);
  const GpuLook explained = look(
      R"({"gpus": [{"used_bytes": 8000000000, "processes": [{"pid": 1, "memory_bytes": 8000000000}]}]})");
  EXPECT_TRUE(explained.gpus[0].device_holders.empty());
  // As the driver tells it of a program that has ended and left a child.
  const GpuLook left = look(
      R"({"gpus": [{"used_bytes": 8000000000, "processes": [{"pid": 999999999, "memory_bytes": 8000000000}]}]})");
  if (!left.in_container) {
    ASSERT_EQ(left.gpus[0].device_holders.size(), 1u);
    EXPECT_EQ(left.gpus[0].device_holders[0].pid, orphan);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  ::waitpid(orphan, nullptr, 0);
}

TEST(FailedLook, SaysWhatTheMachineLacks) {
  for (const int code : {nvml_code::kDriverNotLoaded, nvml_code::kLibraryNotFound}) {
    const GpuLook look = failed_look(code, "initialize NVML");
    EXPECT_TRUE(look.no_driver) << code;
    EXPECT_TRUE(look.complete) << code;
  }
  const GpuLook mismatch = failed_look(nvml_code::kVersionMismatch, "initialize NVML");
  EXPECT_TRUE(mismatch.driver_mismatch);
  EXPECT_FALSE(mismatch.complete);
  EXPECT_NE(mismatch.why.find("restart the machine"), std::string::npos);
  const GpuLook blocked = failed_look(nvml_code::kOperatingSystem, "initialize NVML");
  EXPECT_FALSE(blocked.complete);
  EXPECT_FALSE(blocked.no_driver);
  EXPECT_NE(blocked.why.find("in a container"), std::string::npos);
  EXPECT_EQ(failed_look(999, "initialize NVML").why,
            "initialize NVML: unknown driver error (NVML 999)");
}

TEST_F(DeviceLook, ReadsWhatAilsAGpu) {
  const GpuLook seen = look(
      R"({"gpus": [{}, {"repair_pending": true}, {"repair_failed": true, "recovery_action": 4}]})");
  ASSERT_EQ(seen.gpus.size(), 3u);
  EXPECT_EQ(seen.gpus[0].repair_pending, false);
  EXPECT_EQ(seen.gpus[0].repair_failed, false);
  EXPECT_EQ(seen.gpus[0].recovery_action, 0);
  EXPECT_EQ(seen.gpus[1].repair_pending, true);
  EXPECT_EQ(seen.gpus[2].repair_failed, true);
  EXPECT_EQ(seen.gpus[2].recovery_action, 4);
}

TEST_F(DeviceLook, AGpuThatSaysItNeedsAResetIsAdvisedOne) {
  const GpuLook seen = look(R"({"gpus": [{"errors": {"nvmlDeviceGetMemoryInfo_v2": 16}}]})");
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Error);
  EXPECT_EQ(seen.gpus[0].recovery_action, kRecoveryReset);
}

TEST_F(DeviceLook, AGpuWhoseHealthCannotBeAskedTellsNothingOfIt) {
  const GpuLook seen =
      look(R"({"gpus": [{"repair_pending": true, "errors": {"nvmlDeviceGetFieldValues": 999}}]})");
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Ok);
  EXPECT_EQ(told_by(seen.gpus[0]), kLostCondition);
}

TEST_F(DeviceLook, UsageIsOfTheGpusAskedForThatALookHasShown) {
  constexpr const char* kFirst = "GPU-00000000-0000-0000-0000-000000000000";
  constexpr const char* kSecond = "GPU-11111111-0000-0000-0000-000000000001";
  look(R"({"gpus": [{"utilization": 97, "used_bytes": 5000000000, "power_mw": 650000,
                     "temperature_c": 71, "clock_mhz": 1755, "throttle": 68}, {}]})");
  touched_.clear();
  const auto touch = [this](int index) { touched_.push_back(index); };
  const std::vector<GpuUsage> seen = looker_.usage(*nvml_, {kFirst, "GPU-unknown"}, {}, touch);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0], (GpuUsage{.uuid = kFirst,
                               .busy_percent = 97,
                               .used_bytes = 5'000'000'000,
                               .power_mw = 650'000,
                               .temperature_c = 71,
                               .clock_mhz = 1755,
                               .throttle = 68}));
  EXPECT_EQ(touched_, std::vector<int>{0});
  EXPECT_TRUE(looker_.usage(*nvml_, {kFirst}, {0}, touch).empty());
  EXPECT_EQ(looker_.usage(*nvml_, {kSecond}, {}, touch).size(), 1u);
}

TEST_F(DeviceLook, UsageThatAGpuDoesNotTellIsUnknownNotZero) {
  look(R"({"gpus": [{"power_mw": null, "temperature_c": null, "clock_mhz": null, "throttle": null,
                     "errors": {"nvmlDeviceGetUtilizationRates": 3}}]})");
  const std::string uuid = "GPU-00000000-0000-0000-0000-000000000000";
  const auto usage = [&] { return looker_.usage(*nvml_, {uuid}, {}, [](int) {}).at(0); };
  EXPECT_EQ(usage(), (GpuUsage{.uuid = uuid, .used_bytes = 4u << 20}));
  look(R"({"gpus": [{"lost": true}]})");
  EXPECT_EQ(usage(), GpuUsage{.uuid = uuid});
}

TEST_F(DeviceLook, XidsAreOfTheGpusThatALookHasShown) {
  const std::string world = fmt::format(R"({{"gpus": 2, "xids": "{}"}})", dev_.path());
  const std::string uuid = look(world).gpus[1].uuid;
  EXPECT_EQ(looker_.take_xids(*nvml_, 5), std::vector<GpuXid>{});
  write(dev_ / uuid, "48\n");
  EXPECT_EQ(looker_.take_xids(*nvml_, 6), (std::vector<GpuXid>{{uuid, 48, 6}}));
  EXPECT_EQ(looker_.take_xids(*nvml_, 7), std::vector<GpuXid>{});
}

// GPU 0 is cut into two instances, numbers 0 and 2.
constexpr const char* kCut = R"({{"xids": "{}", "gpus": [
    {{"mig": true, "name": "Big", "utilization": 97, "power_mw": 650000, "temperature_c": 71,
      "repair_pending": true, "processes": [{{"pid": 1}}],
      "instances": [{{"memory_bytes": 1000, "used_bytes": 10}}, null,
                    {{"memory_bytes": 2000, "used_bytes": 20, "name": "Big MIG 2g.20gb",
                      "processes": [{{"pid": 1, "memory_bytes": 20}}]}}]}},
    {{}}]}})";

TEST_F(DeviceLook, AGpuThatIsCutIsReadAsItsInstances) {
  const GpuLook seen = look(fmt::format(kCut, ""));
  EXPECT_TRUE(seen.complete);
  ASSERT_EQ(seen.gpus.size(), 3u);
  const GpuReading& first = seen.gpus[0];
  const GpuReading& third = seen.gpus[1];
  EXPECT_EQ(first.uuid, "MIG-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(third.uuid, "MIG-00000000-0000-0000-0000-000000000002");
  EXPECT_EQ(first.name, "Big MIG 1g.10gb");
  EXPECT_EQ(third.name, "Big MIG 2g.20gb");
  EXPECT_EQ(first.instance, 0);
  EXPECT_EQ(third.instance, 2);
  EXPECT_EQ(third.index, 0);
  EXPECT_EQ(third.pci, "fa4e:00:00.0") << "that of the GPU";
  EXPECT_EQ(third.total_bytes, 2000u);
  EXPECT_EQ(third.used_bytes, 20u);
  EXPECT_TRUE(first.processes.empty());
  EXPECT_EQ(third.processes.size(), 1u);
  EXPECT_EQ(first.health, GpuHealth::Ok);
  EXPECT_EQ(first.repair_pending, true) << "what ails the GPU ails its instances";
  EXPECT_EQ(first.utilization, std::nullopt);
  EXPECT_EQ(first.minor, -1);
  EXPECT_EQ(seen.gpus[2].index, 1);
  EXPECT_EQ(seen.gpus[2].instance, -1);
}

TEST_F(DeviceLook, InstancesComeAndGoBetweenTwoLooks) {
  look(R"({"gpus": [{"mig": true, "instances": [{}, {"uuid": "MIG-b"}]}]})");
  const GpuLook seen = look(R"({"gpus": [{"mig": true, "instances": [{"uuid": "MIG-b"}]}]})");
  ASSERT_EQ(seen.gpus.size(), 1u);
  EXPECT_EQ(seen.gpus[0].uuid, "MIG-b");
  EXPECT_EQ(seen.gpus[0].instance, 0);
}

TEST_F(DeviceLook, AGpuIsCutAndMadeWholeBetweenTwoLooks) {
  const auto only = [&](const char* gpu) {
    const GpuLook seen = look(fmt::format(R"({{"gpus": [{}]}})", gpu));
    return seen.gpus.size() == 1 ? seen.gpus[0] : GpuReading{};
  };
  EXPECT_EQ(only(R"({"mig": false})").instance, -1);
  EXPECT_EQ(only(R"({"mig": true, "instances": [{}]})").instance, 0);
  const GpuReading whole = only(R"({"mig": false})");
  EXPECT_EQ(whole.instance, -1);
  EXPECT_EQ(whole.mig, false);
  EXPECT_EQ(whole.health, GpuHealth::Ok);
}

TEST_F(DeviceLook, AnXidOfAnInstanceThatCannotBeToldApartIsOfAll) {
  const GpuLook seen = look(fmt::format(
      R"({{"xids": "{}", "errors": {{"nvmlDeviceGetGpuInstanceId": 13}},
          "gpus": [{{"mig": true, "instances": [{{}}, {{}}]}}]}})",
      dev_.path()));
  write(dev_ / seen.gpus[1].uuid, "31\n");
  EXPECT_EQ(looker_.take_xids(*nvml_, 5).size(), 2u);
}

TEST_F(DeviceLook, AGpuThatIsCutIntoNothingIsNoOnes) {
  const GpuLook seen = look(R"({"gpus": [{"mig": true, "instances": [null, null]}]})");
  ASSERT_EQ(seen.gpus.size(), 1u);
  EXPECT_EQ(seen.gpus[0].uuid, "GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(seen.gpus[0].instance, -1);
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Unknown);
  EXPECT_EQ(seen.gpus[0].note, "MIG mode is on, but it has no instances");
}

TEST_F(DeviceLook, InstancesOfALostGpuAreLost) {
  look(R"({"gpus": [{"mig": true, "instances": [{}]}]})");
  const GpuLook seen = look(R"({"gpus": [{"mig": true, "lost": true, "instances": [{}]}]})");
  ASSERT_EQ(seen.gpus.size(), 1u);
  EXPECT_EQ(seen.gpus[0].uuid, "MIG-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Lost);
}

TEST_F(DeviceLook, AnXidIsOfTheInstanceThatItHappenedOnOrOfAll) {
  const GpuLook seen = look(fmt::format(kCut, dev_.path()));
  const std::string first = seen.gpus[0].uuid;
  const std::string third = seen.gpus[1].uuid;
  write(dev_ / third, "31\n");
  EXPECT_EQ(looker_.take_xids(*nvml_, 5), (std::vector<GpuXid>{{third, 31, 5}}));
  write(dev_ / "GPU-00000000-0000-0000-0000-000000000000", "79\n");
  EXPECT_EQ(looker_.take_xids(*nvml_, 6), (std::vector<GpuXid>{{first, 79, 6}, {third, 79, 6}}));
}

TEST_F(DeviceLook, UsageOfAnInstanceIsItsMemoryAndItsGpusHeat) {
  const std::string third = look(fmt::format(kCut, "")).gpus[1].uuid;
  EXPECT_EQ(looker_.usage(*nvml_, {third}, {}, [](int) {}),
            (std::vector<GpuUsage>{{.uuid = third,
                                    .used_bytes = 20,
                                    .temperature_c = 71,
                                    .clock_mhz = 1410,
                                    .throttle = 0}}));
}

}  // namespace
}  // namespace pergpu::gpu
