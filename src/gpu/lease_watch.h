// Waits for leases that others hold, on the Loop, without polling.
//
// The last close of a lease's descriptor raises IN_CLOSE_NOWRITE on its file just before the kernel
// drops the lock: the watch tries at once, after 1, 5 and 20 ms, and once a second as a safety net.
// It tries through one descriptor that it keeps open, since opening and closing one for each try
// would wake every other waiter.  While it waits it holds LOCK_SH on <UUID>.wanted, which is what
// LeaseFolder::contended() of the holder sees.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/lease.h"
#include "os/clock.h"
#include "os/loop.h"

namespace pergpu::gpu {

/// One a coordinator; watches any number of GPUs.
class LeaseWatch {
 public:
  enum class Manner : std::uint8_t {
    AtOnce,
    /// After giving the lease to a waiter: lets one go first.  It ends when a waiter has gone (it
    /// has the lease, or gave up), at the latest after 250 ms, and sooner with each time that it
    /// was not taken (gpu/yield_patience.h): a stopped or false waiter must not idle a GPU.
    AfterYield,
  };
  /// Runs on the loop, never inside a call of this class; the wait for that GPU is then over.  An
  /// error is never Busy: the file is not in order (message says what to do).  It may call
  /// wait_for() and stop(), but not destroy the watch.
  using Callback = std::function<void(const std::string& uuid, Result<Lease> lease)>;

  /// REQUIRES: `loop`, `clock` and `folder` outlive the watch.
  static Result<std::unique_ptr<LeaseWatch>> open(os::Loop& loop, os::Clock& clock,
                                                  const LeaseFolder& folder, Callback callback);
  ~LeaseWatch();
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

  /// Begins to wait; nothing changes when it waits already.  With AfterYield: call it first, then
  /// release the lease, so that no other user's check falls between the two.
  void wait_for(const std::string& uuid, Manner manner = Manner::AtOnce);
  /// No callback after this.
  void stop(const std::string& uuid);
  std::vector<std::string> waiting() const;

 private:
  LeaseWatch();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu::gpu
