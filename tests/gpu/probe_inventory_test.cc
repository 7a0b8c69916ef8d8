// The inventory against a real probe process and the fake NVML (gpu/probe_inventory.h).
#include "gpu/probe_inventory.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd_tree.h"
#include "os/process/child.h"
#include "os/process/proc.h"
#include "support.h"

namespace pergpu::gpu {
namespace {

using std::chrono::milliseconds;

class ProbeInventoryTest : public testing::Test {
 protected:
  ~ProbeInventoryTest() override {
    inventory_.reset();
    while (::waitpid(-1, nullptr, 0) > 0) {  // it has killed its probes and waits for none
    }
  }
  ProbeInventory& inventory(ProbeOptions options = {}) {
    if (options.argv.empty()) options.argv = {kProbeProgram};
    inventory_ = ProbeInventory::create(loop_.loop(), loop_.clock(), std::move(options));
    return *inventory_;
  }
  GpuLook look() {
    std::optional<GpuLook> seen;
    inventory_->look([&](const GpuLook& look) { seen = look; });
    EXPECT_FALSE(seen) << "answered inside the call";
    loop_.run_until([&] { return seen.has_value(); });
    return seen.value_or(GpuLook{});
  }
  // Children of this process that have not been reaped, living or dead.
  static std::size_t children() {
    const Result<std::string> list =
        os::read_file(fmt::format("/proc/self/task/{}/children", ::getpid()), 4096);
    return list ? static_cast<std::size_t>(std::count(list->begin(), list->end(), ' ')) : 0;
  }
  static pid_t only_child() {
    const Result<std::string> list =
        os::read_file(fmt::format("/proc/self/task/{}/children", ::getpid()), 4096);
    return list ? std::atoi(list->c_str()) : 0;
  }
  // A deadline that a healthy probe keeps on a busy machine, and one that a hung one misses soon.
  static ProbeOptions patient() { return {.deadline = milliseconds(20'000)}; }
  static ProbeOptions hasty() {
    return {.deadline = milliseconds(500),
            .first_deadline = milliseconds(500),
            .hang_pause = milliseconds(300)};
  }

  FakeDriver driver_{R"({"gpus": 2})"};
  TestLoop loop_;
  std::unique_ptr<ProbeInventory> inventory_;
};

TEST_F(ProbeInventoryTest, StartsNothingBeforeTheFirstLook) {
  const std::size_t before = children();
  inventory(patient());
  EXPECT_EQ(children(), before);
}

TEST_F(ProbeInventoryTest, LooksThroughOneProbeAndSeesChanges) {
  inventory(patient());
  EXPECT_EQ(look().gpus.size(), 2u);
  const pid_t probe = only_child();
  driver_.set(R"({"gpus": [{}, {"processes": [{"pid": 1}]}]})");
  const GpuLook second = look();
  EXPECT_TRUE(second.complete);
  ASSERT_EQ(second.gpus.size(), 2u);
  EXPECT_EQ(second.gpus[1].processes.size(), 1u);
  EXPECT_EQ(only_child(), probe);
}

TEST_F(ProbeInventoryTest, LooksAskedForMeanwhileShareTheNextOne) {
  inventory(patient());
  std::vector<std::pair<char, std::size_t>> answers;
  const auto note = [&](char who) {
    return [&, who](const GpuLook& seen) { answers.push_back({who, seen.gpus.size()}); };
  };
  inventory_->look([&, first = note('a')](const GpuLook& seen) {
    first(seen);
    driver_.set(R"({"gpus": 3})");
    inventory_->look(note('d'));
  });
  inventory_->look(note('b'));
  inventory_->look(note('c'));
  loop_.run_until([&] { return answers.size() == 4; });
  EXPECT_EQ(answers[0], (std::pair<char, std::size_t>{'a', 2}));
  EXPECT_EQ(answers[1].first, 'b');
  EXPECT_EQ(answers[2].first, 'c');
  EXPECT_EQ(answers[3], (std::pair<char, std::size_t>{'d', 3}));
}

TEST_F(ProbeInventoryTest, MachineWithoutDriverIsAnAnswer) {
  const ScopedEnv none("PERGPU_NVML", "/nonexistent/libnvidia-ml.so.1");
  const ScopedEnv sysfs("PERGPU_SYS", "/nonexistent");
  inventory(patient());
  const GpuLook seen = look();
  EXPECT_TRUE(seen.complete);
  EXPECT_TRUE(seen.no_driver);
  EXPECT_NE(seen.why.find("no NVIDIA driver"), std::string::npos);
}

TEST_F(ProbeInventoryTest, WithoutADriverOfNvidiaThereMayBeGpusOfAmd) {
  AmdTree tree;
  tree.card(0, "0000:03:00.0", "18a4d2a7b0c1e3f5\n");
  tree.client(::getpid(), 3, "0000:03:00.0", 1, "700 MiB");
  const ScopedEnv sysfs("PERGPU_SYS", tree.sysfs().c_str());
  const ScopedEnv proc("PERGPU_PROC", tree.proc().c_str());
  inventory(patient());
  EXPECT_EQ(look().gpus.size(), 2u) << "those of NVIDIA where there is a driver";
  driver_.set(R"({"errors": {"nvmlInit_v2": 9}})");
  inventory(patient());
  const GpuLook seen = look();
  EXPECT_TRUE(seen.complete);
  EXPECT_FALSE(seen.no_driver);
  EXPECT_EQ(seen.why, "");
  EXPECT_FALSE(seen.in_container);
  ASSERT_EQ(seen.gpus.size(), 1u);
  EXPECT_EQ(seen.gpus[0].uuid, "GPU-18a4d2a7b0c1e3f5");
  ASSERT_EQ(seen.gpus[0].processes.size(), 1u);
  EXPECT_EQ(seen.gpus[0].processes[0].pid, ::getpid());
  std::optional<UsageAnswer> told;
  ASSERT_TRUE(inventory_->read_usage({.gpus = {seen.gpus[0].uuid}},
                                     [&](const UsageAnswer& one) { told = one; }));
  loop_.run_until([&] { return told.has_value(); });
  ASSERT_EQ(told->gpus.size(), 1u);
  EXPECT_EQ(told->gpus[0].busy_percent, 7);
}

TEST_F(ProbeInventoryTest, DriverMismatchIsToldAndPasses) {
  driver_.set(R"({"errors": {"nvmlInit_v2": 18}, "gpus": 2})");
  inventory(patient());
  const GpuLook seen = look();
  EXPECT_TRUE(seen.driver_mismatch);
  EXPECT_FALSE(seen.complete);
  driver_.set(R"({"gpus": 2})");
  EXPECT_TRUE(look().complete) << "the same probe tries again";
}

TEST_F(ProbeInventoryTest, HungDriverIsAnsweredAtTheDeadlineAndTheProbeIsNotWaitedFor) {
  driver_.set(R"({"hang": ["nvmlInit_v2"], "gpus": 2})");
  inventory(hasty());
  const GpuLook seen = look();
  EXPECT_FALSE(seen.complete);
  EXPECT_FALSE(seen.no_driver);
  EXPECT_TRUE(seen.gpus.empty());
  EXPECT_EQ(seen.why, "the NVIDIA driver did not answer within 0.5 s");
  const GpuLook soon = look();
  EXPECT_FALSE(soon.complete);
  EXPECT_EQ(soon.why.find("the NVIDIA driver did not answer within 0.5 s; "), 0u) << soon.why;
  loop_.run_until([&] { return children() == 0; });  // killed, gone and reaped
}

TEST_F(ProbeInventoryTest, ComesBackAfterAHangWithoutAnybodyAskingForARestart) {
  driver_.set(R"({"hang": ["nvmlInit_v2"], "gpus": 2})");
  inventory(hasty());
  EXPECT_FALSE(look().complete);
  driver_.set(R"({"gpus": 2})");
  GpuLook seen;
  while (!(seen = look()).complete) {
    bool over = false;
    loop_.after(milliseconds(50), [&] { over = true; });
    loop_.run_until([&] { return over; });
  }
  EXPECT_EQ(seen.gpus.size(), 2u);
}

TEST_F(ProbeInventoryTest, OneGpuThatHangsDoesNotCloseTheOthers) {
  inventory(hasty());
  ASSERT_TRUE(look().complete);
  driver_.set(R"({"gpus": [{}, {"hang": ["nvmlDeviceGetMemoryInfo_v2"]}]})");
  const GpuLook hung = look();
  EXPECT_FALSE(hung.complete);
  EXPECT_EQ(hung.why, "the NVIDIA driver did not answer within 0.5 s about GPU 1");
  GpuLook seen;
  while (!(seen = look()).complete) {
    bool over = false;
    loop_.after(milliseconds(50), [&] { over = true; });
    loop_.run_until([&] { return over; });
  }
  ASSERT_EQ(seen.gpus.size(), 2u);
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Ok);
  EXPECT_EQ(seen.gpus[1].health, GpuHealth::Unknown);
  EXPECT_EQ(seen.gpus[1].uuid, "GPU-11111111-0000-0000-0000-000000000001")
      << "from the look before";
}

TEST_F(ProbeInventoryTest, LooksThatWaitedBehindAHungOneAreAnsweredToo) {
  driver_.set(R"({"hang": ["nvmlInit_v2"]})");
  inventory(hasty());
  int answered = 0;
  for (int i = 0; i < 3; ++i) {
    inventory_->look([&](const GpuLook& seen) { answered += seen.complete ? 100 : 1; });
  }
  loop_.run_until([&] { return answered >= 3; });
  EXPECT_EQ(answered, 3);
}

TEST_F(ProbeInventoryTest, ProbeThatWasKilledBetweenLooksIsReplaced) {
  inventory(patient());
  ASSERT_TRUE(look().complete);
  ::kill(only_child(), SIGKILL);
  EXPECT_TRUE(look().complete);
}

TEST_F(ProbeInventoryTest, ProbeThatDiesWhileAskedIsToldAndNotStartedInALoop) {
  TempFolder folder;
  inventory({.argv = {"/bin/sh", "-c", "echo x >>" + (folder / "starts") + "; exit 3"},
             .crash_pause = milliseconds(60'000)});
  const GpuLook seen = look();
  EXPECT_FALSE(seen.complete);
  EXPECT_NE(seen.why.find("the GPU probe ended"), std::string::npos) << seen.why;
  EXPECT_NE(look().why.find("next try in"), std::string::npos);
  EXPECT_EQ(*os::read_file(folder / "starts", 100), "x\n");
}

TEST_F(ProbeInventoryTest, ProbeThatTalksNonsenseIsReplaced) {
  inventory({.argv = {"/bin/sh", "-c", "echo nonsense; sleep 1000"},
             .crash_pause = milliseconds(60'000)});
  const GpuLook seen = look();
  EXPECT_FALSE(seen.complete);
  EXPECT_NE(seen.why.find("nonsense"), std::string::npos) << seen.why;
  loop_.run_until([&] { return children() == 0; });
}

TEST_F(ProbeInventoryTest, ProgramThatIsMissingIsNamed) {
  inventory({.argv = {"/nonexistent/probe"}});
  const GpuLook seen = look();
  EXPECT_FALSE(seen.complete);
  EXPECT_NE(seen.why.find("/nonexistent/probe"), std::string::npos) << seen.why;
}

TEST_F(ProbeInventoryTest, VariableNamesTheProgram) {
  const ScopedEnv program("PERGPU_PROBE", kProbeProgram.c_str());
  inventory_ = ProbeInventory::create(loop_.loop(), loop_.clock(), {});
  EXPECT_TRUE(look().complete);
}

TEST_F(ProbeInventoryTest, ProbeEndsWithTheInventory) {
  inventory(patient());
  ASSERT_TRUE(look().complete);
  const pid_t probe = only_child();
  inventory_.reset();
  ::waitpid(probe, nullptr, 0);  // does not hang; ECHILD when it was reaped already
  EXPECT_NE(::kill(probe, 0), 0);
}

TEST(CarryIdentities, LostDeviceKeepsItsPlaceOrIsAdded) {
  GpuLook before;
  before.complete = true;
  for (int index = 0; index < 3; ++index) {
    GpuReading& reading = before.gpus.emplace_back();
    reading.uuid = fmt::format("GPU-{}", index);
    reading.name = "Big";
    reading.index = index;
    reading.used_bytes = 5;
  }
  // GPU 1 cannot be named any more; GPU 0 is not counted any more, GPU 2 has moved to its place.
  GpuLook now;
  now.complete = true;
  now.gpus = {before.gpus[2], GpuReading{}};
  now.gpus[0].index = 0;
  now.gpus[1].index = 1;
  now.gpus[1].health = GpuHealth::Lost;
  now.gpus[1].note = "fell off";
  carry_identities(now, before);
  ASSERT_EQ(now.gpus.size(), 3u);
  EXPECT_EQ(now.gpus[0].uuid, "GPU-2");
  EXPECT_EQ(now.gpus[1].uuid, "GPU-1");
  EXPECT_EQ(now.gpus[1].health, GpuHealth::Lost);
  EXPECT_EQ(now.gpus[1].note, "fell off");
  EXPECT_EQ(now.gpus[1].used_bytes, 0u);
  EXPECT_EQ(now.gpus[2].uuid, "GPU-0");
  EXPECT_EQ(now.gpus[2].health, GpuHealth::Lost);
  EXPECT_EQ(now.gpus[2].index, 2) << "no two lanes of one number";
}

TEST(CarryIdentities, AGpuThatWasCutOtherwiseIsNotLost) {
  const GpuReading whole{.uuid = "GPU-0"};
  const GpuReading instance{.uuid = "MIG-0", .instance = 0};
  const GpuReading other{.uuid = "MIG-1", .instance = 0};
  for (const auto& [was, is] :
       {std::pair(whole, instance), std::pair(instance, whole), std::pair(instance, other)}) {
    const GpuLook before{.complete = true, .gpus = {was}};
    GpuLook now{.complete = true, .gpus = {is}};
    carry_identities(now, before);
    ASSERT_EQ(now.gpus.size(), 1u) << was.uuid << " to " << is.uuid;
    EXPECT_EQ(now.gpus[0].uuid, is.uuid);
  }
}

TEST(CarryIdentities, InstancesOfAGpuThatCannotBeAskedStay) {
  const GpuLook before{.complete = true,
                       .gpus = {{.uuid = "MIG-0", .pci = "1", .instance = 0},
                                {.uuid = "MIG-2", .pci = "1", .instance = 2},
                                {.uuid = "GPU-1", .pci = "2", .index = 1}}};
  GpuLook now{.complete = true,
              .gpus = {{.index = 0, .health = GpuHealth::Unknown, .note = "hung"},
                       {.uuid = "GPU-1", .pci = "2", .index = 1}}};
  carry_identities(now, before);
  std::vector<std::string> seen;
  for (const GpuReading& reading : now.gpus) {
    seen.push_back(reading.uuid);
    EXPECT_EQ(reading.note, reading.instance >= 0 ? "hung" : "");
    EXPECT_EQ(reading.health, reading.instance >= 0 ? GpuHealth::Unknown : GpuHealth::Ok);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"MIG-0", "GPU-1", "MIG-2"}));
}

TEST(CarryIdentities, AGpuThatIsNotCountedAnyMoreIsLostThoughACutOneTookItsNumber) {
  const GpuLook before{.complete = true,
                       .gpus = {{.uuid = "GPU-0", .pci = "1"},
                                {.uuid = "MIG-0", .pci = "2", .index = 1, .instance = 0}}};
  GpuLook now{.complete = true, .gpus = {{.uuid = "MIG-0", .pci = "2", .index = 0, .instance = 0}}};
  carry_identities(now, before);
  ASSERT_EQ(now.gpus.size(), 2u);
  EXPECT_EQ(now.gpus[1].uuid, "GPU-0");
  EXPECT_EQ(now.gpus[1].health, GpuHealth::Lost);
}

TEST(CarryIdentities, IncompleteLookStaysAsItIs) {
  GpuLook before;
  before.complete = true;
  before.gpus.emplace_back().uuid = "GPU-0";
  GpuLook now;
  carry_identities(now, before);
  EXPECT_TRUE(now.gpus.empty());
}

/// A world whose GPUs' errors lie in a folder of their own.
struct ProbeXids : ProbeInventoryTest {
  std::string world(std::string_view more = "") const {
    return fmt::format(R"({{"gpus": 2, "xids": "{}"{}}})", folder_.path(), more);
  }
  void happened(std::string_view xids) { write(folder_ / kFirst, xids); }
  static constexpr const char* kFirst = "GPU-00000000-0000-0000-0000-000000000000";
  static std::vector<std::int64_t> numbers(const GpuLook& look) {
    std::vector<std::int64_t> out;
    for (const GpuXid& xid : look.xids) {
      EXPECT_EQ(xid.uuid, kFirst);
      out.push_back(xid.number);
    }
    return out;
  }
  using Numbers = std::vector<std::int64_t>;
  TempFolder folder_;
};

TEST_F(ProbeXids, ComeWithTheNextLookOnce) {
  driver_.set(world());
  inventory(patient());
  happened("13\n");
  EXPECT_EQ(numbers(look()), Numbers{});
  happened("13\n79\n31\n");
  const std::int64_t before = loop_.clock().now().boot_ns;
  const GpuLook seen = look();
  EXPECT_EQ(numbers(seen), (Numbers{79, 31}));
  EXPECT_GE(seen.xids[0].boot_ns, before);
  EXPECT_LE(seen.xids[0].boot_ns, loop_.clock().now().boot_ns);
  EXPECT_EQ(numbers(look()), Numbers{});
}

TEST_F(ProbeXids, AreToldAlthoughTheGpuHangsThatReportedThem) {
  driver_.set(world());
  ProbeOptions options = patient();
  options.deadline = milliseconds(500);
  inventory(options);
  ASSERT_TRUE(look().complete);
  happened("119\n");
  driver_.set(world(R"(, "hang": ["nvmlDeviceGetMemoryInfo_v2"])"));
  const GpuLook seen = look();
  EXPECT_FALSE(seen.complete);
  EXPECT_EQ(numbers(seen), Numbers{119});
}

TEST_F(ProbeInventoryTest, DriverThatWasUpdatedIsMetByAFreshProbe) {
  TempFolder folder;
  const std::string library = folder / "libnvidia-ml.so.1";
  const Result<std::string> bytes = os::read_file(kFakeNvml, 64u << 20);
  ASSERT_TRUE(bytes);
  write(library, *bytes);
  const ScopedEnv chosen("PERGPU_NVML", library.c_str());
  inventory(patient());
  EXPECT_TRUE(look().complete);
  const pid_t before = only_child();
  driver_.set(R"({"errors": {"nvmlInit_v2": 18}, "gpus": 2})");
  EXPECT_TRUE(look().complete) << "who has the old library goes on with it";
  EXPECT_EQ(only_child(), before);
  write(library, *bytes);
  EXPECT_TRUE(look().driver_mismatch);
}

/// A probe whose talk is written down: what it is told, and what it answers.
struct ProbeTalk : ProbeXids {
  ProbeOptions overheard() const {
    ProbeOptions options = patient();
    options.argv = {"/bin/sh", "-c",
                    fmt::format("tee -a {} | {} | tee -a {}", folder_ / "told", kProbeProgram,
                                folder_ / "said")};
    options.crash_pause = milliseconds(1);
    return options;
  }
  std::size_t count(const char* file, std::string_view words) const {
    const Result<std::string> text = os::read_file(folder_ / file, 1 << 20);
    std::size_t found = 0;
    for (std::size_t at = 0; text && (at = text->find(words, at)) != std::string::npos; ++at) {
      ++found;
    }
    return found;
  }
  void until(const std::function<bool()>& happened) {
    for (int tries = 0; !happened(); ++tries) {
      ASSERT_LT(tries, 6000) << "waited in vain";
      bool over = false;
      loop_.after(milliseconds(5), [&] { over = true; });
      loop_.run_until([&] { return over; });
    }
  }
};

TEST_F(ProbeTalk, OneThatRestsIsToldAtOnceThatItIsToStay) {
  inventory(overheard());
  ASSERT_TRUE(look().complete);
  ASSERT_EQ(count("told", R"("stay":true)"), 0u);
  inventory_->stay(true);
  until([&] { return count("told", R"("stay":true)") == 1; });
  inventory_->stay(true);
  inventory_->stay(false);
  until([&] { return count("told", R"("op":"rest","stay":false)") == 1; });
  EXPECT_EQ(count("told", R"("stay":true)"), 1u);
}

TEST_F(ProbeTalk, OneThatDiesWhileItIsToStayIsFollowedAndErrorsAreLearntOn) {
  driver_.set(world());
  inventory(overheard());
  ASSERT_TRUE(look().complete);
  const auto until_looks = [&](std::size_t looks) {
    until([&] { return count("said", R"("look":)") == looks; });
  };
  until_looks(1);
  inventory_->stay(true);
  ::kill(-only_child(), SIGKILL);
  until_looks(2);  // though nobody has asked
  happened("79\n");
  EXPECT_EQ(numbers(look()), Numbers{79});
  until_looks(3);
  inventory_->stay(false);
  ::kill(-only_child(), SIGKILL);
  until([&] { return children() == 0; });
}

TEST_F(ProbeInventoryTest, AProbeThatMayRestGoesOnAnswering) {
  inventory(patient());
  inventory_->stay(true);
  EXPECT_TRUE(look().complete);
  const pid_t probe = only_child();
  inventory_->stay(false);
  EXPECT_TRUE(look().complete);
  inventory_->stay(true);
  EXPECT_TRUE(look().complete);
  EXPECT_EQ(only_child(), probe);
}

/// Readings of usage, of this process as a tree of its own.
struct ProbeUsageTest : ProbeInventoryTest {
  static UsageQuestion question() {
    const std::uint64_t ticks = os::read_stat(::getpid()).value_or(os::ProcStat{}).start_ticks;
    return {.trees = {{::getpid(), ticks}}, .gpus = {kFirst}};
  }
  std::optional<UsageAnswer> usage() {
    std::optional<UsageAnswer> told;
    if (!inventory_->read_usage(question(), [&](const UsageAnswer& one) { told = one; })) {
      return std::nullopt;
    }
    EXPECT_FALSE(told) << "answered inside the call";
    loop_.run_until([&] { return told.has_value(); });
    return told;
  }
  static constexpr const char* kFirst = "GPU-00000000-0000-0000-0000-000000000000";
};

TEST_F(ProbeUsageTest, NeedsNoDriver) {
  const ScopedEnv none("PERGPU_NVML", "/nonexistent/libnvidia-ml.so.1");
  inventory(patient());
  const std::optional<UsageAnswer> told = usage();
  ASSERT_TRUE(told);
  EXPECT_GT(told->boot_ns, 0);
  ASSERT_EQ(told->trees.size(), 1u);
  ASSERT_TRUE(told->trees[0]);
  EXPECT_GT(told->trees[0]->resident_bytes, 0u);
  EXPECT_TRUE(told->gpus.empty());
}

TEST_F(ProbeUsageTest, HasTheGpusThatALookHasShownAndLooksGoOn) {
  inventory(patient());
  ASSERT_TRUE(look().complete);
  const pid_t probe = only_child();
  const std::optional<UsageAnswer> told = usage();
  ASSERT_TRUE(told);
  ASSERT_EQ(told->gpus.size(), 1u);
  EXPECT_EQ(told->gpus[0].uuid, kFirst);
  EXPECT_EQ(told->gpus[0].power_mw, 70'000);
  EXPECT_TRUE(look().complete);
  EXPECT_EQ(only_child(), probe);
}

TEST_F(ProbeUsageTest, ALookDoesNotWaitForAReadingAndNoneIsBegunDuringALook) {
  inventory(patient());
  ASSERT_TRUE(look().complete);
  bool told = false;
  bool seen = false;
  ASSERT_TRUE(inventory_->read_usage(question(), [&](const UsageAnswer&) { told = true; }));
  EXPECT_FALSE(inventory_->read_usage(question(), [](const UsageAnswer&) { FAIL(); }));
  inventory_->look([&](const GpuLook& one) { seen = one.complete; });
  EXPECT_FALSE(inventory_->read_usage(question(), [](const UsageAnswer&) { FAIL(); }));
  loop_.run_until([&] { return told && seen; });
}

TEST_F(ProbeUsageTest, AHangInAReadingIsAnsweredAndItsGpuLeftOut) {
  inventory(hasty());
  ASSERT_TRUE(look().complete);
  driver_.set(R"({"gpus": [{"hang": ["nvmlDeviceGetPowerUsage"]}, {}]})");
  const std::optional<UsageAnswer> told = usage();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->boot_ns, 0) << "unknown";
  GpuLook seen;
  while (!(seen = look()).complete) {
    bool over = false;
    loop_.after(milliseconds(50), [&] { over = true; });
    loop_.run_until([&] { return over; });
  }
  ASSERT_EQ(seen.gpus.size(), 2u);
  EXPECT_EQ(seen.gpus[0].health, GpuHealth::Unknown);
  EXPECT_EQ(seen.gpus[1].health, GpuHealth::Ok);
}

TEST_F(ProbeUsageTest, AProbeThatDiesInAReadingIsNotStartedForThatInALoopAndLooksGoOn) {
  inventory(patient());
  ASSERT_TRUE(look().complete);
  const pid_t probe = only_child();
  ::kill(probe, SIGSTOP);
  std::optional<UsageAnswer> told;
  ASSERT_TRUE(inventory_->read_usage(question(), [&](const UsageAnswer& one) { told = one; }));
  ::kill(probe, SIGKILL);
  loop_.run_until([&] { return told.has_value(); });
  EXPECT_EQ(told->boot_ns, 0);
  EXPECT_FALSE(inventory_->read_usage(question(), [](const UsageAnswer&) { FAIL(); }));
  EXPECT_TRUE(look().complete);
}

}  // namespace
}  // namespace pergpu::gpu
