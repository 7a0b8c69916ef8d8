// Which user is at the other end of a connection over the loopback interface.  TCP has no
// SO_PEERCRED, but both ends are sockets of this machine, and /proc/net/tcp lists the owner of
// each.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace pergpu::os {

class TcpOwners {
 public:
  /// The sockets as they are now.  Costs about 1 µs for each TCP socket of the machine.
  static TcpOwners read();

  /// nullopt: the peer isn't on this machine, or not in this network namespace, or has ended.
  std::optional<uid_t> of_peer(int fd) const;

  /// Adds what a file of the kind of /proc/net/tcp or tcp6 lists.
  void add(std::string_view table);
  /// By the addresses of a socket's own end and of its other end, as the table spells them
  /// ("0100007F:1F90").
  std::optional<uid_t> owner(const std::string& own_end, const std::string& other_end) const;

 private:
  std::map<std::string, uid_t> owners_;  // by both ends, "0100007F:A001 0100007F:1F90"
};

}  // namespace pergpu::os
