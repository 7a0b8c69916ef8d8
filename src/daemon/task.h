// A task: the coordinator of an allocation, which runs what another one handed over to a cluster.
//
// It begins with the handover and what earlier lives of the task have reported, decides like any
// other coordinator, reports every event by files (store/record_store.h), and leaves when all of it
// has ended.  What the cluster does to it reaches it by signals:
//   SIGTERM   the cluster ends it (scancel, preemption, shutdown): everything is stopped, and the
//             coordinator that asks the cluster decides what became of its jobs
//   SIGUSR1   the other coordinator asks that some of its jobs end (store/end_request.h)
//   SIGUSR2   its time is nearly up: what runs is ended by `timeout`
// It looks for such requests itself, too: a signal may be here before the file can be seen, and a
// step of an allocation gets none but for its end.
//
// What is queued when the time is up, or does not suffice for another attempt, waits for the task's
// next life: the task asks the cluster to put it back into the queue, and what waits for it there
// goes on waiting.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "os/loop.h"
#include "run/errands.h"
#include "store/handover.h"
#include "store/record_store.h"

namespace pergpu {

struct TaskOptions {
  std::string folder = {};  // of the handover, absolute
  std::int32_t task = 0;
  std::int32_t restarts = 0;  // how often the cluster has put it back into its queue
  std::string id = {};        // as the cluster calls it: "4711_2"; "": it is a step
};

class Task {
 public:
  /// NotFound, Corrupt: there is no such handover, or task in it.  Waits up to a minute for the
  /// records of what its jobs need, but for none of a job that is to end; jobs whose needs are not
  /// done are left alone: who handed them over decides about them when the task has ended.
  static Result<Task> read(TaskOptions options);

  /// An earlier life has reported all there is; nothing is to be done.
  bool is_closed() const { return closed_; }
  /// 0: its jobs are done, or whether they are is in the records alone (`jobs_each`).
  int exit_code(const World& world) const;

  /// Before anything is reported.
  Result<std::unique_ptr<RecordStore>> open_store();
  /// Once a turn, before anything is started: nothing more is where no time is left for it.
  void mind_time(Coordinator& core);
  /// Once a turn: true when it is to leave.
  bool should_leave(const Coordinator& core) const;
  /// Jobs that were to end before the task began, and from then on.
  void begin(Coordinator& core, os::Loop& loop, Errands& errands) const;
  /// What runs is reported every few seconds, from now on.
  void tell_present(Coordinator& core, os::Loop& loop, Errands& errands) const;
  void on_signal(int signal, Coordinator& core, RecordStore& store);
  /// The last word on the shared file system.  Blocks for a minute at most.
  Result<void> finish(RecordStore& store, const World& world) const;

 private:
  void look(Coordinator& core, os::Loop& loop, Errands& errands) const;
  bool has_queued(const World& world) const;

  TaskOptions options_;
  store::Handover handover_;
  std::vector<store::Record> told_;
  std::int32_t life_ = 1;
  mode_t mode_ = 0600;  // of the files by which it reports
  bool closed_ = false;
  bool ended_ = false;  // by the cluster
  bool time_is_up_ = false;
  bool winds_down_ = false;    // nothing more is started
  std::int64_t began_ns_ = 0;  // by the boot clock
};

}  // namespace pergpu
