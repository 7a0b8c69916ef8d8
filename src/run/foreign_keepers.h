// Keepers in sight that are not this home's, and are left alone: no attempt of theirs is ended or
// buried, none of their files is removed.
//
// An earlier one's home had the path of this home: it was removed, moved or replaced.  Its attempts
// have the names of this home's, and where the store came along (the home was moved or copied) they
// may be the very ones that the store expects.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ids.h"
#include "run/living_keepers.h"

namespace pergpu {

class ForeignKeepers {
 public:
  struct Keeper {
    LivingKeeper process = {};
    bool is_earlier = false;
    bool is_busy = false;  // with an attempt
  };
  void add(const Keeper& keeper) { keepers_[keeper.process.id] = keeper; }

  bool empty() const { return keepers_.empty(); }
  bool contains(KeeperId id) const { return keepers_.contains(id); }
  bool has_earlier() const;
  /// nullptr: it is none.
  const Keeper* earlier(KeeperId id) const;
  /// An earlier one has an attempt, and `is_expected` does not hold for it.
  bool has_unexpected(const std::function<bool(KeeperId)>& is_expected) const;
  /// Forgets the earlier ones that have ended.  Others are remembered: their records stay theirs.
  std::vector<KeeperId> take_ended();

 private:
  std::map<KeeperId, Keeper> keepers_;
};

}  // namespace pergpu
