// One living keeper as the engine sees it: started or found again, spoken to, and seen to end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ids.h"
#include "keeper/protocol.h"
#include "os/fd.h"
#include "os/ipc/socket.h"
#include "os/loop.h"
#include "os/process/cgroup_site.h"
#include "result.h"

namespace pergpu {

/// Programs and folders that all keepers of an engine share.
struct KeeperSite {
  std::string run_dir = {};
  std::string keeper_program = {};
  std::string pergpu_program = {};  // what a keeper starts when its coordinator is gone
  std::string home = {};
  std::string home_id = {};  // home_identity()
  std::string boot_id = {};
  os::CgroupSite groups = {};      // where keepers make the groups of their attempts
  bool keepers_end_alone = false;  // when their coordinator is gone, and their attempts with them
};

class KeeperLink {
 public:
  struct Callbacks {
    std::function<void(os::FrameStream::Frame frame)> on_frame;
    /// The connection is broken; the process may be well.  Not called once its end is known.
    std::function<void(const std::string& why)> on_broken;
    /// The process is gone.  Called once; destroy the link in it or later.
    std::function<void(const std::string& why)> on_gone;
  };

  /// Starts a new keeper.  It can be spoken to at once: its socket listens before it runs.
  static Result<std::unique_ptr<KeeperLink>> start(os::Loop& loop, const KeeperSite& site,
                                                   KeeperId id, Callbacks callbacks);
  /// Connects to one that an earlier coordinator left.  `born_in`: the folder in which its sockets
  /// were at its start, where that is known.
  static Result<std::unique_ptr<KeeperLink>> find(os::Loop& loop, const KeeperSite& site,
                                                  KeeperId id, Callbacks callbacks,
                                                  const std::string& born_in = {});
  ~KeeperLink();
  KeeperLink(const KeeperLink&) = delete;
  KeeperLink& operator=(const KeeperLink&) = delete;

  template <typename Message>
  void send(const Message& message, const std::vector<int>& fds = {}) {
    if (stream_)
      stream_->send(static_cast<std::uint8_t>(Message::kType), keeper::encode(message), fds);
  }

  /// After on_broken, in whatever folder it listens now.  os_errno ENOENT or ECONNREFUSED: in none;
  /// see end_unreachable().
  Result<void> reconnect(const KeeperSite& site);
  /// Where it was connected to.
  const std::string& folder() const { return folder_; }
  /// Its process lives, as far as is known here.
  bool is_alive() const;
  /// Its socket has no listener.  A process that lives all the same can never be spoken to again:
  /// it is killed, so that its end is certain before anything is decided about its attempt.
  void end_unreachable();
  /// What it says cannot be understood.
  void break_off(const std::string& why);

  KeeperId id() const { return id_; }
  std::int32_t pid() const { return pid_; }
  /// A keeper that was found says in its STATE who it is; from then on its end is seen.
  void know(std::int32_t pid, std::uint64_t start_ticks);

 private:
  KeeperLink(os::Loop& loop, KeeperId id, Callbacks callbacks)
      : loop_(loop), id_(id), callbacks_(std::move(callbacks)) {}
  Result<void> open(os::UniqueFd socket);
  void watch_end(os::UniqueFd pidfd);
  void on_process_ended();
  void gone(const std::string& why);

  os::Loop& loop_;
  KeeperId id_;
  Callbacks callbacks_;
  std::int32_t pid_ = 0;
  std::uint64_t start_ticks_ = 0;
  bool is_child_ = false;
  os::UniqueFd pidfd_;
  std::string folder_;
  std::unique_ptr<os::FrameStream> stream_;
};

/// No process has this socket: a keeper that lives may make it again.
bool nobody_listens(const Error& error);

/// Removes the socket files of a keeper that is gone; its record stays.
void remove_keeper_sockets(const std::string& run_dir, KeeperId id);

}  // namespace pergpu
