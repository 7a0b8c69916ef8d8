// The MPS daemons of this coordinator's GPUs (gpu/pool/mps_control.h): one lives while attempts are
// its clients, and those that a coordinator before this one has left without any are ended.
//
// All is done on the errands' thread, in the order of the calls: a daemon that is to end has ended
// before it is started again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/pool/mps_control.h"
#include "ids.h"
#include "result.h"
#include "run/errands.h"

namespace pergpu {

class MpsDaemons {
 public:
  /// `root`: the folder of theirs.  `program`: find_mps_control().
  /// `errands` are for nothing else: what hangs here must hold up nothing else.
  MpsDaemons(Errands& errands, std::string root, const std::string& program);

  /// "": the machine has MPS; else why not.
  std::string why_not() const;
  /// Where clients on this GPU find it.
  std::string folder_of(const std::string& gpu) const { return mps_folder(root_, gpu); }

  /// The attempt is going to be a client: `done` runs when the daemon answers, or with why it does
  /// not.  Until release() it lives.
  void hold(const std::string& gpu, AttemptId id, std::function<void(Result<void>)> done);
  /// The attempt has been one since before this coordinator began.
  void adopt(const std::string& gpu, AttemptId id);
  /// The attempt has ended.  Of one that did not hold it, nothing.
  void release(const std::string& gpu, AttemptId id);
  /// Ends those that no attempt holds.  After recovery.
  void end_left();

  /// The attempt is about to be stopped: its clients are disconnected; then, however that ended,
  /// `done` runs.  `leads`: its first process has a handler for SIGTERM.
  void disconnect(const std::string& gpu, TreeRoots roots, MpsControl::Whom whom,
                  std::function<void(bool leads)> done);
  /// Whether a process of the attempt is a client; nullopt: the daemon does not say.
  void check(const std::string& gpu, TreeRoots roots,
             std::function<void(std::optional<bool> is_client)> done);

  /// None is about to end, or to be there for an attempt.
  bool idle() const { return pending_ == 0; }
  /// Their processes, whose children on the GPUs are ours.
  std::vector<std::int32_t> pids() const;

 private:
  struct Daemon {
    std::set<AttemptId> holders;
    std::int32_t pid = 0;
    int endings = 0;  // under way
    bool idle() const { return holders.empty() && endings == 0; }
  };
  void end(const std::string& folder);
  void take_pid(const std::string& folder, std::int32_t pid);

  Errands& errands_;
  std::string root_;
  MpsControl control_;
  bool is_there_;
  int pending_ = 0;                        // starts and ends
  std::map<std::string, Daemon> daemons_;  // by folder
};

}  // namespace pergpu
