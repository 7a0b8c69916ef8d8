// The machine: what it gives to jobs, and what may end or slow them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "cli/doctor/doctor_checks.h"
#include "gpu/foreign.h"
#include "gpu/lanes.h"
#include "job/gpu_slot.h"
#include "plural.h"

namespace pergpu::cli {
namespace {

using State = view::FindingState;

constexpr std::uint64_t kGiB = 1024 * kMiB;

int gpu_count(const DoctorFacts& facts) { return static_cast<int>(facts.look.gpus.size()); }

/// Cores of a job that declares none.
int budget_of(const DoctorFacts& facts) {
  return gpu::default_cpu_budget(facts.cores, std::max(gpu_count(facts), 1));
}

/// Of each GPU's lane: "2 cores and 15.6 GiB a GPU".
std::string per_gpu_text(const DoctorFacts& facts) {
  const auto lanes = static_cast<std::uint64_t>(gpu_count(facts));
  return fmt::format("{} and {} per GPU", counted(budget_of(facts), "core"),
                     bytes_text(facts.memory_bytes / lanes));
}

Findings cores(const DoctorFacts& facts) {
  const int gpus = gpu_count(facts);
  std::string what =
      fmt::format("{}, {} of memory", counted(facts.cores, "core"), bytes_text(facts.memory_bytes));
  if (gpus > 0) what += ": " + per_gpu_text(facts);
  constexpr const char* kWhy =
      "a job without `cpus` gets its share of the cores, and its libraries use that many threads";
  if (gpus > facts.cores) {
    return {{.state = State::Warning,
             .what = what + ", fewer cores than GPUs",
             .why = "jobs wait for a core while their GPU is idle",
             .mend = facts.cores < facts.online_cores
                         ? fmt::format("allow more of the machine's {} cores: docker run --cpus …, "
                                       "taskset, or the batch system's --cpus-per-task",
                                       facts.online_cores)
                         : std::string("use fewer GPUs at once: pergpu run --devices …")}};
  }
  if (facts.cores < facts.online_cores) {
    return {
        {.state = State::Note,
         .what = fmt::format("{}; the machine has {}", what, counted(facts.online_cores, "core")),
         .why = "a CPU affinity or a cgroup limits this shell to these cores",
         .mend = "taskset -pc $$; cat /proc/self/cgroup   # shows which of the two"}};
  }
  return {{.state = State::Ok, .what = std::move(what), .why = kWhy}};
}

Findings threads(const DoctorFacts& facts) {
  const int budget = budget_of(facts);
  Findings findings;
  for (const auto& [name, value] : facts.threads) {
    int count = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), count);
    if (code != std::errc{} || count <= budget) continue;
    findings.push_back(
        {.state = State::Warning,
         .what = fmt::format("{}={} is set in this shell, but a job has {}", name, count,
                             counted(budget, "core")),
         .why = "pergpu sets it to a job's cores only if it is unset. Jobs that run at the same "
                "time start more threads than there are cores and slow each other down",
         .mend = "unset " + name});
  }
  return findings;
}

Findings numa(const DoctorFacts& facts) {
  constexpr const char* kWhy = "jobs are pinned to cores near their GPU if all jobs fit";
  if (facts.numa_nodes < 2) {
    return {{.state = State::Ok, .what = "one NUMA node", .why = kWhy}};
  }
  std::string untold;
  std::string told;
  for (const GpuReading& gpu : facts.look.gpus) {
    const bool is_told = gpu.numa_node >= 0;
    std::string& list = is_told ? told : untold;
    list += fmt::format("{}gpu{}{}", list.empty() ? "" : ", ",
                        to_string(GpuPlace{.gpu = gpu.index, .instance = gpu.instance}),
                        is_told ? fmt::format(" on {}", gpu.numa_node) : std::string());
  }
  std::string what = counted(facts.numa_nodes, "NUMA node");
  if (!told.empty()) what += ": " + told;
  if (untold.empty()) return {{.state = State::Ok, .what = std::move(what), .why = kWhy}};
  return {{.state = State::Note,
           .what = fmt::format("{}; the machine doesn't report the node of {}", what, untold),
           .why = "jobs on them aren't pinned near their GPU, and their data may cross nodes",
           .mend = "in a virtual machine: give it the host's NUMA topology; otherwise check the "
                   "BIOS settings of the PCIe slots"}};
}

/// Less is worth a word: containers come with 64 MiB.
constexpr std::uint64_t kLeastShm = kGiB;

Findings shm(const DoctorFacts& facts) {
  constexpr const char* kWhy =
      "data loaders pass batches through /dev/shm; when it is full, they fail with \"bus error\" "
      "or \"no space left on device\"";
  if (!facts.shm) {
    return {{.state = State::Problem,
             .what = "/dev/shm does not exist",
             .why = kWhy,
             .mend = "sudo mount -t tmpfs -o mode=1777,size=50% tmpfs /dev/shm"}};
  }
  const std::string room = fmt::format("/dev/shm: {} of {} free", bytes_text(facts.shm->free_bytes),
                                       bytes_text(facts.shm->total_bytes));
  if (facts.shm->total_bytes < kLeastShm) {
    return {{.state = State::Warning,
             .what = room,
             .why = kWhy,
             .mend = facts.in_container ? "docker run --shm-size=16g …   # or --ipc=host"
                                        : "sudo mount -o remount,size=50% /dev/shm"}};
  }
  if (facts.shm->free_bytes < kLeastShm) {
    return {{.state = State::Warning,
             .what = room,
             .why = kWhy,
             .mend = "ls -lS /dev/shm   # you can remove what killed programs left there"}};
  }
  return {{.state = State::Ok, .what = room, .why = kWhy}};
}

/// Each segment once, however many processes have it.
Findings shared(const DoctorFacts& facts) {
  constexpr const char* kWhy =
      "jobs share one copy in memory, although each process seems to have its own";
  Findings findings;
  for (const view::Segment& segment : facts.segments) {
    const bool is_forgotten = segment.keep && segment.processes == 0;
    findings.push_back({.state = is_forgotten ? State::Note : State::Ok,
                        .what = view::segment_line(segment, facts.wall_ns),
                        .why = is_forgotten ? "it is kept, but no process uses it" : kWhy,
                        .mend = is_forgotten ? "pergpu share drop " + segment.name : ""});
  }
  if (findings.empty()) {
    findings.push_back({.state = State::Ok, .what = "no memory is shared", .why = kWhy});
  }
  return findings;
}

std::string limit_text(std::uint64_t limit) {
  return limit == os::kUnlimited ? "unlimited" : fmt::format("{}", limit);
}

/// "ulimit -n 4096", where the hard limit lets us; else who has to raise that.
std::string raise_limit(char option, const char* name, const os::Limit& limit,
                        std::uint64_t wanted) {
  const std::string value = limit_text(wanted);
  if (limit.hard >= wanted) return fmt::format("ulimit -S{} {}", option, value);
  return fmt::format(
      "echo '* hard {0} {1}' | sudo tee -a /etc/security/limits.d/pergpu.conf, log in again, then: "
      "ulimit -S{2} {1}",
      name, value, option);
}

constexpr std::uint64_t kLeastOpenFiles = 1024;
constexpr std::uint64_t kManyOpenFiles = 4096;
constexpr std::uint64_t kLeastProcesses = 2048;

Findings limits(const DoctorFacts& facts) {
  const os::ProcessLimits& limits = facts.limits;
  Findings findings;
  const auto add = [&](State state, std::string what, const char* why, std::string mend) {
    findings.push_back(
        {.state = state, .what = std::move(what), .why = why, .mend = std::move(mend)});
  };
  if (limits.open_files.soft < kManyOpenFiles) {
    add(limits.open_files.soft < kLeastOpenFiles ? State::Warning : State::Note,
        fmt::format("at most {} open files (ulimit -n)", limits.open_files.soft),
        "jobs inherit the limits of the shell that submits. Data loaders with many workers keep a "
        "file open per batch and fail with \"too many open files\"",
        raise_limit('n', "nofile", limits.open_files, kManyOpenFiles));
  }
  if (limits.processes.soft < kLeastProcesses) {
    add(State::Warning,
        fmt::format("at most {} processes and threads per user (ulimit -u)", limits.processes.soft),
        "all your jobs and their threads count together; once the limit is reached, no process can "
        "start",
        raise_limit('u', "nproc", limits.processes, os::kUnlimited));
  }
  if (limits.address_space_bytes.soft != os::kUnlimited) {
    add(State::Warning,
        fmt::format("at most {} of address space per process (ulimit -v)",
                    bytes_text(limits.address_space_bytes.soft)),
        "CUDA reserves far more address space than memory, so programs fail as soon as they use "
        "it. To limit memory, set `memory` of a step",
        raise_limit('v', "as", limits.address_space_bytes, os::kUnlimited));
  }
  if (limits.file_bytes.soft != os::kUnlimited) {
    add(State::Warning,
        fmt::format("files of at most {} (ulimit -f)", bytes_text(limits.file_bytes.soft)),
        "a job that writes a larger checkpoint or log is killed by SIGXFSZ",
        raise_limit('f', "fsize", limits.file_bytes, os::kUnlimited));
  }
  if (limits.cpu_seconds.soft != os::kUnlimited) {
    add(State::Warning,
        fmt::format("at most {} s of CPU time per process (ulimit -t)", limits.cpu_seconds.soft),
        "a process that uses more is killed by SIGXCPU; to limit wall-clock time, set `timeout` of "
        "a step",
        raise_limit('t', "cpu", limits.cpu_seconds, os::kUnlimited));
  }
  if (!findings.empty()) return findings;
  return {{.state = State::Ok,
           .what = fmt::format(
               "{} open files, {} processes; no limit on address space, file size or CPU time",
               limit_text(limits.open_files.soft), limit_text(limits.processes.soft)),
           .why = "jobs inherit the limits (ulimit) of the shell that submits"}};
}

Findings folder(const DoctorFacts& facts) {
  const FolderFacts& here = facts.here;
  if (here.path.empty()) return {};
  constexpr const char* kWhy =
      "pergpu creates `runs/`, with logs and results, next to the sweep file";
  Findings findings;
  if (here.on_network) {
    findings.push_back(
        {.state = State::Note,
         .what = fmt::format("{} is on a network file system ({})", here.path, here.type),
         .why = "logs and results of sweeps here cross the network, and all jobs stall if the file "
                "server stalls. The queue itself is elsewhere (see home)",
         .mend = "pergpu run --out /a/local/folder …"});
  }
  if (!here.writable) {
    findings.push_back({.state = State::Note,
                        .what = fmt::format("you can't write to {}", here.path),
                        .why = kWhy,
                        .mend = "pergpu run --out /a/writable/folder …"});
  }
  if (here.space && here.space->free_bytes < kGiB) {
    findings.push_back(
        {.state = State::Warning,
         .what = fmt::format("{}: {} free", here.path, bytes_text(here.space->free_bytes)),
         .why = "jobs fail as disk-full, and new ones wait until there is space",
         .mend = fmt::format("du -xsh {}/* | sort -h", here.path)});
  }
  if (!findings.empty()) return findings;
  return {{.state = State::Ok,
           .what = fmt::format(
               "{} ({}{})", here.path, here.type.empty() ? "unknown file system" : here.type,
               here.space ? fmt::format(", {} free", bytes_text(here.space->free_bytes))
                          : std::string()),
           .why = kWhy}};
}

/// 2025-01-01, before the first version of pergpu.
constexpr std::int64_t kTooEarlyNs = 1'735'689'600'000'000'000;

Findings clock(const DoctorFacts& facts) {
  constexpr const char* kWhy =
      "attempts, logs and reports have wall-clock times, and outputs must be newer than the start "
      "of the attempt. Durations and limits use another clock";
  if (facts.wall_ns < kTooEarlyNs) {
    return {{.state = State::Problem,
             .what = "the clock shows a time before pergpu was written",
             .why = kWhy,
             .mend = "sudo timedatectl set-ntp true"}};
  }
  Findings findings;
  if (facts.clock_synchronised == false) {
    findings.push_back({.state = State::Note,
                        .what = "the clock is not synchronized (no NTP)",
                        .why = kWhy,
                        .mend = "sudo timedatectl set-ntp true"});
  }
  constexpr std::array<std::string_view, 4> kSlow = {"acpi_pm", "hpet", "jiffies",
                                                     "refined-jiffies"};
  const std::string& source = facts.clock_source;
  if (std::find(kSlow.begin(), kSlow.end(), source) != kSlow.end()) {
    findings.push_back({.state = State::Note,
                        .what = fmt::format("the kernel's clock source is {}", source),
                        .why = "reading the clock then takes a system call, and training loops "
                               "that measure time read it often",
                        .mend = "sudo dmesg | grep -i clocksource   # why it is not tsc"});
  }
  if (!findings.empty()) return findings;
  if (!facts.clock_synchronised) {
    return {{.state = State::Unknown,
             .what = "the kernel doesn't report whether the clock is synchronized",
             .why = kWhy,
             .mend = "timedatectl"}};
  }
  return {{.state = State::Ok,
           .what = source.empty() ? "synchronized" : fmt::format("synchronized, source {}", source),
           .why = kWhy}};
}

/// {6, 1} of "6.1.0-13-amd64"; {0, 0}: no version.
std::array<int, 2> kernel_version(std::string_view text) {
  std::array<int, 2> parts = {0, 0};
  const char* at = text.data();
  const char* end = at + text.size();
  for (int& part : parts) {
    const auto [next, code] = std::from_chars(at, end, part);
    if (code != std::errc{}) return {0, 0};
    at = next;
    if (at != end && *at == '.') ++at;
  }
  return parts;
}

using KernelVersion = std::array<int, 2>;
constexpr KernelVersion kOldestKernel = {4, 18};

/// Another call stands in for each of them; where that is weaker it's reported.
Findings missing_calls(const DoctorFacts& facts, const KernelVersion& version) {
  Findings findings;
  std::string others;
  for (const os::KernelCall missing : facts.missing_calls) {
    const os::KernelCallFacts call = os::facts_of(missing);
    const bool is_forbidden = version >= kernel_version(call.since);
    std::string name = is_forbidden ? fmt::format("{} (forbidden by a filter)", call.name)
                                    : fmt::format("{} (Linux {})", call.name, call.since);
    if (call.without.empty()) {
      others += (others.empty() ? "" : ", ") + std::move(name);
      continue;
    }
    const bool is_lost = missing == os::KernelCall::MemfdCreate;
    findings.push_back({.state = is_lost ? State::Warning : State::Note,
                        .what = "no kernel call " + std::move(name),
                        .why = std::string(call.without),
                        .mend = is_forbidden ? "allow it in the container's seccomp profile" : ""});
  }
  if (!others.empty()) {
    findings.push_back({.state = State::Note,
                        .what = "no kernel call " + std::move(others),
                        .why = "others are used instead, and everything is as with a newer kernel",
                        .mend = ""});
  }
  return findings;
}

Findings kernel(const DoctorFacts& facts) {
  constexpr const char* kWhy =
      "pergpu starts, tracks and ends processes with system calls of newer kernels";
  const KernelVersion version = kernel_version(facts.kernel);
  Findings findings = missing_calls(facts, version);
  view::Finding& first = *findings.insert(findings.begin(), view::Finding{.why = kWhy});
  first.what = "Linux " + facts.kernel;
  if (version[0] == 0) {
    first.state = State::Unknown;
    first.what = "the kernel doesn't report its version";
    first.mend = "uname -r";
  } else if (version < kOldestKernel) {
    first.state = State::Warning;
    first.what += ": older than 4.18";
    first.why = "pergpu isn't tested with kernels this old";
    first.mend = "install a newer kernel, then reboot";
  }
  return findings;
}

constexpr Check kMachineChecks[] = {
    {"cores", cores},   {"threads", threads}, {"numa", numa},
    {"shm", shm},       {"shared", shared},   {"limits", limits},
    {"folder", folder}, {"clock", clock},     {"kernel", kernel},
};

}  // namespace

std::span<const Check> machine_checks() { return kMachineChecks; }

std::string bytes_text(std::uint64_t bytes) { return gpu::bytes_in_words(bytes); }

}  // namespace pergpu::cli
