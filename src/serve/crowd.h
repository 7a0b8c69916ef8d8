// Which connections have to go when there are too many.  Any user of the machine can open
// connections to the page; none of them may shut its owner out.  Pure.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace pergpu::serve {

struct Guest {
  std::optional<uid_t> uid = std::nullopt;  // nullopt: unknown
  bool is_let_in = false;                   // it has sent the session or the token
};

/// Indexes of those to close; `guests` is sorted by age, the oldest first.  A guest that was let in
/// stays.  Of the user other than `owner` with the most connections the older half goes, at least
/// one; guests of unknown users count as one user.  Where there are only the owner's own, it's the
/// older half of those.  Empty: all were let in.
std::vector<std::size_t> to_close(const std::vector<Guest>& guests, uid_t owner);

}  // namespace pergpu::serve
