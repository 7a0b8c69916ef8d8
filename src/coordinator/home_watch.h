// Whether the home is still this coordinator's.  It may be removed, moved away or replaced at any
// time; jobs that run don't notice, but what is recorded from then on will not be read.
#pragma once

#include <cstdint>
#include <string>

#include "os/clock.h"
#include "os/fs/lock.h"
#include "os/fs/named_file.h"

namespace pergpu {

/// Thread: the deciding one; looks when it is asked to.
class HomeWatch {
 public:
  struct Parts {
    os::Clock* clock = nullptr;
    std::string home = {};
    std::string store = {};        // the store's file, which is open
    os::FileLock* lock = nullptr;  // of the home; replaced where its file was removed alone
    std::string note = {};         // in the lock's file
    bool is_new = false;           // it has no history: another one may have had its name before
  };
  explicit HomeWatch(Parts parts);

  /// Finds out; true: something has changed.
  bool look();
  /// What happened to the home, and what to do; "": it is in order, and jobs may start.
  const std::string& trouble() const { return trouble_; }
  /// The names lead to what this coordinator has open.
  bool has_home() const { return lost_.empty() && home_.is_there(); }
  /// Nothing speaks for it that the home comes back: this coordinator may end when no job runs.
  bool is_given_up() const;
  /// Another coordinator has the home's lock, and takes over what runs as soon as this one ends.
  bool is_succeeded() const { return is_succeeded_; }

 private:
  std::string find_loss();
  std::string find_earlier();

  Parts parts_;
  os::NamedFile home_;
  os::NamedFile store_;
  bool may_have_earlier_;  // keepers of a folder that had this name before
  bool is_taken_ = false;
  bool is_succeeded_ = false;
  std::string lost_;
  std::int64_t lost_since_ns_ = 0;
  std::string trouble_;
};

}  // namespace pergpu
