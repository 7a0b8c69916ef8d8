// --exact: else a step takes all cores of the job on its node, and the next one waits.  --mem=0:
// else each asks for all of the job's memory.  --overlap would share the GPUs, too.
#include "slurm/slurm_steps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string_view>
#include <utility>

#include "job/output_root.h"
#include "os/fd.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/process/proc.h"
#include "slurm/slurm_environment.h"
#include "slurm/slurm_script.h"

namespace pergpu::slurm {
namespace {

constexpr char kNameOption[] = "--job-name=";

/// Names of the steps that some srun on this machine is there for.
std::set<std::string> names_of_live_calls(const std::string& allocation) {
  const std::string of_allocation = "--jobid=" + allocation;
  std::set<std::string> out;
  for (const pid_t pid : os::all_processes()) {
    const Result<std::string> text = os::read_file(fmt::format("/proc/{}/cmdline", pid), 1u << 20);
    if (!text || text->find(of_allocation) == std::string::npos) continue;
    const std::string words = '\0' + *text;
    const std::string option = '\0' + std::string(kNameOption);
    const std::size_t at = words.find(option);
    const bool is_call = words.find('\0' + of_allocation + '\0') != std::string::npos;
    if (!is_call || at == std::string::npos) continue;
    const std::size_t begin = at + option.size();
    out.insert(words.substr(begin, words.find('\0', begin) - begin));
  }
  return out;
}

}  // namespace

std::vector<std::string> step_argv(const StepCall& call, const std::string& allocation) {
  std::vector<std::string> out = {"srun",
                                  "--jobid=" + allocation,
                                  kNameOption + call.name,
                                  "--exact",
                                  "--mem=0",
                                  "--nodes=1",
                                  "--ntasks=1",
                                  "--nodelist=" + call.node,
                                  fmt::format("--cpus-per-task={}", call.cpus),
                                  call.gpus > 0 ? gres_option(call.gpu, call.gpus) : "--gres=none",
                                  "--chdir=" + call.cwd,
                                  "--input=none",
                                  "--output=" + file_name_option(call.output),
                                  "--open-mode=append",
                                  "--export=ALL",
                                  "--quiet"};
  out.insert(out.end(), call.command.begin(), call.command.end());
  return out;
}

Result<std::vector<AllocationNode>> Steps::nodes() {
  const Result<std::string> text = client_.show({"job", "-d", allocation_});
  if (!text) return text.error();
  return parse_allocation(*text);
}

Result<std::shared_ptr<os::Spawned>> Steps::start(const StepCall& call) {
  os::SpawnPlan plan{.argv = step_argv(call, allocation_),
                     .env = step_environment(call.environment),
                     .cwd = call.cwd,
                     .new_session = true,
                     .umask = call.umask};
  // Not by the PATH of the sweep, which may be for other machines.
  const std::string program = client_.find("srun");
  if (program.empty()) return Error{ErrorKind::Unavailable, 0, "there is no srun in PATH"};
  plan.argv.front() = program;
  const Result<os::HeldName> output =
      os::walk_below(output_root_of(os::parent_of(call.output)), call.output);
  if (!output) return output.error();
  const os::UniqueFd said(::openat(
      output->folder.fd(), output->name.c_str(),
      O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666 & ~call.umask));
  if (!said) return os_error("open " + call.output);
  struct stat info = {};
  if (::fstat(said.get(), &info) < 0) return os_error("stat " + call.output);
  const bool is_ours = info.st_uid == ::geteuid() || info.st_uid == 0;
  if (!S_ISREG(info.st_mode) || info.st_nlink != 1 || !is_ours)
    return os_error("open " + call.output, EINVAL);
  plan.stdout_fd = said.get();
  plan.stderr_fd = said.get();
  os::SpawnResult result = os::spawn(plan);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result)) {
    return os_error("start " + program, failure->os_errno);
  }
  return std::make_shared<os::Spawned>(std::get<os::Spawned>(std::move(result)));
}

Result<std::vector<QueueRecord>> Steps::list() {
  // Before Slurm is asked: what is in neither list has ended.
  std::set<std::string> called = names_of_live_calls(allocation_);
  Result<std::vector<QueueRecord>> out = client_.steps(allocation_);
  if (!out) return out;
  for (const QueueRecord& step : *out) called.erase(step.comment);
  for (const std::string& name : called) {
    out->push_back({.array_job_id = std::atoll(allocation_.c_str()),
                    .tasks = {0},
                    .state = "PENDING",
                    .reason = "Resources",
                    .comment = name});
  }
  return out;
}

}  // namespace pergpu::slurm
