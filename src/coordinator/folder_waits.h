// Jobs whose folder is in use: by another home's job, another user's, or processes that an attempt
// has left.  They are not in the queue; their folder is looked at now and then, and when it is free
// they are queued as if nothing had been.
//
// Kept in memory only: after a restart such a job is started, refused by its keeper and waits
// again. Thread: the deciding one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ids.h"
#include "os/clock.h"
#include "timers.h"

namespace pergpu {

class FolderWaits {
 public:
  using Found = std::function<void(std::optional<std::string> holder)>;
  struct Parts {
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    /// Finds out who works in a folder (os::holder_of_folder), on another thread: files may hang.
    /// Empty: nothing looks, and a job waits for one pause.
    std::function<void(std::string folder, Found found)> look = {};
    std::function<bool(JobId)> is_queued = {};
    std::function<void(JobId)> freed = {};    // the job waits no longer
    std::function<void(JobId)> changed = {};  // it waits for another holder
  };
  explicit FolderWaits(Parts parts);
  ~FolderWaits();

  /// Its start was refused.
  void add(JobId job, std::string folder, std::string holder);
  /// An attempt of it had the folder: the next refusal is the first one again.
  void forget(JobId job);
  bool has(JobId job) const { return waits_.contains(job); }
  bool empty() const { return waits_.empty(); }
  /// "waits for folder /x, in use by job 3 of …".  REQUIRES: has(job).
  std::string words(JobId job) const;

 private:
  struct Wait {
    std::string folder = {};
    std::string holder = {};
    std::int64_t pause_ns = 0;
    Timers::Id timer = 0;
  };
  struct Refusals {
    std::int64_t pause_ns = 0;  // after the last of them
    std::int64_t at_ns = 0;     // when the job began to wait, or waited no longer
  };
  void arm(JobId job, Wait& wait);
  void look(JobId job);
  void on_found(JobId job, std::optional<std::string> holder);

  Parts parts_;
  std::map<JobId, Wait> waits_;
  std::map<JobId, Refusals> refusals_;
  std::shared_ptr<bool> alive_;  // a look may come back later than this is gone
};

}  // namespace pergpu
