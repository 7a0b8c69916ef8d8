// What follows from what `doctor` sees, on made-up machines (cli/doctor/doctor_checks.h).
#include "cli/doctor/doctor_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace pergpu::cli {
namespace {

using State = view::FindingState;

constexpr std::uint64_t kGiB = 1ull << 30;

/// Two healthy GPUs on a machine where nothing is wrong.
DoctorFacts good_machine() {
  DoctorFacts facts;
  facts.version = "0.1.0";
  facts.uid = 1000;
  facts.users = {{0, "root"}, {1000, "alice"}, {1001, "bob"}};
  facts.user = "alice";
  facts.keeper = "/usr/libexec/pergpu/pergpu-keeper";
  facts.job = JobTrial{.seconds = 0.2};
  facts.python = {.python = "/usr/bin/python3", .version = facts.version};
  facts.unit = {.path = "/home/alice/.config/systemd/user/pergpu.service",
                .is_there = true,
                .is_enabled = true,
                .program = "/usr/bin/pergpu",
                .program_is_there = true};
  facts.look.complete = true;
  facts.look.driver = facts.look.library = facts.kernel_module = "550.54.15";
  facts.look.cuda = "12.4";
  for (int index : {0, 1}) {
    GpuReading& gpu = facts.look.gpus.emplace_back();
    gpu.uuid = "GPU-" + std::to_string(index);
    gpu.name = "H100";
    gpu.pci = "0000:0" + std::to_string(index) + ":00.0";
    gpu.index = gpu.minor = index;
    gpu.numa_node = index;
    gpu.total_bytes = 80 * kGiB;
    gpu.persistent = true;
    gpu.mig = gpu.mig_pending = false;
    gpu.compute_mode = 0;
    gpu.recovery_action = 0;
    gpu.repair_pending = gpu.repair_failed = false;
  }
  facts.gpus_on_bus = 2;
  facts.has_device_files = true;
  facts.xids.emplace();
  facts.leases.folder = "/run/lock/pergpu";
  facts.kernel = "6.1.0-13-amd64";
  facts.has_systemd = facts.has_user_manager = true;
  facts.cores = facts.online_cores = 16;
  facts.memory_bytes = 128 * kGiB;
  facts.numa_nodes = 2;
  facts.shm = os::Space{.total_bytes = 64 * kGiB, .free_bytes = 60 * kGiB};
  facts.limits.open_files = {.soft = 65536, .hard = 1 << 20};
  const os::CgroupPlace place = {2, "/sys/fs/cgroup/user.slice/x"};
  facts.groups = {.track = place, .memory = place, .cpu = place, .words = "cgroup v2"};
  facts.keeping = os::Keeping::UserManager;
  facts.lingers = true;
  facts.home.folder = {.path = "/home/alice/.local/state/pergpu/m", .type = "ext4"};
  facts.home.folder.space = os::Space{.total_bytes = 512 * kGiB, .free_bytes = 100 * kGiB};
  facts.here = {.path = "/home/alice/project", .type = "ext4"};
  facts.here.space = os::Space{.total_bytes = 512 * kGiB, .free_bytes = 100 * kGiB};
  facts.wall_ns = 1'795'266'000'000'000'000;
  facts.clock_synchronised = true;
  facts.clock_source = "tsc";
  return facts;
}

/// Those of one check.
Findings of(const DoctorFacts& facts, std::string_view check) {
  Findings found;
  for (const view::Finding& finding : examine(facts)) {
    if (finding.check == check) found.push_back(finding);
  }
  return found;
}

/// The check has one finding in this state, whose words and cure hold these.
testing::AssertionResult is(const DoctorFacts& facts, std::string_view check, State state,
                            std::string_view what, std::string_view mend = "") {
  std::string seen;
  int fitting = 0;
  for (const view::Finding& finding : of(facts, check)) {
    seen += std::string(view::to_string(finding.state)) + ": " + finding.what + " [" +
            finding.mend + "]\n";
    const bool fits = finding.state == state && finding.what.find(what) != std::string::npos &&
                      finding.mend.find(mend) != std::string::npos;
    if (fits) ++fitting;
  }
  if (fitting == 1) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fitting << " such findings among:\n" << seen;
}

TEST(Doctor, AGoodMachineHasNothingToMendAndNoNotes) {
  for (const view::Finding& finding : examine(good_machine())) {
    EXPECT_EQ(finding.state, State::Ok) << finding.check << ": " << finding.what;
    EXPECT_FALSE(finding.what.empty() || finding.why.empty()) << finding.check;
  }
}

TEST(Doctor, ChecksHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  std::size_t count = 0;
  for (const std::span<const Check> checks : {gpu_checks(), machine_checks(), own_checks()}) {
    for (const Check& check : checks) names.insert(check.name);
    count += checks.size();
  }
  EXPECT_EQ(names.size(), count);
}

TEST(Doctor, WhatIsToMendSaysHow) {
  DoctorFacts facts;  // nothing is known, nothing is there
  facts.keeper_error = "program pergpu-keeper: not there";
  for (const view::Finding& finding : examine(facts)) {
    EXPECT_FALSE(finding.what.empty() && finding.check != "cgroups") << finding.check;
    EXPECT_FALSE(finding.why.empty()) << finding.check;
    EXPECT_FALSE(view::is_to_mend(finding.state) && finding.mend.empty()) << finding.check;
  }
}

TEST(DoctorDriver, AMachineWithoutGpusIsNoProblem) {
  DoctorFacts facts = good_machine();
  facts.look = {.complete = true, .no_driver = true};
  facts.gpus_on_bus = 0;
  EXPECT_TRUE(is(facts, "driver", State::Note, "no NVIDIA GPU"));
  for (const char* check : {"gpu", "xid", "mig", "persistence", "outsiders"}) {
    EXPECT_TRUE(of(facts, check).empty()) << check;
  }
}

TEST(DoctorDriver, AGpuOnTheBusNeedsModuleAndLibrary) {
  DoctorFacts facts = good_machine();
  facts.look = {.complete = true, .why = "load libnvidia-ml.so.1: no", .no_driver = true};
  EXPECT_TRUE(is(facts, "driver", State::Problem, "programs can't use it: load lib", "550.54.15"));
  facts.kernel_module = "";
  EXPECT_TRUE(is(facts, "driver", State::Problem, "no driver is loaded", "modprobe nvidia"));
  facts.in_container = true;
  facts.has_device_files = false;
  EXPECT_TRUE(is(facts, "driver", State::Note, "none is passed to this container", "--gpus all"));
}

TEST(DoctorDriver, AnUpdateUnderTheLoadedModuleNamesBothVersions) {
  DoctorFacts facts = good_machine();
  facts.look = {.why = "18", .driver_mismatch = true};
  facts.look.library = "550.90.07";
  EXPECT_TRUE(is(facts, "driver", State::Problem,
                 "library is 550.90.07, the loaded kernel module 550.54.15", "reboot"));
}

TEST(DoctorDriver, OneThatHangsIsAProblem) {
  DoctorFacts facts = good_machine();
  facts.look = {.why = "the NVIDIA driver did not answer within 15 s"};
  EXPECT_TRUE(is(facts, "driver", State::Problem, "did not answer within 15 s", "dmesg"));
  EXPECT_TRUE(of(facts, "gpu").empty());
}

TEST(DoctorDriver, GpusOfAmdAreAsGood) {
  DoctorFacts facts = good_machine();
  facts.look = {.complete = true,
                .gpus = {{.uuid = "GPU-18a4d2a7b0c1e3f5", .name = "AMD Instinct MI210"}}};
  facts.xids.reset();
  EXPECT_TRUE(is(facts, "driver", State::Ok, "AMD GPUs"));
  EXPECT_TRUE(is(facts, "gpu", State::Ok, "AMD Instinct MI210"));
  for (const char* check : {"xid", "mig", "persistence", "compute-mode"}) {
    EXPECT_TRUE(of(facts, check).empty()) << check;
  }
  facts.look.gpus[0].health = GpuHealth::Unknown;
  facts.look.gpus[0].note = "can't read its memory use";
  EXPECT_TRUE(is(facts, "gpu", State::Problem, "gpu0: can't read its memory use", "amdgpu"));
}

TEST(DoctorGpu, EachBrokenOneIsNamedWithWhatMendsIt) {
  DoctorFacts facts = good_machine();
  facts.look.gpus[0].health = GpuHealth::Lost;
  facts.look.gpus[0].note = "the GPU is lost";
  facts.look.gpus[1].repair_pending = true;
  EXPECT_TRUE(is(facts, "gpu", State::Problem, "gpu0: the GPU is lost", "reboot"));
  EXPECT_TRUE(
      is(facts, "gpu", State::Warning, "gpu1: its memory needs a reset", "--gpu-reset -i 1"));
  facts.look.gpus[1].recovery_action = 1;
  EXPECT_TRUE(is(facts, "gpu", State::Problem, "gpu1: ", "--gpu-reset -i 1"));
  facts.look.gpus[1].repair_failed = true;
  EXPECT_TRUE(is(facts, "gpu", State::Problem, "gpu1: its memory could not", "sudo reboot"));
}

TEST(DoctorGpu, WhatTheCoordinatorHoldsAgainstOneIsTold) {
  DoctorFacts facts = good_machine();
  facts.coordinator.state = CoordinatorFacts::State::Runs;
  facts.coordinator.version = facts.version;
  GpuSnapshot known;
  known.uuid = "GPU-1";
  known.index = 1;
  known.state = "quarantined";
  known.why = "Xid 79";
  facts.coordinator.gpus = {known};
  EXPECT_TRUE(is(facts, "gpu", State::Warning, "gpu1: quarantined: Xid 79", "gpus --release 1"));
}

TEST(DoctorXid, HardwareIsAWarningAndAProgramsFaultANote) {
  DoctorFacts facts = good_machine();
  facts.xids = std::vector<gpu::LoggedXid>{
      {"0000:01:00", 79}, {"0000:00:00", 31}, {"0000:01:00", 79}, {"0000:99:00", 63}};
  EXPECT_TRUE(is(facts, "xid", State::Warning, "gpu1: Xid 79", "reboot"));
  EXPECT_TRUE(is(facts, "xid", State::Warning, "(2 times)"));
  EXPECT_TRUE(is(facts, "xid", State::Note, "gpu0: Xid 31"));
  EXPECT_EQ(of(facts, "xid").size(), 2u) << "63 is a note of the driver's own";
  facts.xids.reset();
  EXPECT_TRUE(is(facts, "xid", State::Unknown, "can't read the kernel log", "dmesg"));
}

TEST(DoctorSettings, MigPersistenceAndComputeMode) {
  DoctorFacts facts = good_machine();
  facts.look.gpus[1].mig = facts.look.gpus[1].mig_pending = true;
  EXPECT_TRUE(is(facts, "mig", State::Warning, "gpu1: MIG is on, but there are no instances",
                 "nvidia-smi -i 1 -mig 0"));
  facts.look.gpus[1].instance = 2;
  EXPECT_TRUE(is(facts, "mig", State::Ok, "MIG instances: gpu1:2"));
  facts.look.gpus[0].mig_pending = true;
  EXPECT_TRUE(is(facts, "mig", State::Warning, "gpu0: MIG changes at the next reset"));
  facts.look.gpus[0].persistent = false;
  EXPECT_TRUE(is(facts, "persistence", State::Note, "gpu0", "nvidia-persistenced"));
  facts.look.gpus[0].compute_mode = kComputeProhibited;
  facts.look.gpus[1].compute_mode = kComputeOneProcess;
  EXPECT_TRUE(is(facts, "compute-mode", State::Problem, "gpu0", "-i 0 -c DEFAULT"));
  EXPECT_TRUE(is(facts, "compute-mode", State::Note, "gpu1", "-i 1 -c DEFAULT"));
}

TEST(DoctorLeases, OthersAreNamedAndOursAreFine) {
  DoctorFacts facts = good_machine();
  facts.leases.holders = {{"GPU-0", {.pid = 5, .uid = 1000}}, {"GPU-1", {.pid = 6, .uid = 1001}}};
  EXPECT_TRUE(is(facts, "leases", State::Note, "gpu1: used by bob (pergpu)"));
  facts.leases.holders["GPU-1"].program = "flock";
  EXPECT_TRUE(is(facts, "leases", State::Note, "gpu1: locked by flock, process 6 of bob",
                 "ask bob to end process 6"));
  facts.leases.holders.erase("GPU-1");
  EXPECT_TRUE(is(facts, "leases", State::Ok, "you have gpu0"));
  facts.leases.is_chosen = true;
  EXPECT_TRUE(is(facts, "leases", State::Note, "PERGPU_LOCKS"));
  facts.leases.is_chosen = false;
  facts.leases.owner = 1001;
  EXPECT_TRUE(is(facts, "leases", State::Note, "belongs to bob", "tmpfiles"));
  facts.leases.faults = {"/run/lock/pergpu/GPU-0 has 2 names"};
  EXPECT_TRUE(is(facts, "leases", State::Problem, "has 2 names", "ls -l"));
  facts.leases.error = "lock folder x is not a folder";
  EXPECT_TRUE(is(facts, "leases", State::Problem, "is not a folder", "1777"));
}

TEST(DoctorOutsiders, AreThoseWhoComputeWithoutALeaseOfTheirs) {
  DoctorFacts facts = good_machine();
  facts.look.gpus[1].processes = {{.pid = 4711, .uid = 1001, .command = "python3"}};
  EXPECT_TRUE(is(facts, "outsiders", State::Note, "gpu1: used by bob (python3"));
  facts.leases.holders = {{"GPU-1", {.pid = 6, .uid = 1001}}};
  EXPECT_TRUE(is(facts, "outsiders", State::Ok, "no process outside pergpu"));
  facts.look.in_container = true;
  EXPECT_TRUE(is(facts, "outsiders", State::Note, "a container", "--pid=host"));
}

TEST(DoctorDevices, AListThatNamesNoGpuIsAProblem) {
  DoctorFacts facts = good_machine();
  facts.visible_devices = "1";
  EXPECT_TRUE(is(facts, "devices", State::Note, "1 of 2 GPUs", "unset"));
  facts.visible_devices = "7";
  EXPECT_TRUE(is(facts, "devices", State::Problem, "7", "unset"));
}

TEST(DoctorCores, FewerThanGpusOrThanTheMachineHas) {
  DoctorFacts facts = good_machine();
  EXPECT_TRUE(is(facts, "cores", State::Ok, "16 cores, 128.0 GiB of memory: 8 cores and 64.0 GiB"));
  facts.cores = 4;
  EXPECT_TRUE(is(facts, "cores", State::Note, "the machine has 16 cores", "taskset"));
  facts.cores = 1;
  EXPECT_TRUE(is(facts, "cores", State::Warning, "fewer cores than GPUs", "--cpus"));
  facts.online_cores = 1;
  EXPECT_TRUE(is(facts, "cores", State::Warning, "fewer cores than GPUs", "--devices"));
}

TEST(DoctorThreads, MoreThanAJobsCoresAreNamed) {
  DoctorFacts facts = good_machine();
  facts.threads = {{"OMP_NUM_THREADS", "16"}, {"MKL_NUM_THREADS", "8"}, {"RAYON_NUM_THREADS", "x"}};
  EXPECT_TRUE(is(facts, "threads", State::Warning, "OMP_NUM_THREADS=16", "unset OMP_NUM_THREADS"));
  EXPECT_EQ(of(facts, "threads").size(), 1u);
}

TEST(DoctorNuma, GpusWithoutANodeAreNamed) {
  DoctorFacts facts = good_machine();
  EXPECT_TRUE(is(facts, "numa", State::Ok, "2 NUMA nodes: gpu0 on 0, gpu1 on 1"));
  facts.look.gpus[0].numa_node = -1;
  EXPECT_TRUE(is(facts, "numa", State::Note, "doesn't report the node of gpu0"));
  facts.numa_nodes = 1;
  EXPECT_TRUE(is(facts, "numa", State::Ok, "one NUMA node"));
}

TEST(DoctorShm, SmallFullOrMissing) {
  DoctorFacts facts = good_machine();
  facts.shm = os::Space{.total_bytes = 64u << 20, .free_bytes = 64u << 20};
  EXPECT_TRUE(is(facts, "shm", State::Warning, "64 MiB of 64 MiB", "remount"));
  facts.in_container = true;
  EXPECT_TRUE(is(facts, "shm", State::Warning, "64 MiB", "--shm-size"));
  facts.shm = os::Space{.total_bytes = 64 * kGiB, .free_bytes = 1u << 20};
  EXPECT_TRUE(is(facts, "shm", State::Warning, "1 MiB of 64.0 GiB", "ls -lS /dev/shm"));
  facts.shm.reset();
  EXPECT_TRUE(is(facts, "shm", State::Problem, "does not exist", "mount"));
}

TEST(DoctorShared, EachIsListedAndWhatNobodyHasIsANote) {
  DoctorFacts facts = good_machine();
  EXPECT_TRUE(is(facts, "shared", State::Ok, "no memory is shared"));
  facts.segments = {
      {.name = "data-1", .kind = "data", .key = "tokens", .bytes = kGiB, .processes = 8},
      {.name = "data-2", .kind = "data", .key = "images", .held = true, .keep = true}};
  EXPECT_TRUE(is(facts, "shared", State::Ok, "tokens: 1.0 GiB, 8 processes"));
  EXPECT_TRUE(is(facts, "shared", State::Note, "images", "pergpu share drop data-2"));
}

TEST(DoctorLimits, EachThatEndsOrBreaksJobsIsNamed) {
  DoctorFacts facts = good_machine();
  facts.limits.open_files = {.soft = 1024, .hard = 65536};
  EXPECT_TRUE(is(facts, "limits", State::Note, "1024 open files", "ulimit -Sn 4096"));
  facts.limits.open_files = {.soft = 256, .hard = 256};
  EXPECT_TRUE(is(facts, "limits", State::Warning, "256 open files", "hard nofile 4096"));
  facts.limits.open_files = {};
  facts.limits.processes.soft = 100;
  facts.limits.address_space_bytes.soft = 8 * kGiB;
  facts.limits.file_bytes.soft = kGiB;
  facts.limits.cpu_seconds.soft = 3600;
  EXPECT_TRUE(is(facts, "limits", State::Warning, "100 processes", "ulimit -Su unlimited"));
  EXPECT_TRUE(is(facts, "limits", State::Warning, "8.0 GiB of address space", "ulimit -Sv"));
  EXPECT_TRUE(is(facts, "limits", State::Warning, "files of at most 1.0 GiB", "ulimit -Sf"));
  EXPECT_TRUE(is(facts, "limits", State::Warning, "3600 s of CPU time", "ulimit -St"));
}

TEST(DoctorFolder, NetworkRoomAndRights) {
  DoctorFacts facts = good_machine();
  facts.here.on_network = true;
  facts.here.type = "nfs4";
  facts.here.space.reset();
  EXPECT_TRUE(is(facts, "folder", State::Note, "network file system (nfs4)", "--out"));
  facts = good_machine();
  facts.here.writable = false;
  facts.here.space->free_bytes = 5;
  EXPECT_TRUE(is(facts, "folder", State::Note, "you can't write to"));
  EXPECT_TRUE(is(facts, "folder", State::Warning, "0 MiB free", "du -xsh"));
}

TEST(DoctorClock, WrongUnkeptOrSlow) {
  DoctorFacts facts = good_machine();
  facts.clock_synchronised = false;
  facts.clock_source = "hpet";
  EXPECT_TRUE(is(facts, "clock", State::Note, "no NTP", "timedatectl"));
  EXPECT_TRUE(is(facts, "clock", State::Note, "hpet", "dmesg"));
  facts.clock_source = "tsc";
  facts.clock_synchronised.reset();
  EXPECT_TRUE(is(facts, "clock", State::Unknown, "doesn't report whether"));
  facts.wall_ns = 0;
  EXPECT_TRUE(is(facts, "clock", State::Problem, "before pergpu was written", "set-ntp"));
}

TEST(DoctorKernel, OneThatIsTooOldIsToMend) {
  DoctorFacts facts = good_machine();
  facts.kernel = "4.15.0-213-generic";
  EXPECT_TRUE(is(facts, "kernel", State::Warning, "older than 4.18"));
  facts.kernel = "4.18.0-553.el8";
  EXPECT_TRUE(is(facts, "kernel", State::Ok, "4.18.0"));
  facts.kernel = "";
  EXPECT_TRUE(is(facts, "kernel", State::Unknown, "doesn't report its version"));
}

TEST(DoctorKernel, CallsThatAreMissingAreNamedWithWhatIsWeaker) {
  DoctorFacts facts = good_machine();
  facts.kernel = "4.18.0-553.el8";
  facts.missing_calls = {os::KernelCall::PidfdOpen, os::KernelCall::OpenAt2,
                         os::KernelCall::CloseRange, os::KernelCall::FutexWaitv};
  EXPECT_TRUE(is(facts, "kernel", State::Note, "pidfd_open (Linux 5.3)"));
  EXPECT_TRUE(is(facts, "kernel", State::Note, "futex_waitv (Linux 5.16)"));
  EXPECT_TRUE(is(facts, "kernel", State::Note,
                 "openat2 (Linux 5.6), close_range with CLOSE_RANGE_CLOEXEC (Linux 5.11)"));
  for (const view::Finding& finding : of(facts, "kernel")) EXPECT_FALSE(finding.why.empty());
}

TEST(DoctorKernel, CallThatAFilterForbidsIsToldApart) {
  DoctorFacts facts = good_machine();
  facts.missing_calls = {os::KernelCall::PidfdOpen, os::KernelCall::MemfdCreate};
  EXPECT_TRUE(is(facts, "kernel", State::Note, "pidfd_open (forbidden by a filter)", "seccomp"));
  EXPECT_TRUE(is(facts, "kernel", State::Warning, "memfd_create (forbidden", "seccomp"));
}

TEST(DoctorCgroups, AreToMendWhereAUserManagerCanGiveThem) {
  DoctorFacts facts = good_machine();
  facts.groups = {.words = "cgroup v2: can't create groups"};
  EXPECT_TRUE(is(facts, "cgroups", State::Warning, "can't create groups", "Delegate=yes"));
  facts.has_user_manager = false;
  EXPECT_TRUE(is(facts, "cgroups", State::Note, "can't create groups"));
  facts.has_user_manager = true;
  facts.groups.words = "PERGPU_CGROUP=none: no control groups are used";
  EXPECT_TRUE(is(facts, "cgroups", State::Note, "PERGPU_CGROUP=none"));
}

TEST(DoctorLogout, DependsOnWhereTheCoordinatorLives) {
  DoctorFacts facts = good_machine();
  facts.lingers = false;
  EXPECT_TRUE(is(facts, "logout", State::Warning, "your last session", "enable-linger"));
  facts.keeping = os::Keeping::Session;
  EXPECT_TRUE(is(facts, "logout", State::Unknown, "don't show", "busctl"));
  facts.logout_ends = false;
  EXPECT_TRUE(is(facts, "logout", State::Ok, "KillUserProcesses=no"));
  facts.logout_ends = true;
  facts.lingers = true;
  EXPECT_TRUE(is(facts, "logout", State::Warning, "ends the coordinator", "coordinator enable"));
  facts.keeping = os::Keeping::System;
  EXPECT_TRUE(is(facts, "logout", State::Ok, "ends nothing"));
  facts.has_systemd = false;
  EXPECT_TRUE(is(facts, "logout", State::Ok, "no systemd"));
}

TEST(DoctorReboot, TheUnitMustBeThereWholeEnabledAndItsUserLinger) {
  DoctorFacts facts = good_machine();
  facts.lingers = false;
  EXPECT_TRUE(is(facts, "reboot", State::Note, "first login", "enable-linger"));
  facts.unit.is_enabled = false;
  EXPECT_TRUE(is(facts, "reboot", State::Note, "not enabled", "enable --now"));
  facts.unit.program_is_there = false;
  EXPECT_TRUE(is(facts, "reboot", State::Warning, "/usr/bin/pergpu, which does not exist"));
  facts.unit = {};
  EXPECT_TRUE(is(facts, "reboot", State::Note, "nothing starts", "coordinator enable"));
  facts.has_systemd = false;
  facts.program = "/opt/per gpu/bin/pergpu";
  facts.environment_after_reboot = {"PERGPU_HOME=/data/100%"};
  EXPECT_TRUE(is(facts, "reboot", State::Note, "no systemd",
                 R"((crontab -l; printf '%s\n' '@reboot PERGPU_HOME=/data/100\% )"
                 R"('\''/opt/per gpu/bin/pergpu'\'' ps') | crontab -)"));
}

TEST(DoctorHome, RefusedElsewhereInMemoryOrFull) {
  DoctorFacts facts = good_machine();
  facts.home.why_elsewhere = "/home is on a network file system";
  EXPECT_TRUE(is(facts, "home", State::Note, "network", "PERGPU_HOME"));
  facts.home.folder.type = "tmpfs";
  EXPECT_TRUE(is(facts, "home", State::Warning, "in memory", "PERGPU_HOME"));
  facts.home.folder.space->free_bytes = kGiB / 2;
  EXPECT_TRUE(is(facts, "home", State::Warning, "512 MiB free", "df -h"));
  facts.home.folder.space->free_bytes = 1;
  EXPECT_TRUE(is(facts, "home", State::Problem, "0 MiB free", "df -h"));
  facts.home.folder.space->total_files = 1000;
  EXPECT_TRUE(is(facts, "home", State::Warning, "room for 0 more files", "df -i"));
  facts.home.error = "PERGPU_HOME=x: on a network file system";
  EXPECT_TRUE(is(facts, "home", State::Problem, "network", "PERGPU_HOME"));
}

TEST(DoctorPrograms, AMissingKeeperIsAProblem) {
  DoctorFacts facts = good_machine();
  facts.keeper = "";
  facts.keeper_error = "program pergpu-keeper: neither here nor there";
  EXPECT_TRUE(is(facts, "programs", State::Problem, "pergpu-keeper", "install"));
}

TEST(DoctorPrograms, ATestJobThatFailsIsAProblem) {
  DoctorFacts facts = good_machine();
  facts.job->complaint = "mkdir /tmp/x: No space left on device";
  EXPECT_TRUE(is(facts, "job", State::Problem, "No space left", "pergpu run"));
}

TEST(DoctorPython, AMissingOldOrIncompletePackageIsReported) {
  DoctorFacts facts = good_machine();
  facts.python.complaint = "ImportError: the compiled part of pergpu is missing";
  EXPECT_TRUE(is(facts, "python", State::Warning, "compiled part", "pip install"));
  facts.python.version = "0.0.9";
  EXPECT_TRUE(is(facts, "python", State::Warning, "0.0.9", "/usr/bin/python3 -m pip install"));
  facts.python.version = "";
  EXPECT_TRUE(is(facts, "python", State::Note, "doesn't have the package", "pip install"));
  facts.python.python = "";
  EXPECT_TRUE(is(facts, "python", State::Note, "no python3", ""));
}

TEST(DoctorCoordinator, SilentUnwritableOrOfAnotherVersion) {
  DoctorFacts facts = good_machine();
  facts.coordinator.state = CoordinatorFacts::State::Runs;
  facts.coordinator.version = "0.0.9";
  facts.coordinator.store = "disk full";
  EXPECT_TRUE(is(facts, "coordinator", State::Note, "0.0.9", "coordinator stop"));
  EXPECT_TRUE(is(facts, "coordinator", State::Problem, "disk full", "df -h"));
  facts.coordinator.state = CoordinatorFacts::State::Silent;
  facts.coordinator.why = "no answer within 10 s";
  EXPECT_TRUE(is(facts, "coordinator", State::Problem, "no answer", "kill"));
}

}  // namespace
}  // namespace pergpu::cli
