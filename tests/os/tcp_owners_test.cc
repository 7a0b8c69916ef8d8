// Whose socket is at the other end, by the kernel's table of TCP sockets.
#include "os/ipc/tcp_owners.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "os/fd.h"
#include "os/ipc/tcp.h"

namespace pergpu::os {
namespace {

constexpr char kTable[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1C03 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 "
    "5001 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0100007F:A001 0100007F:1C03 01 00000000:00000000 00:00000000 00000000  1001        0 "
    "5002 1 0000000000000000 20 4 30 10 -1\n"
    "   2: 0100007F:A002 0100007F:1C03 05 00000000:00000000 00:00000000 00000000     0        0 "
    "0 1 0000000000000000 20 4 30 10 -1\n";
constexpr char kTableOfSix[] =
    "   0: 0000000000000000FFFF00000100007F:A003 0000000000000000FFFF00000100007F:1C03 01 "
    "00000000:00000000 00:00000000 00000000  1002        0 5003 1 0000000000000000 20 4 30 10 -1\n";

TEST(TcpOwners, AreFoundByBothEnds) {
  TcpOwners owners;
  owners.add(kTable);
  owners.add(kTableOfSix);
  EXPECT_EQ(owners.owner("0100007F:A001", "0100007F:1C03"), 1001u);
  EXPECT_EQ(owners.owner("0100007F:A003", "0100007F:1C03"), 1002u);
  EXPECT_EQ(owners.owner("0100007F:A001", "0100007F:1C04"), std::nullopt);
}

TEST(TcpOwners, ASocketThatWasClosedIsNotRoots) {
  TcpOwners owners;
  owners.add(kTable);
  EXPECT_EQ(owners.owner("0100007F:A002", "0100007F:1C03"), std::nullopt);
}

TEST(TcpOwners, NonsenseListsNobody) {
  TcpOwners owners;
  for (const char* text : {"", "\n\n", "a b c d e f g h i j k", "1: x y 0 0 0 0 -1 0 7"}) {
    owners.add(text);
    EXPECT_EQ(owners.owner("x", "y"), std::nullopt) << text;
  }
}

TEST(TcpOwners, OfAConnectionOfThisProcessItIsThisUser) {
  Result<UniqueFd> listener = listen_loopback(0);
  ASSERT_TRUE(listener);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(*port_of(listener->get()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const Result<UniqueFd> server = accept_tcp(listener->get());
  ASSERT_TRUE(server);
  if (::access("/proc/self/net/tcp", R_OK) != 0) GTEST_SKIP() << "no /proc/self/net/tcp here";
  EXPECT_EQ(TcpOwners::read().of_peer(server->get()), ::geteuid());
}

}  // namespace
}  // namespace pergpu::os
