// What pergpu itself stands on: control groups, what a logout or a reboot does to it, its home, its
// programs, its coordinator.
#include <fmt/format.h>

#include <string>

#include "cli/care/reboot_start.h"
#include "cli/doctor/doctor_checks.h"
#include "view/text/shell_words.h"

namespace pergpu::cli {
namespace {

using State = view::FindingState;

Findings cgroups(const DoctorFacts& facts) {
  const os::CgroupSite& groups = facts.groups;
  constexpr const char* kWhy =
      "with cgroups, the kernel enforces `memory` and `cpus` and ends all processes of a job. "
      "Without them, pergpu samples memory and searches for a job's processes";
  if (groups.memory && groups.cpu && groups.track) {
    return {{.state = State::Ok, .what = groups.words, .why = kWhy}};
  }
  // Only a person can say "none".
  const bool is_mendable = facts.has_user_manager && !groups.words.starts_with("PERGPU_CGROUP");
  std::string mend;
  if (is_mendable) {
    mend =
        "pergpu coordinator enable   # a unit with Delegate=yes\n"
        "or, this time only: pergpu coordinator stop; systemd-run --user --scope -p Delegate=yes "
        "pergpu ps";
  }
  return {{.state = is_mendable ? State::Warning : State::Note,
           .what = groups.words,
           .why = kWhy,
           .mend = std::move(mend)}};
}

constexpr const char* kLingerOn = "loginctl enable-linger";

Findings logout(const DoctorFacts& facts) {
  constexpr const char* kWhy = "jobs should keep running after a logout";
  if (!facts.has_systemd) {
    return {{.state = State::Ok, .what = "no systemd: a logout ends nothing", .why = kWhy}};
  }
  switch (facts.keeping) {
    case os::Keeping::Nobody:
    case os::Keeping::System:
      return {{.state = State::Ok, .what = "a logout ends nothing", .why = kWhy}};
    case os::Keeping::UserManager:
      if (facts.lingers) {
        return {{.state = State::Ok,
                 .what = "your systemd user manager stays (lingering): a logout ends nothing",
                 .why = kWhy}};
      }
      return {{.state = State::Warning,
               .what = "your systemd user manager ends with your last session and ends pergpu too",
               .why = "the jobs end too; the next pergpu command starts them again",
               .mend = kLingerOn}};
    case os::Keeping::Session:
      break;
  }
  if (!facts.logout_ends) {
    return {{.state = State::Unknown,
             .what = "logind's files don't show whether a logout ends your processes",
             .why = kWhy,
             .mend = "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 "
                     "org.freedesktop.login1.Manager KillUserProcesses"}};
  }
  if (!*facts.logout_ends) {
    return {{.state = State::Ok,
             .what = "a logout ends nothing (logind: KillUserProcesses=no)",
             .why = kWhy}};
  }
  return {
      {.state = State::Warning,
       .what = "a logout ends the coordinator and all jobs (logind: KillUserProcesses=yes)",
       .why =
           "your jobs stop until the next pergpu command starts them again; their records are kept",
       .mend =
           fmt::format("pergpu coordinator enable   # then run what it prints\n{}", kLingerOn)}};
}

Findings reboot(const DoctorFacts& facts) {
  constexpr const char* kWhy =
      "otherwise the queue continues only once you run a pergpu command after a reboot";
  if (!facts.has_systemd) {
    return {{.state = State::Note,
             .what = "no systemd: nothing starts the coordinator after a reboot",
             .why = kWhy,
             .mend = fmt::format(
                 "(crontab -l; printf '%s\\n' {}) | crontab -",
                 view::shell_word(cron_line(facts.program, facts.environment_after_reboot)))}};
  }
  const UnitFacts& unit = facts.unit;
  if (!unit.is_there) {
    return {{.state = State::Note,
             .what = "nothing starts the coordinator after a reboot",
             .why = kWhy,
             .mend = fmt::format("pergpu coordinator enable   # then run what it prints\n{}",
                                 kLingerOn)}};
  }
  if (!unit.program_is_there) {
    return {{.state = State::Warning,
             .what = fmt::format("{} starts {}, which does not exist", unit.path,
                                 unit.program.empty() ? std::string("nothing") : unit.program),
             .why = kWhy,
             .mend = "pergpu coordinator enable   # then run what it prints"}};
  }
  if (!unit.is_enabled) {
    return {{.state = State::Note,
             .what = unit.path + " is not enabled",
             .why = kWhy,
             .mend = "systemctl --user enable --now pergpu.service"}};
  }
  if (!facts.lingers) {
    return {{.state = State::Note,
             .what = "the coordinator starts at your first login after a reboot",
             .why = "without lingering, your services don't start before you log in",
             .mend = kLingerOn}};
  }
  return {{.state = State::Ok,
           .what = fmt::format("{} starts the coordinator", unit.path),
           .why = kWhy}};
}

constexpr std::uint64_t kLittleRoom = 1024 * kMiB;
constexpr std::uint64_t kNoRoom = 64 * kMiB;

Findings home(const DoctorFacts& facts) {
  constexpr const char* kWhy =
      "pergpu keeps its queue and history there and starts nothing without them";
  constexpr const char* kElsewhere = "export PERGPU_HOME=/a/local/folder";
  if (!facts.home.error.empty()) {
    return {{.state = State::Problem, .what = facts.home.error, .why = kWhy, .mend = kElsewhere}};
  }
  const FolderFacts& folder = facts.home.folder;
  Findings findings;
  if (folder.type == "tmpfs" || folder.type == "ramfs") {
    findings.push_back({.state = State::Warning,
                        .what = fmt::format("{} is in memory ({})", folder.path, folder.type),
                        .why = "a reboot or a power failure deletes the queue and the history",
                        .mend = kElsewhere});
  }
  if (folder.space && folder.space->free_bytes < kLittleRoom) {
    findings.push_back(
        {.state = folder.space->free_bytes < kNoRoom ? State::Problem : State::Warning,
         .what = fmt::format("{}: {} free", folder.path, bytes_text(folder.space->free_bytes)),
         .why = "no job starts while the store can't be written",
         .mend = fmt::format("df -h {0}; du -xsh {0}/* | sort -h", folder.path)});
  }
  if (folder.space && folder.space->total_files > 0 && folder.space->free_files < 1000) {
    findings.push_back(
        {.state = State::Warning,
         .what = fmt::format("{}: room for {} more files", folder.path, folder.space->free_files),
         .why = "no job starts while the store can't be written",
         .mend = fmt::format("df -i {}", folder.path)});
  }
  if (!facts.home.why_elsewhere.empty()) {
    findings.push_back(
        {.state = State::Note,
         .what = fmt::format("home is {}: {}", folder.path, facts.home.why_elsewhere),
         .why = "locks and the store are reliable only on a local file system",
         .mend = kElsewhere});
  }
  if (!findings.empty()) return findings;
  return {{.state = State::Ok,
           .what = fmt::format(
               "{} ({}{})", folder.path, folder.type.empty() ? "unknown file system" : folder.type,
               folder.space ? fmt::format(", {} free", bytes_text(folder.space->free_bytes))
                            : std::string()),
           .why = kWhy}};
}

Findings programs(const DoctorFacts& facts) {
  constexpr const char* kWhy = "each job runs under a keeper, a separate program";
  if (facts.keeper.empty()) {
    return {{.state = State::Problem,
             .what = facts.keeper_error,
             .why = kWhy,
             .mend = "install pergpu again: cmake --install build/release"}};
  }
  return {{.state = State::Ok,
           .what = fmt::format("pergpu {}, {}", facts.version, facts.keeper),
           .why = kWhy}};
}

Findings job(const DoctorFacts& facts) {
  constexpr const char* kWhy =
      "it needs all of pergpu but a GPU: coordinator, keeper, store, folders";
  if (!facts.job) return {};
  if (!facts.job->complaint.empty()) {
    return {{.state = State::Problem,
             .what = "a test job failed: " + facts.job->complaint,
             .why = kWhy,
             .mend = "pergpu run --lanes 1 -- true   # the same in your home"}};
  }
  return {{.state = State::Ok,
           .what = fmt::format("a test job took {:.1f} s", facts.job->seconds),
           .why = kWhy}};
}

Findings python(const DoctorFacts& facts) {
  constexpr const char* kWhy = "programs that use pergpu.Executor, Sweep, share or log need it";
  const PythonTrial& trial = facts.python;
  if (trial.python.empty())
    return {{.state = State::Note, .what = "no python3 in PATH", .why = kWhy}};
  const std::string mend =
      fmt::format("{} -m pip install pergpu-{}-*.whl", trial.python, facts.version);
  if (trial.version.empty()) {
    return {{.state = State::Note,
             .what = fmt::format("{} doesn't have the package pergpu", trial.python),
             .why = kWhy,
             .mend = mend}};
  }
  std::string wrong;
  if (trial.version != facts.version) {
    wrong = fmt::format("{} has the package of pergpu {}, this is {}", trial.python, trial.version,
                        facts.version);
  } else if (!trial.complaint.empty()) {
    wrong = fmt::format("{}: {}", trial.python, trial.complaint);
  }
  if (!wrong.empty())
    return {{.state = State::Warning, .what = std::move(wrong), .why = kWhy, .mend = mend}};
  return {{.state = State::Ok,
           .what = fmt::format("{} has the package and its compiled part", trial.python),
           .why = kWhy}};
}

Findings coordinator(const DoctorFacts& facts) {
  const CoordinatorFacts& it = facts.coordinator;
  constexpr const char* kWhy = "it decides which job starts where; jobs keep running without it";
  switch (it.state) {
    case CoordinatorFacts::State::None:
      return {
          {.state = State::Ok, .what = "not running; the next command starts one", .why = kWhy}};
    case CoordinatorFacts::State::Silent:
      return {{.state = State::Problem,
               .what = it.why,
               .why = "running jobs continue, but no new job starts",
               .mend = "pergpu coordinator status\n"
                       "if that fails too: kill its process; the next command starts another one, "
                       "which takes over the jobs"}};
    case CoordinatorFacts::State::Runs:
      break;
  }
  Findings findings;
  if (!it.store.empty()) {
    findings.push_back({.state = State::Problem,
                        .what = "it can't write its store: " + it.store,
                        .why = "no job starts until it can; running jobs continue",
                        .mend = "df -h " + facts.home.folder.path});
  }
  if (it.version != facts.version) {
    findings.push_back({.state = State::Note,
                        .what = fmt::format("version {} is running (pid {}), but this is {}",
                                            it.version, it.pid, facts.version),
                        .why = "it keeps working, without the changes in this version",
                        .mend = "pergpu coordinator stop   # jobs keep running; the next command "
                                "starts this version"});
  }
  if (!findings.empty()) return findings;
  return {{.state = State::Ok, .what = fmt::format("running (pid {})", it.pid), .why = kWhy}};
}

constexpr Check kOwnChecks[] = {
    {"cgroups", cgroups},   {"logout", logout}, {"reboot", reboot}, {"home", home},
    {"programs", programs}, {"job", job},       {"python", python}, {"coordinator", coordinator},
};

}  // namespace

std::span<const Check> own_checks() { return kOwnChecks; }

Findings examine(const DoctorFacts& facts) {
  Findings all;
  for (const std::span<const Check> checks : {gpu_checks(), machine_checks(), own_checks()}) {
    for (const Check& check : checks) {
      for (view::Finding& finding : check.examine(facts)) {
        finding.check = check.name;
        all.push_back(std::move(finding));
      }
    }
  }
  return all;
}

}  // namespace pergpu::cli
