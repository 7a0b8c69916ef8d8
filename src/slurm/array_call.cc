// Slurm counts time in minutes and may send a signal up to a minute early, so an allocation is
// asked for longer than its jobs may take.
#include "slurm/array_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <utility>

#include "job/output_root.h"
#include "job/text.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "run/environment.h"
#include "slurm/slurm_words.h"
#include "store/result_file.h"

namespace pergpu {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSpare{120'000};
constexpr milliseconds kWarningBesideGrace{60'000};

/// How often one lane of a task runs a job, at most.
std::int64_t rounds(const ArrayPlan& plan) {
  std::map<std::int32_t, std::int64_t> jobs;
  std::int64_t most = 0;
  for (const store::HandedJob& job : plan.handover.jobs) most = std::max(most, ++jobs[job.task]);
  return (most + plan.handover.lanes - 1) / plan.handover.lanes;
}

}  // namespace

ArrayCall array_call(const Sweep& sweep, const ArrayPlan& plan, const std::string& folder,
                     const std::string& pergpu, const std::string& environment) {
  const StepSpec& step = sweep.steps[static_cast<std::size_t>(plan.step.step)].spec;
  const int lanes = step.slurm.lanes;
  ArrayCall call{.environment = entries_of(environment),
                 .umask = sweep.context.umask,
                 .owner = plan.handover.from};
  slurm::ArrayRequest& r = call.request;
  r.name = sweep.name + "/" + step.name;
  r.comment = plan.handover.key;
  r.folder = folder;
  r.cwd = sweep.spec.folder;
  r.command = {pergpu, "slurm-task", folder};
  r.tasks = plan.tasks;
  r.most_at_once = plan.most_at_once;
  r.gpus = step.gpus * lanes;
  r.gpu = step.gpu;
  r.cpus = step.cpus.value_or(0) * lanes;
  if (step.memory_bytes) {
    r.memory_bytes = grown(*step.memory_bytes, step.grow.memory, plan.growths.memory, 0) *
                     static_cast<std::uint64_t>(lanes);
  }
  const milliseconds warning = step.grace + kWarningBesideGrace;
  r.time = step.slurm.time;
  if (!r.time && step.timeout) r.time = *step.timeout * rounds(plan) + warning + kSpare;
  r.warning_s = static_cast<int>(
      std::chrono::ceil<std::chrono::seconds>(r.time ? std::min(warning, *r.time / 4) : warning)
          .count());
  if (r.time && step.timeout) {
    const milliseconds left = *r.time - milliseconds(1000 * r.warning_s) - *step.timeout;
    call.last_start_ms = std::max<std::int64_t>(1, left.count());
  }
  r.dependency = plan.dependency;
  r.requeue = step.rerun;
  int highest = step.priority;
  for (const Step& other : sweep.steps) {
    if (other.listed) highest = std::max(highest, other.spec.priority);
  }
  r.nice = highest - step.priority;
  r.options = step.slurm;
  return call;
}

Result<void> make_handover(const std::string& folder, const std::string& owner,
                           const std::string& handover, std::int64_t umask) {
  const mode_t mode = handover_mode(umask);
  const auto held =
      os::make_below(output_root_of(folder), folder, static_cast<mode_t>(0777 & ~umask));
  Result<void> made = held ? Result<void>() : held.error();
  if (made) made = store::write_result_file(folder, kOwner, to_text(Owner{owner}), mode, true);
  if (!made) return made;
  return store::write_result_file(folder, store::kHandoverName, handover, mode, true);
}

Result<std::int64_t> send_array(slurm::Client& client, const ArrayCall& call,
                                const std::string& handover) {
  const std::string& folder = call.request.folder;
  const mode_t mode = handover_mode(call.umask);
  const std::string script = script_text(call.request);
  Result<void> made = make_handover(folder, call.owner, handover, call.umask);
  if (made) made = store::write_result_file(folder, kScript, script, mode, true);
  if (!made) return Error{ErrorKind::Unavailable, made.error().os_errno, made.error().message};
  const Result<void> may = check_claim(os::parent_of(folder), call.owner);
  Result<std::int64_t> number =
      may ? client.submit({.script = script,
                           .environment = call.environment,
                           .cwd = call.request.cwd,
                           .umask = static_cast<std::uint32_t>(call.umask)})
          : Result<std::int64_t>(may.error());
  // Of a folder that is noted as neither, the next coordinator asks the cluster.
  if (number) {
    const std::string note = fmt::format("{}\n", *number);
    (void)store::write_result_file(folder, kSubmitted, note, mode, true);
  } else if (surely_not_taken(number.error().kind)) {
    take_back(folder, call.umask);
  }
  return number;
}

void take_back(const std::string& folder, std::int64_t umask) {
  const mode_t mode = handover_mode(umask);
  (void)store::write_result_file(folder, kClosed, "", mode, true);
  const Result<os::HeldName> held = os::walk_below(output_root_of(folder), folder);
  if (held) (void)held->folder.remove_tree(held->name);
}

bool surely_not_taken(ErrorKind kind) {
  return kind == ErrorKind::Invalid || kind == ErrorKind::Unavailable || kind == ErrorKind::Full ||
         kind == ErrorKind::Busy;
}

std::string closed_name(std::int32_t task) { return fmt::format("{}.{}", kClosed, task); }

ClosedTasks closed_tasks(const std::vector<std::string>& names) {
  const std::string begin = std::string(kClosed) + ".";
  ClosedTasks out;
  for (const std::string& name : names) {
    if (name == kClosed) out.all = true;
    if (!name.starts_with(begin)) continue;
    std::int32_t task = -1;
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + begin.size(), end, task).ptr == end) out.some.insert(task);
  }
  return out;
}

TaskEnd task_end(const std::optional<slurm::QueueRecord>& seen, const std::string& name,
                 const std::string& output) {
  TaskEnd end;
  const auto lost = [&](std::string words) {
    end.words = std::move(words);
    end.evidence = {.lost = true, .lost_why = end.words};
  };
  if (!seen) {
    lost(fmt::format("{} ended without reporting a result, and Slurm has no record of it", name));
    return end;
  }
  const std::string& state = seen->state;
  if (state == "CANCELLED" || state == "DEADLINE") {
    end.words = fmt::format("{} was {} in Slurm", name,
                            state == "CANCELLED" ? "cancelled" : "ended at its deadline");
    end.evidence = {.stop = StopCause::Cancel, .stop_reason = end.words};
    // What it needed has failed: then it is skipped, in our words.
    end.cancels = seen->reason.find("Dependency") == std::string::npos;
  } else if (state == "TIMEOUT") {
    end.words = fmt::format("{} reached its time limit in Slurm", name);
    end.evidence = {.stop = StopCause::Timeout, .stop_reason = end.words};
  } else if (state == "OUT_OF_MEMORY") {
    end.words = fmt::format("{} was killed by Slurm: out of memory", name);
    end.evidence = {.signal = 9, .oom_kills = 1, .oom_at_limit = true};
  } else if (state == "NODE_FAIL" || state == "BOOT_FAIL" || state == "PREEMPTED" ||
             state == "REVOKED") {
    lost(fmt::format("{}: {}", name, slurm::state_words(state)));
  } else {
    const std::string how = seen->exit_code != 0 ? fmt::format(", exit {}", seen->exit_code)
                            : seen->signal != 0  ? fmt::format(", signal {}", seen->signal)
                                                 : std::string();
    lost(fmt::format("{} ended as {}{} without reporting a result; its output: {}", name, state,
                     how, output));
    end.holds = true;
  }
  return end;
}

TaskEnd step_end(const std::string& name, const std::string& output) {
  TaskEnd end{
      .words = fmt::format("{} ended without reporting a result; its output: {}", name, output),
      .holds = true};
  end.evidence = {.lost = true, .lost_why = end.words};
  return end;
}

}  // namespace pergpu
