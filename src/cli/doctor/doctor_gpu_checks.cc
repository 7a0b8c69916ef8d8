// GPUs: the driver, each device's health and settings, and who else uses them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/doctor/doctor_checks.h"
#include "gpu/amd_look.h"
#include "gpu/foreign.h"
#include "gpu/health.h"
#include "gpu/lanes.h"
#include "job/gpu_slot.h"
#include "plural.h"
#include "view/model/lane_names.h"

namespace pergpu::cli {
namespace {

using State = view::FindingState;

std::string gpu_name(const GpuReading& gpu) {
  return "gpu" + to_string(GpuPlace{.gpu = gpu.index, .instance = gpu.instance});
}

/// "gpu0, gpu3" of those for which `is` holds.
template <typename Is>
std::string names_of(const std::vector<GpuReading>& gpus, Is is) {
  std::string names;
  for (const GpuReading& gpu : gpus) {
    if (is(gpu)) names += (names.empty() ? "" : ", ") + gpu_name(gpu);
  }
  return names;
}

/// A line for each of them: "sudo nvidia-smi -i 3 -mig 0".  One for all instances of a GPU.
template <typename Is>
std::string commands_for(const std::vector<GpuReading>& gpus, Is is, std::string_view command) {
  std::string lines;
  for (const GpuReading& gpu : gpus) {
    if (!is(gpu)) continue;
    const std::string line = fmt::format("sudo nvidia-smi -i {} {}", gpu.index, command);
    if (!lines.ends_with(line)) lines += (lines.empty() ? "" : "\n") + line;
  }
  return lines;
}

/// The driver answered and has GPUs.
bool has_gpus(const DoctorFacts& facts) {
  return facts.look.complete && !facts.look.no_driver && !facts.look.gpus.empty();
}

std::string user_of(const DoctorFacts& facts, uid_t uid) {
  const auto found = facts.users.find(uid);
  return found == facts.users.end() ? fmt::format("uid {}", uid) : found->second;
}

// ---- driver ----

constexpr const char* kWhyDriver = "without a driver, no job gets a GPU; CPU jobs still run";

Findings without_driver(const DoctorFacts& facts) {
  if (facts.gpus_on_bus == 0) {
    return {{.state = State::Note,
             .what = "no NVIDIA GPU",
             .why = "steps that request GPUs run only with `--lanes N`, on CPU lanes"}};
  }
  const std::string gpus = counted(facts.gpus_on_bus, "NVIDIA GPU") + " on the PCI bus";
  if (facts.in_container && !facts.has_device_files) {
    return {{.state = State::Note,
             .what = gpus + ", but none is passed to this container",
             .why = kWhyDriver,
             .mend = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=utility,compute …"}};
  }
  if (facts.kernel_module.empty()) {
    return {{.state = State::Problem,
             .what = gpus + ", but no driver is loaded",
             .why = kWhyDriver,
             .mend = "sudo modprobe nvidia\n"
                     "if there is no such module: install the driver, then reboot"}};
  }
  return {{.state = State::Problem,
           .what = fmt::format("{}, and driver {} is loaded, but programs can't use it: {}", gpus,
                               facts.kernel_module, facts.look.why),
           .why = kWhyDriver,
           .mend = fmt::format("install libnvidia-ml.so.1 of version {} (Debian: sudo apt install "
                               "libnvidia-ml1); in a container: docker run --gpus all -e "
                               "NVIDIA_DRIVER_CAPABILITIES=utility,compute …",
                               facts.kernel_module)}};
}

Findings driver(const DoctorFacts& facts) {
  const GpuLook& look = facts.look;
  if (look.no_driver) return without_driver(facts);
  if (look.driver_mismatch) {
    const auto known = [](const std::string& version) {
      return version.empty() ? std::string("of unknown version") : version;
    };
    return {{.state = State::Problem,
             .what = fmt::format("the driver was updated: its library is {}, the loaded kernel "
                                 "module {}",
                                 known(look.library), known(facts.kernel_module)),
             .why = "programs that start to use CUDA now fail, so no job starts on a GPU; running "
                    "jobs and CPU jobs continue",
             .mend = "sudo reboot\n"
                     "or, if nothing uses a GPU: sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset "
                     "nvidia; sudo modprobe nvidia"}};
  }
  if (!look.complete) {
    return {{.state = State::Problem,
             .what = "the NVIDIA driver's answer is incomplete: " + look.why,
             .why = "the state of the GPUs is unknown, so no new job starts on them",
             .mend = "sudo dmesg | grep -i nvrm\n"
                     "if the driver hangs: sudo reboot"}};
  }
  if (look.gpus.empty()) {
    return {{.state = State::Warning,
             .what = fmt::format("the NVIDIA driver {} finds no GPU", look.driver),
             .why = "no job gets a GPU",
             .mend = "ls -l /dev/nvidia*; lspci | grep -i nvidia\n"
                     "in a container: docker run --gpus all …"}};
  }
  if (gpu::is_amd(look)) {
    return {{.state = State::Ok,
             .what = "AMD GPUs, through the kernel's driver (amdgpu)",
             .why = kWhyDriver}};
  }
  std::string what = "NVIDIA driver " + (look.driver.empty() ? "of unknown version" : look.driver);
  if (!look.library.empty() && look.library != look.driver) what += ", library " + look.library;
  if (!look.cuda.empty()) what += ", CUDA up to " + look.cuda;
  return {{.state = State::Ok, .what = std::move(what), .why = kWhyDriver}};
}

// ---- health ----

std::string mend_of(const GpuReading& gpu, gpu::Lift lift) {
  if (lift == gpu::Lift::Reboot || gpu.health == GpuHealth::Lost) {
    return "sudo reboot\n"
           "if the fault returns: check power, cooling and the slot, then contact the vendor";
  }
  return fmt::format(
      "pergpu coordinator stop; sudo nvidia-smi --gpu-reset -i {}   # while nothing uses it\n"
      "or: sudo reboot",
      gpu.index);
}

/// What pergpu's own coordinator holds against a GPU that reads healthy.
void add_closed(const DoctorFacts& facts, const GpuReading& gpu, Findings& findings) {
  for (const GpuSnapshot& known : facts.coordinator.gpus) {
    if (known.uuid != gpu.uuid) continue;
    const bool is_dirty = known.state == "dirty";
    if (!is_dirty && known.state != "quarantined") continue;
    findings.push_back(
        {.state = State::Warning,
         .what = fmt::format("{}: {}: {}", gpu_name(gpu), known.state, known.why),
         .why = "your jobs don't start on it",
         .mend = is_dirty ? "end the job's leftover processes (`pergpu gpus` lists them): kill PID"
                          : "pergpu gpus --release " + view::number_of(known)});
  }
}

std::string models_of(const std::vector<GpuReading>& gpus) {
  std::map<std::string, int> models;
  for (const GpuReading& gpu : gpus) {
    const std::string name = gpu.name.empty() ? "unknown model" : gpu.name;
    ++models[fmt::format("{} ({})", name, gpu::bytes_in_words(gpu.total_bytes))];
  }
  std::string text;
  for (const auto& [model, count] : models) {
    text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, model);
  }
  return text;
}

Findings health(const DoctorFacts& facts) {
  if (!has_gpus(facts)) return {};
  Findings findings;
  for (const GpuReading& gpu : facts.look.gpus) {
    const std::optional<gpu::GpuFault> fault = gpu::fault_of(gpu, gpu::kAllConditions);
    if (fault) {
      const bool works = gpu::conditions_of(gpu) == gpu::kRepairPending;
      findings.push_back({.state = works ? State::Warning : State::Problem,
                          .what = fmt::format("{}: {}", gpu_name(gpu), fault->words),
                          .why = "no job starts on it; jobs use the other GPUs",
                          .mend = mend_of(gpu, fault->lift)});
    } else if (gpu.health != GpuHealth::Ok) {
      findings.push_back({.state = State::Problem,
                          .what = fmt::format("{}: {}", gpu_name(gpu), gpu.note),
                          .why = "no job starts on it until the driver reports it healthy",
                          .mend = gpu::is_amd(facts.look) ? "sudo dmesg | grep -i amdgpu"
                                                          : "sudo dmesg | grep -i nvrm"});
    } else {
      add_closed(facts, gpu, findings);
    }
  }
  const std::size_t all = facts.look.gpus.size();
  if (!findings.empty()) return findings;
  return {
      {.state = State::Ok,
       .what = fmt::format("{}: {}, all healthy", counted(all, "GPU"), models_of(facts.look.gpus)),
       .why = "a broken GPU gets no jobs"}};
}

Findings xid(const DoctorFacts& facts) {
  if (!has_gpus(facts) || gpu::is_amd(facts.look)) return {};
  if (!facts.xids) {
    return {{.state = State::Unknown,
             .what = "you can't read the kernel log",
             .why = "only that log has the critical errors (Xids) from before pergpu's first job",
             .mend = "sudo dmesg | grep 'NVRM: Xid'"}};
  }
  std::map<std::pair<std::string, std::int64_t>, int> counts;
  for (const gpu::LoggedXid& one : *facts.xids) ++counts[{one.pci, one.number}];
  Findings findings;
  for (const auto& [key, count] : counts) {
    const auto& [pci, number] = key;
    const gpu::XidEntry* entry = gpu::xid_entry(number);
    if (entry != nullptr && entry->kind == gpu::XidKind::Ignore) continue;
    const auto of_it = std::ranges::find_if(
        facts.look.gpus,
        [&, &pci = pci](const GpuReading& gpu) { return gpu.pci.starts_with(pci + "."); });
    const bool is_known = of_it != facts.look.gpus.end();
    const bool is_broken = entry != nullptr && (entry->kind == gpu::XidKind::Hardware ||
                                                entry->kind == gpu::XidKind::Driver);
    Findings::value_type finding{
        .state = is_broken ? State::Warning : State::Note,
        .what = fmt::format("{}: {}{}", is_known ? fmt::format("gpu{}", of_it->index) : pci,
                            gpu::xid_words(number),
                            count == 1 ? "" : fmt::format(" ({} times)", count)),
        .why =
            "in the kernel log since boot; this error ends a program and is usually that program's "
            "own fault",
        .mend = ""};
    if (is_broken) {
      finding.why =
          "in the kernel log since boot; jobs on this GPU may fail until you reset the GPU or "
          "reboot";
      finding.mend = entry->lift == gpu::Lift::Reset && is_known ? mend_of(*of_it, gpu::Lift::Reset)
                                                                 : std::string("sudo reboot");
    }
    findings.push_back(std::move(finding));
  }
  if (!findings.empty()) return findings;
  return {{.state = State::Ok,
           .what = "no critical error (Xid) in the kernel log",
           .why = "Xids report GPUs that fail"}};
}

// ---- settings ----

Findings mig(const DoctorFacts& facts) {
  if (!has_gpus(facts)) return {};
  const std::vector<GpuReading>& gpus = facts.look.gpus;
  const auto is_cut = [](const GpuReading& gpu) { return gpu.instance >= 0; };
  const auto is_empty = [](const GpuReading& gpu) {
    return gpu.mig.value_or(false) && gpu.instance < 0;
  };
  const auto changes = [](const GpuReading& gpu) {
    return gpu.mig && gpu.mig_pending && *gpu.mig != *gpu.mig_pending;
  };
  Findings findings;
  if (const std::string names = names_of(gpus, is_cut); !names.empty()) {
    findings.push_back({.state = State::Ok,
                        .what = "MIG instances: " + names,
                        .why = "each is a lane; multi-GPU jobs don't get any, since a program can "
                               "use only one instance"});
  }
  if (const std::string names = names_of(gpus, is_empty); !names.empty()) {
    findings.push_back({.state = State::Warning,
                        .what = names + ": MIG is on, but there are no instances",
                        .why = "no program can use it until you create instances or turn MIG off",
                        .mend = commands_for(gpus, is_empty, "mig -lgip") +
                                "   # sizes, for: mig -cgi SIZE,… -C\n" +
                                commands_for(gpus, is_empty, "-mig 0") +
                                "   # or turn MIG off, while nothing uses it"});
  }
  if (const std::string names = names_of(gpus, changes); !names.empty()) {
    findings.push_back({.state = State::Warning,
                        .what = names + ": MIG changes at the next reset",
                        .why = "after that reset, the GPU has other lanes than now",
                        .mend = commands_for(gpus, changes, "--gpu-reset")});
  }
  const bool is_told = std::ranges::any_of(gpus, [](const GpuReading& gpu) { return !!gpu.mig; });
  if (findings.empty() && is_told) {
    findings.push_back({.state = State::Ok, .what = "MIG is off", .why = "jobs get whole GPUs"});
  }
  return findings;
}

Findings persistence(const DoctorFacts& facts) {
  if (!has_gpus(facts)) return {};
  const auto is_off = [](const GpuReading& gpu) { return gpu.persistent == false; };
  constexpr const char* kWhy =
      "without it, a GPU sleeps after its last program ends, and the next program waits until it "
      "wakes up";
  if (const std::string names = names_of(facts.look.gpus, is_off); !names.empty()) {
    return {{.state = State::Note,
             .what = "persistence mode is off: " + names,
             .why = kWhy,
             .mend = "sudo systemctl enable --now nvidia-persistenced\n"
                     "or, until the next boot: sudo nvidia-smi -pm 1"}};
  }
  const bool is_told =
      std::ranges::all_of(facts.look.gpus, [](const GpuReading& gpu) { return !!gpu.persistent; });
  if (!is_told) return {};
  return {{.state = State::Ok, .what = "persistence mode is on", .why = kWhy}};
}

Findings compute_mode(const DoctorFacts& facts) {
  if (!has_gpus(facts)) return {};
  const std::vector<GpuReading>& gpus = facts.look.gpus;
  const auto is_closed = [](const GpuReading& gpu) {
    return gpu.compute_mode == kComputeProhibited;
  };
  const auto is_narrow = [](const GpuReading& gpu) {
    return gpu.compute_mode.value_or(0) != 0 && gpu.compute_mode != kComputeProhibited;
  };
  Findings findings;
  if (const std::string names = names_of(gpus, is_closed); !names.empty()) {
    findings.push_back({.state = State::Problem,
                        .what = names + ": computing is prohibited (compute mode)",
                        .why = "jobs on it fail as soon as they use CUDA",
                        .mend = commands_for(gpus, is_closed, "-c DEFAULT")});
  }
  if (const std::string names = names_of(gpus, is_narrow); !names.empty()) {
    findings.push_back({.state = State::Note,
                        .what = names + ": one process at a time (compute mode)",
                        .why = "a job with two processes on the same GPU fails; pergpu keeps jobs "
                               "apart without this mode",
                        .mend = commands_for(gpus, is_narrow, "-c DEFAULT")});
  }
  return findings;
}

// ---- other users ----

Findings outsiders(const DoctorFacts& facts) {
  if (!has_gpus(facts)) return {};
  Findings findings;
  for (const GpuReading& gpu : facts.look.gpus) {
    if (gpu.health != GpuHealth::Ok) continue;
    const auto holder = facts.leases.holders.find(gpu.uuid);
    const bool is_leased = holder != facts.leases.holders.end();
    // What computes under the uid of the lease is a job of that pergpu.
    const gpu::UseVerdict verdict = gpu::judge(
        gpu, {.in_container = facts.look.in_container,
              .running_ours = is_leased,
              .ours =
                  [&](const GpuProcess& process) {
                    return is_leased && process.uid && holder->second.uid == *process.uid;
                  },
              .user_name = [&](std::uint32_t uid) { return user_of(facts, uid); }});
    if (verdict.words.empty() || verdict.startable() || verdict.use == gpu::GpuUse::Ours) continue;
    findings.push_back(
        {.state = State::Note,
         .what = fmt::format("{}: {}", gpu_name(gpu), verdict.words),
         .why = "your jobs wait until it is free, unless their step sets foreign_processes "
                "= \"fit\" or \"ignore\"",
         .mend = ""});
  }
  if (facts.look.in_container) {
    findings.push_back({.state = State::Note,
                        .what = "a container with its own process IDs",
                        .why = "the driver reports the host's process IDs, so pergpu can't "
                               "identify the processes on a GPU",
                        .mend = "docker run --pid=host …"});
  }
  if (!findings.empty()) return findings;
  return {{.state = State::Ok,
           .what = "no process outside pergpu uses a GPU",
           .why = "jobs don't start on a GPU that other processes use"}};
}

Findings leases(const DoctorFacts& facts) {
  const LeaseFacts& leases = facts.leases;
  constexpr const char* kWhy = "users take turns on a GPU through lock files in one folder";
  if (!leases.error.empty()) {
    return {{.state = State::Problem,
             .what = leases.error,
             .why = kWhy,
             .mend = "sudo install -d -m 1777 /run/lock/pergpu"}};
  }
  if (!has_gpus(facts)) return {};
  if (leases.folder.empty()) {
    return {{.state = State::Ok, .what = "no GPU has been leased since boot", .why = kWhy}};
  }
  Findings findings;
  for (const std::string& fault : leases.faults) {
    findings.push_back(
        {.state = State::Problem,
         .what = fault,
         .why = "no user can lease that GPU",
         .mend = fmt::format("check the owner, then remove it: ls -l {}", leases.folder)});
  }
  std::string mine;
  for (const GpuReading& gpu : facts.look.gpus) {
    const auto holder = leases.holders.find(gpu.uuid);
    if (holder == leases.holders.end()) continue;
    if (holder->second.uid == facts.uid) {
      mine += (mine.empty() ? "" : ", ") + gpu_name(gpu);
      continue;
    }
    const std::string user =
        holder->second.uid ? user_of(facts, *holder->second.uid) : std::string("another user");
    const bool has_turns = gpu::is_pergpu(holder->second);
    findings.push_back(
        {.state = State::Note,
         .what = fmt::format("{}: {}", gpu_name(gpu),
                             gpu::lease_words(holder->second, facts.uid, user)),
         .why = has_turns ? "your jobs get a turn on it when a job there ends"
                          : "your jobs don't start on it while that process holds the lock",
         .mend = has_turns ? std::string()
                           : fmt::format("ask {} to end process {}", user,
                                         holder->second.pid.value_or(0))});
  }
  if (leases.is_chosen) {
    findings.push_back({.state = State::Note,
                        .what = fmt::format("leases are in {} (PERGPU_LOCKS)", leases.folder),
                        .why = "you and users of another folder don't see each other's leases",
                        .mend = "unset PERGPU_LOCKS, unless all users set the same folder"});
  } else if (leases.owner != 0 && leases.owner != facts.uid) {
    findings.push_back(
        {.state = State::Note,
         .what = fmt::format("{} belongs to {}", leases.folder, user_of(facts, leases.owner)),
         .why = "the owner of the folder can replace other users' locks",
         .mend = fmt::format("echo 'd {} 1777 root root -' | sudo tee /etc/tmpfiles.d/pergpu.conf; "
                             "sudo systemd-tmpfiles --create",
                             leases.folder)});
  }
  if (!findings.empty()) return findings;
  return {{.state = State::Ok,
           .what = mine.empty() ? fmt::format("{}: no GPU is leased", leases.folder)
                                : fmt::format("{}: you have {}", leases.folder, mine),
           .why = kWhy}};
}

Findings devices(const DoctorFacts& facts) {
  if (!has_gpus(facts) || !facts.visible_devices) return {};
  constexpr const char* kWhy =
      "`run` and `submit` use this shell's CUDA_VISIBLE_DEVICES as --devices";
  const Result<std::vector<std::string>> chosen =
      gpu::select_gpus(facts.look, *facts.visible_devices, "CUDA_VISIBLE_DEVICES");
  if (!chosen) {
    return {{.state = State::Problem,
             .what = chosen.error().message,
             .why = kWhy,
             .mend = "unset CUDA_VISIBLE_DEVICES"}};
  }
  return {{.state = State::Note,
           .what = fmt::format("CUDA_VISIBLE_DEVICES={} in this shell: {} of {}",
                               *facts.visible_devices, chosen->size(),
                               counted(facts.look.gpus.size(), "GPU")),
           .why = kWhy,
           .mend = "unset CUDA_VISIBLE_DEVICES   # to use all GPUs"}};
}

constexpr Check kGpuChecks[] = {
    {"driver", driver},
    {"gpu", health},
    {"xid", xid},
    {"mig", mig},
    {"persistence", persistence},
    {"compute-mode", compute_mode},
    {"outsiders", outsiders},
    {"leases", leases},
    {"devices", devices},
};

}  // namespace

std::span<const Check> gpu_checks() { return kGpuChecks; }

}  // namespace pergpu::cli
