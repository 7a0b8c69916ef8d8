// The hidden `slurm-task FOLDER`: what a task of an array executes on its node, or, with --step, a
// step of an allocation.  It has its own home on the node's own disk, which is removed with it.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "daemon/main_loop.h"
#include "number.h"
#include "os/fs/file.h"
#include "os/process/paths.h"
#include "os/random.h"

namespace pergpu::cli {
namespace {

Result<std::int32_t> task_index() {
  const std::string text = os::environment_variable("SLURM_ARRAY_TASK_ID");
  const std::optional<std::int32_t> task = whole_number<std::int32_t>(text);
  if (task && *task >= 0) return *task;
  return Error{ErrorKind::Invalid, 0,
               fmt::format("SLURM_ARRAY_TASK_ID is `{}`, which is not a task number: only a task "
                           "of a Slurm array runs this command",
                           text)};
}

/// A folder of this task, new and empty: an earlier start of the same one may have left it.  Others
/// can predict its name; where one of them has taken it, it gets another.
Result<std::string> make_home(const std::string& handover, std::int32_t task) {
  std::string folder = os::environment_variable("TMPDIR");
  if (folder.empty() || folder.front() != '/') folder = "/tmp";
  const std::string name = os::name_hash(fmt::format("{}/{}", handover, task));
  const std::string home = fmt::format("{}/pergpu-{}-{}", folder, ::getuid(), name);
  if (os::remove_tree(home) && ::mkdir(home.c_str(), 0700) == 0) return home;
  const std::string other = home + "-" + os::random_hex(8);
  if (::mkdir(other.c_str(), 0700) < 0) return os_error("mkdir " + other);
  return other;
}

/// 0 where Slurm says nothing of it.
std::int32_t restart_count() {
  return std::atoi(os::environment_variable("SLURM_RESTART_COUNT").c_str());
}

int run_task(const std::string& folder, bool is_step) {
  const Result<std::int32_t> task = is_step ? Result<std::int32_t>(0) : task_index();
  if (!task) return fail(task.error());
  const Result<std::string> home = make_home(folder, *task);
  if (!home) return fail(home.error());
  const std::string run_dir = *home + "/run";
  if (::mkdir(run_dir.c_str(), 0700) < 0) return fail(os_error("mkdir " + run_dir));
  // In an allocation Slurm says whose a GPU is, and two of them may call different GPUs "0".
  const std::string locks = *home + "/locks";
  if (::mkdir(locks.c_str(), 0700) < 0) return fail(os_error("mkdir " + locks));
  const int code = coordinator_main(
      {.home = *home,
       .run_dir = run_dir,
       .locks = locks,
       .task = TaskOptions{
           .folder = folder,
           .task = *task,
           .restarts = is_step ? 0 : restart_count(),
           .id = is_step ? std::string()
                         : fmt::format("{}_{}", os::environment_variable("SLURM_ARRAY_JOB_ID"),
                                       *task)}});
  if (Result<void> removed = os::remove_tree(*home); !removed) say(removed.error().message);
  return code;
}

}  // namespace

void add_slurm_task(CLI::App& program, Invocation& invocation) {
  auto folder = std::make_shared<std::string>();
  auto is_step = std::make_shared<bool>(false);
  CLI::App* command =
      program.add_subcommand("slurm-task", "run jobs that pergpu submitted to Slurm")->group("");
  command->add_option("folder", *folder, "folder of the submission")->required();
  command->add_flag("--step", *is_step, "run as a step of an allocation, with one task");
  command->callback([folder, is_step, &invocation] {
    invocation.action = [folder, is_step] { return run_task(*folder, *is_step); };
  });
}

}  // namespace pergpu::cli
