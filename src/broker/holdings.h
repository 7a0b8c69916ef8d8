// The shared memory that the coordinator holds, and for whom: sweeps that can still run, processes
// that live, and users who asked to keep it.  What is held for none of these any more is let go of
// at once.
//
// What is held for a sweep, or kept, is written into a small file beside the sockets: the next
// coordinator takes it up again from the processes that have it, should this one be killed.  The
// memory of a machine does not outlive it, and neither has this file to: it is never synced.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ids.h"
#include "os/fd.h"
#include "os/ipc/shared_memory.h"
#include "result.h"

namespace pergpu {

/// On whose account memory is held; any of them will do.
struct HeldFor {
  bool keep = false;
  std::set<SweepId> sweeps = {};
  std::set<pid_t> processes = {};
  bool is_nobody() const { return !keep && sweeps.empty() && processes.empty(); }
};

struct Holding {
  std::string name = {};   // meeting_request.h
  std::string title = {};  // the key, for people
  os::UniqueFd fd = {};
  os::SharedMemory memory = {};
  HeldFor who = {};
};

class Holdings {
 public:
  /// `table`: the file; `most`: how many are held at most.
  Holdings(std::string table, std::size_t most) : table_(std::move(table)), most_(most) {}

  /// Takes up what an earlier coordinator held for sweeps of which `can_run` is true, or kept,
  /// where a process still has it.
  void recover(const std::function<bool(SweepId)>& can_run);

  /// nullptr: nothing is held by this name.
  const Holding* find(std::string_view name) const;
  /// Takes the place of what was held by this name, and its accounts.  ErrorKind::Invalid: `fd` is
  /// no memory of a fixed size and of this name; Full: there is no room for one more.
  Result<void> put(const std::string& name, const std::string& title, os::UniqueFd fd,
                   const HeldFor& who);
  /// It is held for these, too.  REQUIRES: it is held.
  void add(const std::string& name, const HeldFor& who);

  /// The file is this one from now on.
  void move_table(std::string table);

  void process_ended(pid_t pid);
  /// Sweeps of which `can_run` is false are over.
  void review(const std::function<bool(SweepId)>& can_run);
  /// Those of this name or title; their names.
  std::vector<std::string> drop(std::string_view what);

  std::size_t kept() const;
  std::size_t size() const { return held_.size(); }
  bool has_sweeps() const;
  /// As "segments" of the answer to "list".
  nlohmann::json list() const;

 private:
  /// put() without the file.
  Result<void> take(const std::string& name, const std::string& title, os::UniqueFd fd,
                    const HeldFor& who);
  void let_go();
  void save() const;

  std::string table_;
  std::size_t most_ = 0;
  std::map<std::string, Holding, std::less<>> held_;
};

}  // namespace pergpu
