// Where jobs meet about shared memory: a process that asks for a name is given its memory, or is
// asked to make it, and then the others wait until it is there.  When the process that makes it
// ends, the next one is asked to.  The protocol stands in meeting_request.h, what is held and for
// whom in holdings.h.
//
// Every connection is of this user (peer uid checked).  What comes over it may be anything: it is
// answered, or its connection closed, and nothing of it stays.  Runs on the deciding thread; never
// blocks, and does nothing without a request.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "broker/holdings.h"
#include "broker/meeting_request.h"
#include "os/fs/named_file.h"
#include "os/ipc/socket.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu {

class MeetingPlace {
 public:
  struct Options {
    std::string run_dir = {};        // the socket and the table lie there
    std::size_t most_visitors = 64;  // connections at a time
    std::size_t most_held = 64;
    std::size_t most_processes = 64;  // that something is held for, or that make something
    /// The sweep of a job; nullopt: there is no such job.
    std::function<std::optional<SweepId>(JobId)> sweep_of = {};
    /// The name of a sweep, for people.
    std::function<std::string(SweepId)> name_of = {};
    /// It has a job that has not ended.
    std::function<bool(SweepId)> can_run = {};
  };
  /// Takes up what an earlier coordinator held (Holdings::recover).
  static Result<std::unique_ptr<MeetingPlace>> open(os::Loop& loop, Options options);
  ~MeetingPlace();

  /// Its socket has its name.
  bool is_reachable() const { return name_.is_there(); }
  /// Makes the socket and the table again in this folder; connections go on.
  Result<void> listen(const std::string& run_dir);

  /// Jobs changed: what is held for sweeps that are over now is let go of.
  void review();
  /// How much is kept, which needs a coordinator to hold it.
  std::size_t kept() const { return holdings_.kept(); }
  std::size_t held() const { return holdings_.size(); }

 private:
  struct Visitor;
  using Visitors = std::list<std::unique_ptr<Visitor>>;
  MeetingPlace(os::Loop& loop, Options options);
  void accept();
  bool make_room();
  void drop(Visitor& visitor);
  void on_frame(Visitor& visitor, os::FrameStream::Frame frame);
  void get(Visitor& visitor, MeetingRequest request);
  void seek(Visitor& visitor);
  void give(Visitor& visitor, const Holding& holding);
  void put(Visitor& visitor, os::UniqueFd fd);
  void wake(const std::string& name);
  bool follow(pid_t pid);
  void process_ended(pid_t pid);
  nlohmann::json list() const;
  void answer(Visitor& visitor, const nlohmann::json& object, const std::vector<int>& fds = {});
  void refuse(Visitor& visitor, const std::string& why);
  void turn_away(Visitor& visitor, const std::string& why);
  Visitor* find(std::uint64_t id);

  os::Loop& loop_;
  Options options_;
  Holdings holdings_;
  os::UniqueFd listener_;
  os::NamedFile name_;  // of its socket
  Visitors visitors_;
  Visitors dropped_;  // destroyed at the end of the turn
  std::uint64_t next_visitor_ = 1;
  std::map<std::string, std::uint64_t> makers_;                // by name
  std::map<std::string, std::vector<std::uint64_t>> waiting_;  // by name, in the order they came
  std::map<pid_t, os::UniqueFd> processes_;                    // their ends are listened for
};

}  // namespace pergpu
