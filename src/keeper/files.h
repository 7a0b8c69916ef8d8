// The names under which a keeper is found: its socket, the one that its job sends to, and its
// record.  They go when their folder is emptied or removed; the keeper then makes them again.
#pragma once

#include <cstdint>
#include <string>

#include "os/fd.h"
#include "os/fs/named_file.h"

namespace pergpu::keeper {

class Files {
 public:
  struct Options {
    os::UniqueFd listener = {};    // non-blocking, listening on socket_path()
    os::UniqueFd notify = {};      // datagrams of the jobs, bound to notify_path(); may be absent
    std::string notify_path = {};  // where jobs reach it: a path that fits into a socket's address
    std::int64_t id = 0;
    std::string run_folder = {};
    std::string home = {};
  };
  explicit Files(Options options);

  std::int64_t id() const { return id_; }
  const std::string& home() const { return home_.path(); }
  int listener() const { return listener_.get(); }
  int notify() const { return notify_.get(); }
  const std::string& notify_path() const { return notify_path_; }
  const std::string& run_folder() const { return run_folder_; }
  std::string record() const;

  /// False: the home was removed, or another folder has its name.  The coordinator of that one
  /// knows nothing of this keeper's attempt.
  bool has_home() const { return !home_ || home_.is_there(); }
  /// Makes again in `folder` ("": where they were) what is missing there, and the folder; where
  /// that isn't possible in <home>/run.  Does nothing without the home.  False: neither is
  /// possible now.
  bool restore(const std::string& folder);
  /// Removes the names of the sockets, unless they lead to others by now.
  void remove();

 private:
  bool listen_in(const std::string& folder);

  std::int64_t id_;
  std::string run_folder_;
  os::UniqueFd listener_;
  os::UniqueFd notify_;
  std::string notify_path_;
  os::NamedFile home_;
  os::NamedFile socket_name_;
  os::NamedFile notify_name_;
};

}  // namespace pergpu::keeper
