// Ports for attempts: free ones, each once, however many ask.
#include "os/ipc/free_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>

#include "os/fd.h"

namespace pergpu::os {
namespace {

/// A socket that is bound to a port which the kernel chose; sets it.
UniqueFd bound(int family, int& port) {
  UniqueFd fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in6 six{};
  sockaddr_in four{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_six = family == AF_INET6;
  void* address = is_six ? static_cast<void*>(&six) : &four;
  socklen_t size = is_six ? sizeof six : sizeof four;
  if (!fd || ::bind(fd.get(), static_cast<sockaddr*>(address), size) != 0) return {};
  (void)::getsockname(fd.get(), static_cast<sockaddr*>(address), &size);
  port = ntohs(is_six ? six.sin6_port : four.sin_port);
  return fd;
}

TEST(IsFreePort, NotWhileSomebodyHasItOnAnyAddress) {
  for (const int family : {AF_INET, AF_INET6}) {
    int port = 0;
    UniqueFd fd = bound(family, port);
    if (!fd && family == AF_INET6) continue;  // a machine without it
    ASSERT_TRUE(fd);
    EXPECT_FALSE(is_free_port(port)) << family;
    fd.reset();
    bool is_free = is_free_port(port);
    for (int i = 0; i < 5 && !is_free; ++i) {  // meanwhile somebody else may have been given it
      if (const UniqueFd another = bound(family, port); !another) break;
      is_free = is_free_port(port);
    }
    EXPECT_TRUE(is_free) << family;
  }
}

TEST(PortRange, GivesEachInTurnAndStaysInItsRange) {
  PortRange range(PortRange::kCount - 2);
  const auto any = [](int) { return true; };
  EXPECT_EQ(range.next(any), PortRange::kFirst + PortRange::kCount - 2);
  EXPECT_EQ(range.next(any), PortRange::kFirst + PortRange::kCount - 1);
  EXPECT_EQ(range.next(any), PortRange::kFirst);
  std::set<int> seen;
  for (int i = 0; i < PortRange::kCount; ++i) {
    const int port = range.next(any);
    EXPECT_TRUE(port >= PortRange::kFirst && port < PortRange::kFirst + PortRange::kCount);
    EXPECT_TRUE(seen.insert(port).second);
  }
}

TEST(PortRange, LeavesOutWhatMayNotBeUsedAndGivesUpInTime) {
  PortRange range(0);
  EXPECT_EQ(range.next([](int port) { return port % 100 == 7; }), PortRange::kFirst + 7);
  int asked = 0;
  EXPECT_EQ(range.next([&](int) { return ++asked < 0; }), 0);
  EXPECT_LE(asked, 1000);
}

}  // namespace
}  // namespace pergpu::os
