// Slurm's commands, called and understood.  Every call blocks, for a minute at most: for a thread
// that may wait (run/errands.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "result.h"
#include "slurm/slurm_queue.h"

namespace pergpu::slurm {

struct SubmitCall {
  std::string script = {};  // its text: what sbatch reads by a name could be replaced before
  std::vector<std::string> environment = {};  // NAME=value: what sbatch hands on to the job
  std::string cwd = {};
  std::uint32_t umask = 022;
};

struct ArrayTask {
  std::int64_t array = 0;
  std::int32_t index = 0;
  auto operator<=>(const ArrayTask&) const = default;
};
/// "12_3"
std::string to_string(const ArrayTask& task);

class Client {
 public:
  /// A further PATH, for programs that this process's own does not lead to: a coordinator may have
  /// been started by a shell without Slurm's module, and be asked by one that has loaded it.  May
  /// be said more than once; the first that has a program counts.  Not while another thread calls.
  void search_also(std::string path);
  /// The file of one of Slurm's programs; "": there is none.
  std::string find(const std::string& program) const;

  /// Slurm's number of the job.  Invalid: refused for good, with sbatch's words; Full: too many
  /// jobs or requests for now; Unavailable: the controller has surely not taken it for another
  /// reason; anything else: it may have.  sbatch may also be in the PATH of the call alone.
  Result<std::int64_t> submit(const SubmitCall& submit);
  /// All of this user's jobs that Slurm knows of, ended ones for some minutes, too.
  Result<std::vector<QueueRecord>> queue();
  /// The steps that run in an allocation of this user's.
  Result<std::vector<QueueRecord>> steps(const std::string& allocation);
  /// What the accounting knows of the tasks of these arrays.
  Result<std::vector<QueueRecord>> accounting(const std::vector<std::int64_t>& arrays);
  /// Those of them that wait, and no others of their arrays.
  Result<void> cancel_pending(const std::vector<ArrayTask>& tasks);
  /// All of its tasks that wait.
  Result<void> cancel_pending(std::int64_t array);
  /// What was held in the queue may run.
  Result<void> release(const std::vector<ArrayTask>& tasks);
  /// To the script's process of those that run.
  Result<void> signal(const std::vector<ArrayTask>& tasks, const std::string& signal);
  /// A task that runs is ended and put back into the queue, where it waits some two minutes.
  Result<void> requeue(const std::string& id);
  Result<Config> config();
  /// What `scontrol show` prints of {"job", "17"}, say.
  Result<std::string> show(const std::vector<std::string>& what);

  /// Requests to the controller so far, by program.
  const std::map<std::string, std::int64_t>& requests() const { return requests_; }

 private:
  struct Said;
  Result<Said> call(std::vector<std::string> argv, const SubmitCall* submit);
  /// `scontrol hold` or `release`, asked for some at once: those of them that were found.
  Result<std::vector<std::string>> control(const std::string& verb,
                                           const std::vector<ArrayTask>& tasks);
  /// scancel; what it cannot do is no failure, only what it could not ask.
  Result<void> cancel(const std::vector<std::string>& ids, const std::vector<std::string>& argv);

  std::map<std::string, std::int64_t> requests_;
  std::vector<std::string> more_paths_;  // none of them twice
};

}  // namespace pergpu::slurm
