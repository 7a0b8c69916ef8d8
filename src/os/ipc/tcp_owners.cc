// A socket that its process has closed is listed for a while without an owner: uid 0, inode 0.
#include "os/ipc/tcp_owners.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <vector>

#include "os/fs/file.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestTable = std::size_t{64} << 20;
constexpr std::size_t kEndSize = 13;  // of "0100007F:1F90"
// Columns of the table.
constexpr std::size_t kOwnEnd = 1;
constexpr std::size_t kOtherEnd = 2;
constexpr std::size_t kOwner = 7;
constexpr std::size_t kInode = 9;

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  std::size_t at = line.find_first_not_of(' ');
  while (at != line.npos && columns.size() <= kInode) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    columns.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(' ', end);
  }
  return columns;
}

/// An IPv4 address within an IPv6 one (::ffff:127.0.0.1) ends as the IPv4 address does.
std::string_view short_end(std::string_view end) {
  return end.size() > kEndSize ? end.substr(end.size() - kEndSize) : end;
}

std::string ends_of(std::string_view own_end, std::string_view other_end) {
  return std::string(own_end) + " " + std::string(other_end);
}

std::string end_text(const sockaddr_in& address) {
  std::array<char, kEndSize + 1> text{};
  std::snprintf(text.data(), text.size(), "%08X:%04X",
                static_cast<unsigned>(address.sin_addr.s_addr),
                static_cast<unsigned>(ntohs(address.sin_port)));
  return text.data();
}

}  // namespace

TcpOwners TcpOwners::read() {
  TcpOwners owners;
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    if (const Result<std::string> table = read_file(path, kLongestTable)) owners.add(*table);
  }
  return owners;
}

void TcpOwners::add(std::string_view table) {
  while (!table.empty()) {
    const std::size_t end = std::min(table.find('\n'), table.size());
    const std::vector<std::string_view> columns = columns_of(table.substr(0, end));
    table.remove_prefix(std::min(end + 1, table.size()));
    if (columns.size() <= kInode || columns[kInode] == "0") continue;
    uid_t owner = 0;
    const std::string_view text = columns[kOwner];
    const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), owner);
    if (failed != std::errc() || rest != text.data() + text.size()) continue;  // the headline
    owners_[ends_of(short_end(columns[kOwnEnd]), short_end(columns[kOtherEnd]))] = owner;
  }
}

std::optional<uid_t> TcpOwners::owner(const std::string& own_end,
                                      const std::string& other_end) const {
  const auto found = owners_.find(ends_of(own_end, other_end));
  if (found == owners_.end()) return std::nullopt;
  return found->second;
}

std::optional<uid_t> TcpOwners::of_peer(int fd) const {
  sockaddr_in here{};
  sockaddr_in there{};
  socklen_t here_size = sizeof here;
  socklen_t there_size = sizeof there;
  // sockaddr_in is a sockaddr by the rules of the socket calls.
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0 ||
      here.sin_family != AF_INET || there.sin_family != AF_INET) {
    return std::nullopt;
  }
  return owner(end_text(there), end_text(here));
}

}  // namespace pergpu::os
