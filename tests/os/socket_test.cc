#include "os/ipc/socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "fixture.h"
#include "os/ipc/accept.h"

namespace pergpu::os {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0);
  return st.st_mode & 07777;
}

TEST(UnixSocket, CarriesBytesBothWays) {
  const TempDir dir;
  const Result<UniqueFd> listener = listen_unix(dir / "s");
  ASSERT_TRUE(listener);
  const Result<UniqueFd> client = connect_unix(dir / "s", false);
  ASSERT_TRUE(client);
  const Result<UniqueFd> server = accept_from(listener->get());
  ASSERT_TRUE(server);
  ASSERT_EQ(::send(client->get(), "hi", 2, 0), 2);
  char got[3] = {};
  ASSERT_EQ(::recv(server->get(), got, 2, 0), 2);
  EXPECT_STREQ(got, "hi");
}

TEST(UnixSocket, FileIsTheUsersOnlyWhateverTheUmask) {
  const TempDir dir;
  for (const mode_t mask : {0u, 022u, 0777u}) {
    const mode_t old = ::umask(mask);
    const Result<UniqueFd> listener = listen_unix(dir / std::to_string(mask));
    ::umask(old);
    ASSERT_TRUE(listener);
    EXPECT_EQ(mode_of(dir / std::to_string(mask)), 0600u);
  }
}

TEST(UnixSocket, PathLongerThanSunPath) {
  const TempDir dir;
  const std::string deep = dir / std::string(100, 'a') + "/" + std::string(100, 'b');
  ASSERT_TRUE(make_dirs(deep, 0700));
  ASSERT_TRUE(listen_unix(dir / "s"));  // accept_from keeps one descriptor in reserve for good
  const std::size_t before = open_fds();
  {
    const Result<UniqueFd> listener = listen_unix(deep + "/socket");
    ASSERT_TRUE(listener) << listener.error().message;
    ASSERT_TRUE(connect_unix(deep + "/socket", true));
    ASSERT_TRUE(accept_from(listener->get()));
    EXPECT_EQ(listen_unix(deep + "/socket").error().kind, ErrorKind::Busy);
  }
  EXPECT_EQ(open_fds(), before);
  EXPECT_TRUE(listen_unix(deep + "/socket"));  // dead: replaced
  EXPECT_EQ(open_fds(), before);
}

TEST(UnixSocket, LiveListenerIsNotReplaced) {
  const TempDir dir;
  const Result<UniqueFd> first = listen_unix(dir / "s", 1);
  ASSERT_TRUE(first);
  const Result<UniqueFd> second = listen_unix(dir / "s");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy);
  EXPECT_TRUE(connect_unix(dir / "s", true));
}

TEST(UnixSocket, DeadListenerIsReplaced) {
  const TempDir dir;
  { ASSERT_TRUE(listen_unix(dir / "s")); }
  const Result<UniqueFd> again = listen_unix(dir / "s");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(connect_unix(dir / "s", true));
}

TEST(UnixSocket, OrdinaryFileIsNotReplaced) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "s", "precious", 0600, false));
  const Result<UniqueFd> listener = listen_unix(dir / "s");
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().kind, ErrorKind::Invalid);
  EXPECT_EQ(*read_file(dir / "s", 100), "precious");
}

TEST(UnixSocket, NobodyThere) {
  const TempDir dir;
  EXPECT_EQ(connect_unix(dir / "none", false).error().kind, ErrorKind::NotFound);
  { ASSERT_TRUE(listen_unix(dir / "dead")); }
  EXPECT_EQ(connect_unix(dir / "dead", false).error().kind, ErrorKind::Unavailable);
}

TEST(UnixSocket, AcceptWithNobodyWaitingIsBusy) {
  const TempDir dir;
  const Result<UniqueFd> listener = listen_unix(dir / "s");
  ASSERT_TRUE(listener);
  EXPECT_EQ(accept_from(listener->get()).error().kind, ErrorKind::Busy);
}

TEST(UnixSocket, OutOfDescriptorsTheCallerIsTurnedAway) {
  const TempDir dir;
  const Result<UniqueFd> listener = listen_unix(dir / "s");
  ASSERT_TRUE(listener);
  const Result<UniqueFd> client = connect_unix(dir / "s", true);
  ASSERT_TRUE(client);

  std::vector<UniqueFd> hoard;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{.rlim_cur = 64, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  while (true) {
    UniqueFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one) break;
    hoard.push_back(std::move(one));
  }
  const Result<UniqueFd> refused = accept_from(listener->get());
  const Result<UniqueFd> nobody = accept_from(listener->get());
  hoard.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);

  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().os_errno, EMFILE);
  // Nobody waits any more: a loop that watches the listener sleeps.
  EXPECT_EQ(nobody.error().os_errno, EMFILE);
  char byte = 0;
  EXPECT_EQ(::recv(client->get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(accept_from(listener->get()).error().kind, ErrorKind::Busy);
}

TEST(UnixSocket, PeerIsThisProcess) {
  const auto [near, far] = socket_pair();
  const Result<PeerCredentials> peer = peer_of(near.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::getuid());
}

TEST(UnixSocket, DatagramsKeepTheirBounds) {
  const TempDir dir;
  const Result<UniqueFd> receiver = bind_datagram(dir / "d");
  ASSERT_TRUE(receiver);
  EXPECT_EQ(mode_of(dir / "d"), 0600u);
  EXPECT_EQ(bind_datagram(dir / "d").error().kind, ErrorKind::Busy);
}

TEST(UnixSocket, DatagramsComeWithoutTheDescriptorsThatRideWithThem) {
  const TempDir dir;
  const Result<UniqueFd> receiver = bind_datagram(dir / "d");
  ASSERT_TRUE(receiver);
  const UniqueFd sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (dir / "d").copy(address.sun_path, sizeof address.sun_path - 1);
  iovec part{const_cast<char*>("READY=1"), 7};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof address;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = sender.get();
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  const std::size_t before = open_fds();
  ASSERT_EQ(::sendmsg(sender.get(), &message, 0), 7);
  char text[16];
  const Result<std::size_t> size = receive_own(receiver->get(), text, sizeof text);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(std::string_view(text, *size), "READY=1");
  EXPECT_EQ(open_fds(), before);
  EXPECT_EQ(receive_own(receiver->get(), text, sizeof text).error().os_errno, EAGAIN);
}

/// Runs `body` as another user in a child; its exit code, 0 to 99.
template <typename Body>
int as_another_user(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(::setresuid(65534, 65534, 65534) == 0 ? body() : 99);
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status >> 8;
}

TEST(UnixSocketOfAnotherUser, IsNotConnectedTo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: another user listens at our path";
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd near(ends[0]);
  const UniqueFd far(ends[1]);
  const pid_t other = ::fork();
  if (other == 0) {
    char byte = 0;
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    Result<UniqueFd> theirs = listen_unix(dir / "s");
    ::send(far.get(), theirs ? "1" : "0", 1, 0);
    ::recv(far.get(), &byte, 1, 0);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::recv(near.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, '1');
  const Result<UniqueFd> connected = connect_unix(dir / "s", false);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, ErrorKind::Denied);
  EXPECT_NE(connected.error().message.find("uid 65534"), std::string::npos);
  ::send(near.get(), "x", 1, 0);
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(UnixSocketOfAnotherUser, DatagramsAreDropped) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: another user sends to our socket";
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  const Result<UniqueFd> receiver = bind_datagram(dir / "d");
  ASSERT_TRUE(receiver);
  ASSERT_EQ(::chmod((dir / "d").c_str(), 0666), 0);  // nothing but the check keeps others out
  const auto send_to = [&](const char* text) {
    const UniqueFd sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    (dir / "d").copy(address.sun_path, sizeof address.sun_path - 1);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    return ::sendto(sender.get(), text, 5, 0, generic, sizeof address) == 5 ? 0 : 1;
  };
  ASSERT_EQ(as_another_user([&] { return send_to("other"); }), 0);
  ASSERT_EQ(send_to("yours"), 0);
  char text[16];
  const Result<std::size_t> size = receive_own(receiver->get(), text, sizeof text);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(std::string_view(text, *size), "yours");
}

using Frame = FrameStream::Frame;

TEST(FrameStream, FramesArriveWholeHoweverTheyAreCut) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  std::vector<Frame> frames;
  auto stream = FrameStream::open(*loop, std::move(near),
                                  {.on_frame = [&](Frame f) { frames.push_back(std::move(f)); },
                                   .on_close = [&](const Error&) { loop->stop(); }});
  ASSERT_TRUE(stream);
  const std::string bytes{"\2\0\0\0\7ab\0\0\0\0\11", 12};
  for (const char c : bytes) {
    ASSERT_EQ(::send(far.get(), &c, 1, 0), 1);
    loop.settle();
  }
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].type, 7);
  EXPECT_EQ(frames[0].payload, "ab");
  EXPECT_EQ(frames[1].type, 9);
  EXPECT_EQ(frames[1].payload, "");
  far.reset();
  loop.run();
}

/// Inode of an open descriptor: tells which file came along.
std::uint64_t inode_of(int fd) {
  struct stat st {};
  EXPECT_EQ(::fstat(fd, &st), 0);
  return st.st_ino;
}

TEST(FrameStream, DescriptorsStayWithTheirFrameUnderLoad) {
  // Frames of all sizes, some with a descriptor, far more than the socket takes at once: so that
  // frames are queued, cut and read together in every way.
  TestLoop loop;
  const TempDir dir;
  const std::size_t before = open_fds();
  {
    auto [near, far] = socket_pair();
    auto sender = FrameStream::open(*loop, std::move(near), {.on_frame = {}, .on_close = {}});
    ASSERT_TRUE(sender);
    constexpr int kFrames = 600;
    std::vector<std::uint64_t> inodes(kFrames, 0);
    std::size_t bytes = 0;
    for (int i = 0; i < kFrames; ++i) {
      const std::string payload(static_cast<std::size_t>(i * i % 7919), static_cast<char>(i));
      bytes += payload.size();
      if (i % 3 != 0) {
        (*sender)->send(static_cast<std::uint8_t>(i), payload);
        continue;
      }
      const UniqueFd file(
          ::open((dir / std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      inodes[static_cast<std::size_t>(i)] = inode_of(file.get());
      (*sender)->send(static_cast<std::uint8_t>(i), payload, {file.get()});
    }
    EXPECT_GT((*sender)->pending(), 0u);
    EXPECT_LT((*sender)->pending(), bytes + kFrames * 5);

    std::size_t next = 0;
    auto receiver =
        FrameStream::open(*loop, std::move(far),
                          {.on_frame =
                               [&](Frame frame) {
                                 EXPECT_EQ(frame.type, static_cast<std::uint8_t>(next));
                                 EXPECT_EQ(frame.payload.size(), next * next % 7919);
                                 EXPECT_EQ(frame.fds.size(), next % 3 == 0 ? 1u : 0u);
                                 if (!frame.fds.empty()) {
                                   EXPECT_EQ(inode_of(frame.fds[0].get()), inodes[next]);
                                   EXPECT_TRUE(::fcntl(frame.fds[0].get(), F_GETFD) & FD_CLOEXEC);
                                 }
                                 if (++next == kFrames) loop->stop();
                               },
                           .on_close = [](const Error& why) { ADD_FAILURE() << why.message; }});
    ASSERT_TRUE(receiver);
    loop.run();
    EXPECT_EQ(next, static_cast<std::size_t>(kFrames));
    EXPECT_EQ((*sender)->pending(), 0u);
  }
  EXPECT_EQ(open_fds(), before);
}

TEST(FrameStream, DescriptorsNobodyTookAreClosed) {
  TestLoop loop;
  const std::size_t before = open_fds();
  {
    auto [near, far] = socket_pair();
    auto sender = FrameStream::open(*loop, std::move(near), {.on_frame = {}, .on_close = {}});
    ASSERT_TRUE(sender);
    (*sender)->send(1, std::string(4u << 20, 'x'), {0, 1, 2});  // the frame's end never arrives
    (*sender)->send(2, "", {0});                                // this one is only queued
    auto receiver = FrameStream::open(
        *loop, std::move(far), {.on_frame = [](const Frame&) { ADD_FAILURE(); }, .on_close = {}});
    ASSERT_TRUE(receiver);
    loop->at(0, [&] { loop->stop(); });
    loop.run();
  }
  EXPECT_EQ(open_fds(), before);
}

TEST(FrameStream, PayloadAboveTheLimitCloses) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  ErrorKind kind = ErrorKind::Io;
  auto stream = FrameStream::open(*loop, std::move(near),
                                  {.on_frame = [](const Frame&) { ADD_FAILURE(); },
                                   .on_close =
                                       [&](const Error& why) {
                                         kind = why.kind;
                                         loop->stop();
                                       }},
                                  100);
  ASSERT_TRUE(stream);
  ASSERT_EQ(::send(far.get(), "\xff\xff\xff\xff\1", 5, 0), 5);
  loop.run();
  EXPECT_EQ(kind, ErrorKind::Corrupt);
}

TEST(FrameStream, DestroyedInsideOnFrame) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  auto sender = FrameStream::open(*loop, std::move(near), {.on_frame = {}, .on_close = {}});
  ASSERT_TRUE(sender);
  std::unique_ptr<FrameStream> stream;
  int frames = 0;
  auto opened = FrameStream::open(*loop, std::move(far),
                                  {.on_frame =
                                       [&](const Frame&) {
                                         ++frames;
                                         stream.reset();
                                       },
                                   .on_close = [](const Error&) { ADD_FAILURE(); }});
  ASSERT_TRUE(opened);
  stream = std::move(*opened);
  for (int i = 0; i < 3; ++i) (*sender)->send(1, "x");
  loop.settle();
  EXPECT_EQ(frames, 1);
}

}  // namespace
}  // namespace pergpu::os
