// The one live attempt of a keeper: spawned, watched, ended, reaped.
//
// Life: begin() -> running -> first process reaped -> nothing left below the keeper -> finished().
// What the first process leaves behind has a tenth of a second to end with it, as helpers do that
// see the end of a pipe; then it gets TERM, and KILL two seconds later (or after the plan's grace,
// if that is shorter), so that it does not hold up the lane.  What had to be ended is reported,
// unless the attempt was stopped: it may have been the work itself.  stop(): TERM to the job's
// process group, the plan's grace, then KILL to the attempt's control group, if it has one, and to
// everything below the keeper. Time is an argument (CLOCK_BOOTTIME).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "keeper/protocol.h"
#include "keeper/quiet.h"
#include "os/fd.h"
#include "os/fs/folder_walk.h"
#include "os/process/cgroup.h"
#include "os/process/child.h"

namespace pergpu::keeper {

class Attempt {
 public:
  /// Starts the program; its folder `out` is prepared.  `leases` are inherited by it and held here
  /// until the attempt has finished, and so are the locks of its folder. `group`: where it runs,
  /// borrowed until the attempt has finished; nullptr: none.
  static std::variant<Attempt, SpawnFailed> begin(Start plan, os::HeldFolder out,
                                                  std::vector<os::UniqueFd> leases,
                                                  const os::Cgroup* group,
                                                  std::vector<os::UniqueFd> folder_locks = {});

  AttemptId id() const { return plan_.id; }
  Started started() const;
  const Start& plan() const { return plan_; }
  std::vector<int> lease_fds() const;

  /// A child of the keeper was reaped.
  void on_reaped(const os::Reaped& child, Instant now);
  /// The keeper has no child any more: with the first process reaped, all of the tree is gone.
  bool first_has_ended() const { return first_.has_value(); }
  void stop(bool kill, std::int64_t now_ns);
  /// To its process group; only the first of them is sent.
  void signal(int number);

  /// Readable when the group's memory limit was reached; -1: nothing to wait for.
  int memory_fd() const { return memory_event_.get(); }
  /// It is.  What is left of a program whose parts the kernel ends is of no use: all of it ends,
  /// unless it is another group's limit that was reached.
  void on_memory(std::int64_t now_ns);

  /// Does what is due: kills, samples memory, looks for output.  Returns messages for the
  /// coordinator.
  std::vector<std::variant<Memory, Notify, Quiet>> on_time(std::int64_t now_ns);
  std::optional<std::int64_t> next_time() const;
  /// What is left although it was killed, as text; "" as long as nothing is known to resist.
  const std::string& resists() const { return resists_; }

  /// Its group was killed, and serves no other attempt: Linux (6.18) kills what is born in a v2
  /// group that `cgroup.kill` was once written to.
  bool has_killed_group() const { return group_ != nullptr && kill_again_after_ns_ != 0; }

  /// REQUIRES: first_has_ended(), nothing of the tree is left.
  Exited finish();

 private:
  Attempt() = default;
  void enter(const os::Cgroup* group, bool is_grouped);
  std::optional<std::int64_t> leftovers_due() const;
  void end_leftovers(std::int64_t now_ns);
  std::optional<Memory> sample_memory();
  std::optional<Notify> complain(std::int64_t now_ns);
  void watch_quiet(os::UniqueFd log);
  std::vector<Quiet> look_for_quiet();
  std::int64_t tree_cpu_ns() const;

  Start plan_;
  std::vector<os::UniqueFd> leases_;
  std::vector<os::UniqueFd> folder_locks_;
  pid_t pid_ = 0;
  std::uint64_t start_ticks_ = 0;
  timespec stamp_ = {};
  const os::Cgroup* group_ = nullptr;
  bool memory_is_held_ = false;  // by the group; else it is watched
  bool cpu_is_held_ = false;
  os::UniqueFd memory_event_;
  bool memory_ran_out_ = false;

  std::optional<os::ExitStatus> first_;
  Instant ended_at_ = {};
  std::int64_t cpu_ns_ = 0;
  std::uint64_t peak_bytes_ = 0;
  bool leftovers_told_ = false;
  bool stop_was_asked_ = false;
  std::int32_t left_count_ = 0;  // Exited::left_count
  std::vector<std::string> left_names_;

  std::optional<std::int64_t> kill_at_ns_;  // everything below the keeper is killed then
  std::int64_t kill_again_after_ns_ = 0;
  std::optional<std::int64_t> complain_at_ns_;
  std::string resists_;
  std::optional<std::int64_t> sample_at_ns_;
  int samples_ = 0;
  bool signalled_ = false;
  os::UniqueFd log_;  // only where output is watched
  std::optional<QuietWatch> quiet_;
};

}  // namespace pergpu::keeper
