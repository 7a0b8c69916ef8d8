// The keeper: parent of at most one live attempt at a time, reused from job to job.  It outlives
// the coordinator, remembers how attempts ended until the coordinator reports this as durable, and
// starts a new coordinator when its own is gone.
//
// It is the sub-reaper of everything it starts, so the tree of its attempt is exactly what is below
// it, and "wait says that there is no child" means "all of it is gone".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keeper/attempt.h"
#include "keeper/connection.h"
#include "keeper/files.h"
#include "keeper/notify.h"
#include "keeper/protocol.h"
#include "keeper/ready.h"
#include "keeper/record.h"
#include "keeper/revive.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process/cgroup.h"

namespace pergpu::keeper {

struct Options {
  Files::Options files = {};
  bool ends_alone = false;  // with its coordinator, and ends its attempt first: no other one comes
  std::string pergpu = {};  // program for `coordinator run`; empty: none is started
  os::CgroupSite groups = {};  // where the groups of attempts are made
};

class Keeper {
 public:
  explicit Keeper(Options options);
  /// Serves until there is nothing left to keep.  Returns the exit code of the program.
  int run();

 private:
  enum class AfterLoss { Revive, Wait };

  void wait_for_events();
  void on_children();
  void accept_connection();
  void on_connection(short events);
  void leave_alone(std::int64_t now);
  void leave_to_itself(std::int64_t now);
  void on_frame(const Connection::Frame& frame);
  void on_notify();
  void on_time();
  void lose_connection();

  void hello();
  void prepare(const Prepare& request);
  void start(Start request);
  void stop(const Stop& request);
  void signal(const Signal& request);
  void forget(const Forget& request);
  void quit(const Quit& request);

  void restore_files(const std::string& folder);
  const os::Cgroup* group_for(const Start& request);
  void drop_group();
  void finish_attempt();
  void blame_machine_memory(Exited& exited);
  void drain_notify();
  void write_record_of_live();
  void write_records_of_kept();
  void keep(Held held);
  const Held* held_of(AttemptId id) const;
  void tell(const Held& held);
  void notify(std::string line);
  bool is_free() const { return !attempt_ && kept_.empty(); }
  std::optional<std::int64_t> next_time() const;
  void remove_files(bool with_record);

  template <typename Message>
  void send(const Message& message) {
    if (connection_) connection_->send(message);
  }

  Options options_;
  Files files_;
  os::RealClock clock_;
  os::UniqueFd signals_;
  RecordFile record_;
  std::unique_ptr<Connection> connection_;
  std::optional<os::Cgroup> group_;  // of the attempt, or of the one before; outlives both
  std::optional<Attempt> attempt_;
  std::vector<Held> kept_;  // ended, not forgotten
  NotifyFilter notify_filter_;
  ReadyWatch ready_;
  std::string prepared_out_;  // folder work done for this folder and attempt
  std::int32_t prepared_attempt_ = 0;
  std::optional<Start> unwritten_;        // record of the live attempt, until it is written
  std::vector<Start> unwritten_of_kept_;  // the same of attempts that ended before it was
  std::int64_t record_due_ns_ = 0;
  std::optional<std::int64_t> oom_kills_before_;  // of the machine, when the record was written
  AfterLoss after_loss_ = AfterLoss::Revive;
  bool yields_ = false;         // others revive first
  bool more_children_ = false;  // have ended than were reaped in the last turn
  ReviveSchedule revive_;
  std::optional<std::int64_t> exit_at_ns_;
  std::int64_t look_at_files_ns_ = 0;  // while no coordinator is connected, which would say so
  bool done_ = false;
};

}  // namespace pergpu::keeper
