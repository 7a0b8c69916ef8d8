// Looks at disks, each of which holds a thread for as long as the disk hangs: one at a time on each
// file system, and few of all, so that others that need a thread for files find one.
//
// Thread: the deciding one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>

namespace pergpu {

class LookTurns {
 public:
  /// `begin` runs when its turn has come, which may be at once, and is given the number to end it
  /// by.  `device`: the file system where it goes; 0: not known.
  void ask(std::uint64_t device, std::function<void(int turn)> begin);
  void end(int turn);

 private:
  struct Waiting {
    std::uint64_t device = 0;
    std::function<void(int)> begin = {};
  };
  bool may_begin(std::uint64_t device) const;
  void begin(Waiting next);

  std::map<int, std::uint64_t> under_way_;  // and where
  std::deque<Waiting> waiting_;
  int last_ = 0;
};

}  // namespace pergpu
