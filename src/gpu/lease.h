// Leases: a user's right to a GPU on this machine, agreed by all users without a daemon.
//
// A lease is `flock(LOCK_EX)` on one open file description of <folder>/<UUID>.  The descriptor is
// passed to keepers and inherited by the first process of each attempt, so the kernel ends the
// lease when the last of them has closed it: a killed coordinator loses nothing, a killed tree
// leaves nothing behind.  No process ever calls LOCK_UN (it would end the lease for all holders),
// and a file is never read, written or unlinked.  Files are 0644 and locked through a read-only
// descriptor, so every user can lock what any other user has made.
//
// Fairness.  A process that waits for a GPU holds LOCK_SH on <folder>/<UUID>.wanted.  A holder asks
// contended() at each hand-over (a job ended, the next one is chosen) and then, if so, closes the
// lease and waits in turn (LeaseWatch, Manner::AfterYield).  With two users who both have queued
// jobs every GPU thus changes hands at each job: each of them runs on all GPUs, no matter which
// came first. Nothing is interrupted, and without another waiter a lease stays as long as jobs
// follow.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "result.h"

namespace pergpu::gpu {

/// Owns one descriptor of a held lock.  Closing it ends the lease unless a keeper or a job still
/// has the same open file description.
class Lease {
 public:
  Lease() = default;
  const std::string& uuid() const { return uuid_; }
  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void release() { fd_.reset(); }

 private:
  friend class LeaseFolder;
  Lease(std::string uuid, os::UniqueFd fd) : uuid_(std::move(uuid)), fd_(std::move(fd)) {}
  std::string uuid_;
  os::UniqueFd fd_;
};

/// Who holds a lease, as far as /proc shows it.
struct LeaseHolder {
  std::optional<pid_t> pid = std::nullopt;
  std::optional<uid_t> uid = std::nullopt;
  std::string program = {};  // the name that ps shows; "": unknown
};
/// False: another program has locked the file, and follows none of the rules above.
bool is_pergpu(const LeaseHolder& holder);

class LeaseFolder {
 public:
  /// $PERGPU_LOCKS, else the first of /run/lock/pergpu, /var/lock/pergpu, /dev/shm/pergpu-locks
  /// that every user of the machine finds or could make: the choice must not depend on who asks.
  static Result<LeaseFolder> open();
  /// The first of `places` of which that is true.  One that can't be made (it is full, say) is an
  /// error and not passed over: other users may have made it before.
  static Result<LeaseFolder> open_first(const std::vector<std::string>& places);
  /// `path` itself, made with mode 1777 when missing.
  static Result<LeaseFolder> open_at(const std::string& path);

  /// The one that open() would take; nullopt: it is not there yet.  Makes and changes nothing.
  static Result<std::optional<LeaseFolder>> find();

  const std::string& path() const { return path_; }
  uid_t owner() const;  // who made it, and can replace what lies in it

  /// ErrorKind::Busy: another process holds it; any other kind: the file or folder is not in order,
  /// and the message says what to do.
  Result<Lease> take(const std::string& uuid) const;
  /// A descriptor that came back from a keeper: checks that it is this lease and holds the lock.
  Result<Lease> adopt(const std::string& uuid, os::UniqueFd fd) const;

  /// Another process waits for the lease.  REQUIRES: the caller holds it and waits for it no
  /// longer.
  bool contended(const std::string& uuid) const;

  /// Of whatever program; empty fields where the holder is not visible from here.  Reads /proc: for
  /// words, not for decisions.
  LeaseHolder holder(const std::string& uuid) const;

  /// What is not in order about the files of a GPU, as far as names show it; "": nothing.
  std::string fault(const std::string& uuid) const;

  /// The two files of a GPU, made when missing, opened read-only and checked (regular, one link,
  /// the same as the path).  For LeaseWatch.
  Result<os::UniqueFd> open_lock(const std::string& uuid) const;
  Result<os::UniqueFd> open_wanted(const std::string& uuid) const;
  /// LOCK_EX|LOCK_NB on a descriptor of open_lock(), then the checks again.  `fd` is consumed on
  /// success only; ErrorKind::NotFound: another file lies there by now, open that one.
  Result<Lease> try_lock(const std::string& uuid, os::UniqueFd& fd) const;

 private:
  explicit LeaseFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// "used by alice (pergpu)": what others are shown, nothing of the jobs.  `me` is the asking uid:
/// "held by another pergpu of yours (pid 4711)".  Of another program: "locked by flock, process
/// 4711 of alice, which isn't pergpu".
std::string lease_words(const LeaseHolder& holder, uid_t me, const std::string& user_name);

}  // namespace pergpu::gpu
