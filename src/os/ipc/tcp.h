// TCP on the loopback interface: what the web page is served on.  No other interface is ever bound.
#pragma once

#include <cstdint>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

/// Listening on 127.0.0.1, non-blocking, close-on-exec.  Port 0: a free one.  ErrorKind::Busy: it
/// is in use.  `backlog`: large, so that a user who opens many connections at once doesn't keep
/// others out.
Result<UniqueFd> listen_loopback(std::uint16_t port, int backlog = 1024);

/// Of a listening socket.
Result<std::uint16_t> port_of(int listener);

/// As accept_from() of os/ipc/accept.h, without Nagle's delay.
Result<UniqueFd> accept_tcp(int listener);

}  // namespace pergpu::os
