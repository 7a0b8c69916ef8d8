// Taking connections from a listening socket, of whatever family.
#pragma once

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

/// Opens the descriptor that accept_from() keeps in reserve; to be called when a socket begins to
/// listen.
void reserve_descriptor();

/// In one turn of a loop.
inline constexpr int kMostAcceptedAtOnce = 16;

/// accept4(NONBLOCK|CLOEXEC); ErrorKind::Busy when no connection waits.  Out of descriptors, the
/// caller that waits is turned away and the error says so.
Result<UniqueFd> accept_from(int listener);

}  // namespace pergpu::os
