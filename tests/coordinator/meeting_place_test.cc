// The meeting place over a real socket: who makes, who waits, what is held and for how long, and
// that nothing of a visitor who talks nonsense stays.
#include "broker/meeting_place.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "os/fixture.h"

namespace pergpu {
namespace {

using nlohmann::json;
using os::UniqueFd;

const std::string kName = "data-0123456789abcdef0123456789abcdef";
const std::string kOther = "data-fedcba9876543210fedcba9876543210";

/// Memory as Segment::create() makes it.
UniqueFd memory(const std::string& name, bool fixed_size = true) {
  UniqueFd fd(::memfd_create(("pergpu:" + name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), 4096), 0);
  const int seals = fixed_size ? F_SEAL_SHRINK | F_SEAL_GROW : F_SEAL_SHRINK;
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

std::uint64_t inode_of(const UniqueFd& fd) {
  struct stat status {};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_ino;
}

std::string frame(std::string_view payload, char type = 'q') {
  const auto size = static_cast<std::uint32_t>(payload.size());
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return (bytes + type).append(payload);
}

void send_bytes(int socket, const std::string& bytes, const std::vector<int>& fds = {}) {
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  }
  (void)::sendmsg(socket, &message, MSG_NOSIGNAL);
}

json get(const std::string& name = kName) {
  return {{"op", "get"}, {"name", name}, {"title", "tokens"}, {"scope", "user"}};
}
json get_for_job(std::int64_t job, const std::string& name = kName) {
  json request = get(name);
  request["scope"] = "sweep";
  request["job"] = job;
  return request;
}
json get_to_keep(const std::string& name = kName) {
  json request = get(name);
  request["keep"] = true;
  return request;
}

/// The coordinator of jobs 1 to 9, job N of sweep N.
struct Sweeps {
  std::set<SweepId> over = {};
  std::size_t most = 64;

  Result<std::unique_ptr<MeetingPlace>> open(os::Loop& loop, const std::string& folder) {
    return MeetingPlace::open(
        loop, {.run_dir = folder,
               .most_visitors = most,
               .most_held = most,
               .most_processes = most,
               .sweep_of = [](JobId job) -> std::optional<SweepId> {
                 if (job.value > 9) return std::nullopt;
                 return SweepId{job.value};
               },
               .name_of = [](SweepId id) { return "sweep" + std::to_string(id.value); },
               .can_run = [this](SweepId id) { return !over.contains(id); }});
  }
};

class MeetingPlaceTest : public testing::Test {
 protected:
  struct Answer {
    json object = json::object();
    UniqueFd fd = {};
    std::string is() const { return object.value("is", std::string("closed")); }
  };

  /// One connection.
  class Visitor {
   public:
    Visitor(os::TestLoop& loop, const std::string& folder)
        : loop_(loop), socket_(*os::connect_unix(meeting_socket(folder), true)) {}
    int fd() const { return socket_.get(); }

    Answer ask(const json& request, const std::vector<int>& fds = {}) {
      return tell(frame(request.dump()), fds);
    }
    Answer tell(const std::string& bytes, const std::vector<int>& fds = {}) {
      send_bytes(socket_.get(), bytes, fds);
      return answer();
    }
    /// The next one; "closed" where there is no connection any more, "" where none has come.
    Answer answer() {
      loop_.settle();
      loop_.settle();
      Answer answer;
      char head[5] = {};
      alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
      iovec part{head, sizeof head};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t n = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      if (n < 0 && errno == EAGAIN) return {.object = {{"is", ""}}};
      if (n <= 0) return answer;
      if (const cmsghdr* one = CMSG_FIRSTHDR(&message)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(one), sizeof fd);
        answer.fd.reset(fd);
      }
      std::uint32_t size = 0;
      std::memcpy(&size, head, sizeof size);
      std::string payload(size, '\0');
      EXPECT_EQ(::recv(socket_.get(), payload.data(), size, MSG_WAITALL), size);
      answer.object = json::parse(payload);
      return answer;
    }
    void leave() {
      socket_.reset();
      loop_.settle();
      loop_.settle();
    }

   private:
    os::TestLoop& loop_;
    UniqueFd socket_;
  };

  void SetUp() override { open(); }
  void open() {
    Result<std::unique_ptr<MeetingPlace>> opened = sweeps_.open(*loop_, folder_.path());
    ASSERT_TRUE(opened) << opened.error().message;
    place_ = *std::move(opened);
  }
  Visitor visitor() { return {loop_, folder_.path()}; }
  /// It is held from now on.
  std::uint64_t made(const json& request) {
    Visitor maker = visitor();
    EXPECT_EQ(maker.ask(request).is(), "yours");
    const UniqueFd fd = memory(request["name"].get<std::string>());
    EXPECT_EQ(maker.ask({{"op", "put"}}, {fd.get()}).is(), "held");
    return inode_of(fd);
  }
  json segments() { return visitor().ask({{"op", "list"}}).object["segments"]; }

  /// A process that does what `act` says with a connection of its own, and then waits to be killed.
  template <typename Act>
  pid_t process(const Act& act) {
    int ready[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const Result<UniqueFd> socket = os::connect_unix(meeting_socket(folder_.path()), false);
      if (socket) act(socket->get(), ready[1]);
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    UniqueFd end(ready[0]);
    ::close(ready[1]);
    EXPECT_TRUE(os::set_nonblocking(end.get()));
    char byte = 0;
    while (::read(end.get(), &byte, 1) < 0 && errno == EAGAIN) loop_.settle();
    return pid;
  }
  void kill_process(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    loop_.settle();
    loop_.settle();
  }

  os::TempDir folder_;
  os::TestLoop loop_;
  Sweeps sweeps_;
  std::unique_ptr<MeetingPlace> place_;
};

TEST_F(MeetingPlaceTest, WhoAsksFirstMakesItAndTheOthersWaitForIt) {
  Visitor first = visitor();
  Visitor second = visitor();
  Visitor third = visitor();
  EXPECT_EQ(first.ask(get()).is(), "yours");
  const Answer waits = second.ask(get());
  EXPECT_EQ(waits.is(), "awaited");
  EXPECT_EQ(waits.object["pid"], ::getpid());
  EXPECT_EQ(third.ask(get()).is(), "awaited");
  EXPECT_EQ(second.answer().is(), "");

  const UniqueFd fd = memory(kName);
  EXPECT_EQ(first.ask({{"op", "put"}}, {fd.get()}).is(), "held");
  for (Visitor* waiting : {&second, &third}) {
    const Answer here = waiting->answer();
    EXPECT_EQ(here.is(), "here");
    EXPECT_EQ(inode_of(here.fd), inode_of(fd));
  }
  const Answer late = visitor().ask(get());
  EXPECT_EQ(late.is(), "here");
  EXPECT_EQ(inode_of(late.fd), inode_of(fd));
}

TEST_F(MeetingPlaceTest, TwoNamesDoNotWaitForEachOther) {
  Visitor first = visitor();
  Visitor second = visitor();
  EXPECT_EQ(first.ask(get()).is(), "yours");
  EXPECT_EQ(second.ask(get(kOther)).is(), "yours");
}

TEST_F(MeetingPlaceTest, WhereTheMakerLeavesTheNextOneMakesIt) {
  Visitor first = visitor();
  Visitor second = visitor();
  Visitor third = visitor();
  EXPECT_EQ(first.ask(get()).is(), "yours");
  EXPECT_EQ(second.ask(get()).is(), "awaited");
  EXPECT_EQ(third.ask(get()).is(), "awaited");
  first.leave();
  EXPECT_EQ(second.answer().is(), "yours");
  EXPECT_EQ(third.answer().is(), "awaited");
  second.leave();
  EXPECT_EQ(third.answer().is(), "yours");
}

TEST_F(MeetingPlaceTest, AKilledMakerIsGoneAlthoughAChildHasItsConnection) {
  const pid_t maker = process([](int socket, int ready) {
    send_bytes(socket, frame(get().dump()));
    char head[5];
    (void)!::recv(socket, head, sizeof head, MSG_WAITALL);
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    (void)!::write(ready, &child, sizeof child);
    for (;;) ::pause();
  });
  // Its child outlives it: found by its parent, before that is gone.
  pid_t child = 0;
  FILE* children = ::fopen(
      ("/proc/" + std::to_string(maker) + "/task/" + std::to_string(maker) + "/children").c_str(),
      "r");
  ASSERT_NE(children, nullptr);
  ASSERT_EQ(::fscanf(children, "%d", &child), 1);
  ::fclose(children);

  Visitor next = visitor();
  EXPECT_EQ(next.ask(get()).is(), "awaited");
  kill_process(maker);
  EXPECT_EQ(next.answer().is(), "yours");
  ::kill(child, SIGKILL);
}

TEST_F(MeetingPlaceTest, WhatIsHeldForAProcessGoesWithIt) {
  const auto act = [](int socket, int) {
    send_bytes(socket, frame(get().dump()));
    const UniqueFd fd = memory(kName);
    send_bytes(socket, frame(json{{"op", "put"}}.dump()), {fd.get()});
    char answers[64];
    (void)!::recv(socket, answers, 5 + 14 + 5 + 13, MSG_WAITALL);  // "yours", "held"
  };
  const pid_t pid = process(act);
  EXPECT_EQ(place_->held(), 1u);
  kill_process(pid);
  EXPECT_EQ(place_->held(), 0u);
  EXPECT_EQ(visitor().ask(get()).is(), "yours");
}

TEST_F(MeetingPlaceTest, WhatIsHeldForASweepStaysUntilItIsOver) {
  const std::uint64_t inode = made(get_for_job(3));
  EXPECT_EQ(segments()[0]["sweeps"], (json::array({{{"id", 3}, {"sweep", "sweep3"}}})));
  place_->review();
  EXPECT_EQ(inode_of(visitor().ask(get_for_job(3)).fd), inode);
  sweeps_.over.insert({3});
  place_->review();
  EXPECT_EQ(place_->held(), 0u);
  EXPECT_EQ(visitor().ask(get_for_job(3)).is(), "no");
}

TEST_F(MeetingPlaceTest, AJobThatDoesNotExistIsTurnedAway) {
  Visitor stranger = visitor();
  EXPECT_EQ(stranger.ask(get_for_job(17)).is(), "no");
  EXPECT_EQ(stranger.answer().is(), "closed");
}

TEST_F(MeetingPlaceTest, WhatIsKeptStaysUntilItIsDropped) {
  const std::uint64_t inode = made(get_for_job(3));
  EXPECT_EQ(place_->kept(), 0u);
  EXPECT_EQ(visitor().ask(get_to_keep()).is(), "here");
  EXPECT_EQ(place_->kept(), 1u);
  sweeps_.over.insert({3});
  place_->review();
  EXPECT_EQ(inode_of(visitor().ask(get()).fd), inode);

  const json none = json::array();
  EXPECT_EQ(visitor().ask({{"op", "drop"}, {"what", "others"}}).object["names"], none);
  EXPECT_EQ(visitor().ask({{"op", "drop"}, {"what", "tokens"}}).object["names"],
            json::array({kName}));
  EXPECT_EQ(place_->held(), 0u);
}

TEST_F(MeetingPlaceTest, SomethingElseOfTheSameNameIsReplaced) {
  const std::uint64_t old = made(get_to_keep());
  Visitor one = visitor();
  EXPECT_EQ(inode_of(one.ask(get()).fd), old);
  json again = get();
  again["other"] = true;
  EXPECT_EQ(one.ask(again).is(), "yours");
  EXPECT_EQ(inode_of(visitor().ask(get()).fd), old);  // until there is another
  const UniqueFd fd = memory(kName);
  EXPECT_EQ(one.ask({{"op", "put"}}, {fd.get()}).is(), "held");
  EXPECT_EQ(inode_of(visitor().ask(get()).fd), inode_of(fd));
  EXPECT_EQ(place_->kept(), 1u);
}

TEST_F(MeetingPlaceTest, WhatCannotBeUnderstoodIsRefusedInWordsAndLeavesNothing) {
  const UniqueFd good = memory(kName);
  const UniqueFd growing = memory(kName, false);
  const UniqueFd misnamed = memory(kOther);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  struct Case {
    std::string bytes = {};
    std::vector<int> fds = {};
    bool is_maker = false;
    std::string words = {};
  };
  const std::string put = frame(R"({"op":"put"})");
  const auto with = [](const char* key, const json& value) {
    json request = get();
    request[key] = value;
    return frame(request.dump());
  };
  const std::vector<Case> cases = {
      {.bytes = frame("hello"), .words = "one JSON object"},
      {.bytes = frame("[]"), .words = "one JSON object"},
      {.bytes = frame(std::string(300, '[')), .words = "nested"},
      {.bytes = frame(std::string(kMostMeetingBytes + 1, ' ')), .words = "65537 bytes"},
      {.bytes = frame("{}", 'x'), .words = "type"},
      {.bytes = frame("{}"), .words = "`op`"},
      {.bytes = frame(R"({"op":"take"})"), .words = "`op`"},
      {.bytes = with("name", "data"), .words = "`name`"},
      {.bytes = with("name", "../../etc-0123456789abcdef0123456789abcdef"), .words = "`name`"},
      {.bytes = with("name", 7), .words = "`name`"},
      {.bytes = with("title", ""), .words = "`title`"},
      {.bytes = with("scope", "all"), .words = "`scope`"},
      {.bytes = with("scope", "sweep"), .words = "`job`"},
      {.bytes = with("keep", "yes"), .words = "`keep`"},
      {.bytes = frame(R"({"op":"drop"})"), .words = "`what`"},
      {.bytes = frame(R"({"op":"list"})"), .fds = {good.get()}, .words = "0 descriptors"},
      {.bytes = put, .words = "1 descriptors"},
      {.bytes = put, .fds = {good.get()}, .words = "yours"},
      {.bytes = put, .fds = {good.get(), good.get()}, .is_maker = true, .words = "got 2"},
      {.bytes = put, .is_maker = true, .words = "got 0"},
      {.bytes = put, .fds = {reader.get()}, .is_maker = true, .words = "isn't shared memory"},
      {.bytes = put, .fds = {file.get()}, .is_maker = true, .words = "isn't shared memory"},
      {.bytes = put, .fds = {growing.get()}, .is_maker = true, .words = "size is not sealed"},
      {.bytes = put, .fds = {misnamed.get()}, .is_maker = true, .words = kOther},
      {.bytes = frame(get().dump()),
       .is_maker = true,
       .words = "expected `put` after the answer `yours`, and only then"},
  };
  made(get_to_keep(kOther));  // whose name is in use
  visitor().leave();
  const std::size_t before = os::open_fds();
  for (const Case& one : cases) {
    Visitor bad = visitor();
    if (one.is_maker) {
      EXPECT_EQ(bad.ask(get()).is(), "yours");
    }
    const Answer answer = bad.tell(one.bytes, one.fds);
    EXPECT_EQ(answer.is(), "wrong") << one.words;
    EXPECT_NE(answer.object.value("why", "").find(one.words), std::string::npos)
        << answer.object << one.words;
    EXPECT_EQ(bad.answer().is(), "closed") << one.words;
    bad.leave();
    EXPECT_EQ(os::open_fds(), before) << one.words;
  }
  EXPECT_EQ(place_->held(), 1u);
}

TEST_F(MeetingPlaceTest, WhoWaitsMayNotAskForMore) {
  Visitor maker = visitor();
  Visitor waiting = visitor();
  EXPECT_EQ(maker.ask(get()).is(), "yours");
  EXPECT_EQ(waiting.ask(get()).is(), "awaited");
  EXPECT_EQ(waiting.ask(get(kOther)).is(), "wrong");
  EXPECT_EQ(waiting.answer().is(), "closed");
}

TEST_F(MeetingPlaceTest, RandomBytesLeaveNothingBehind) {
  made(get_to_keep());
  std::mt19937 random(20261123);
  const std::vector<std::string> seeds = {frame(get().dump()), frame(get_for_job(3).dump()),
                                          frame(R"({"op":"put"})"), frame(R"({"op":"list"})"),
                                          frame(R"({"op":"drop","what":"x"})")};
  visitor().leave();
  const std::size_t before = os::open_fds();
  for (int round = 0; round < 2'000; ++round) {
    Visitor bad = visitor();
    for (int i = 0; i < 3; ++i) {
      std::string bytes = seeds[random() % seeds.size()];
      for (auto n = random() % 4; n > 0; --n) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      const UniqueFd fd = memory(random() % 2 == 0 ? kOther : kName, random() % 3 != 0);
      std::vector<int> fds(random() % 3, fd.get());
      if (bytes.empty()) fds.clear();
      (void)bad.tell(bytes, fds);
    }
    bad.leave();
  }
  (void)visitor().ask({{"op", "drop"}, {"what", kOther}});
  visitor().leave();
  EXPECT_EQ(os::open_fds(), before);
  EXPECT_EQ(visitor().ask(get()).is(), "here");
}

TEST_F(MeetingPlaceTest, MoreThanCanBeHeldIsNotHeld) {
  place_.reset();
  os::TestLoop loop;
  sweeps_.most = 3;
  const std::unique_ptr<MeetingPlace> small = *sweeps_.open(*loop, folder_.path());
  const auto put = [&](const std::string& name) {
    Visitor maker(loop, folder_.path());
    EXPECT_EQ(maker.ask(get_to_keep(name)).is(), "yours");
    const UniqueFd fd = memory(name);
    return maker.ask({{"op", "put"}}, {fd.get()});
  };
  const std::string begin = "data-0000000000000000000000000000000";
  for (const char* digit : {"1", "2", "3"}) EXPECT_EQ(put(begin + digit).is(), "held");
  const Answer no = put(begin + "4");
  EXPECT_EQ(no.is(), "no");
  EXPECT_NE(no.object["why"].get<std::string>().find("3 segments are open, the maximum"),
            std::string::npos);
  EXPECT_EQ(small->held(), 3u);
}

TEST_F(MeetingPlaceTest, WhoDoesNothingMakesRoomAndWhoWaitsDoesNot) {
  place_.reset();
  os::TestLoop loop;
  sweeps_.most = 3;
  const std::unique_ptr<MeetingPlace> small = *sweeps_.open(*loop, folder_.path());
  Visitor idle(loop, folder_.path());
  Visitor maker(loop, folder_.path());
  Visitor waiting(loop, folder_.path());
  EXPECT_EQ(maker.ask(get()).is(), "yours");
  EXPECT_EQ(waiting.ask(get()).is(), "awaited");
  Visitor second(loop, folder_.path());
  EXPECT_EQ(second.ask(get()).is(), "awaited");
  EXPECT_EQ(idle.answer().is(), "closed");
  Visitor last(loop, folder_.path());
  const Answer no = last.answer();
  EXPECT_EQ(no.is(), "no");
  EXPECT_NE(no.object["why"].get<std::string>().find("3 processes"), std::string::npos);
}

TEST_F(MeetingPlaceTest, TheNextCoordinatorTakesUpWhatProcessesHave) {
  const UniqueFd tokens = memory(kName);
  const UniqueFd of_a_sweep = memory(kOther);
  const std::string gone = "data-00000000000000000000000000000000";
  for (const auto& [request, fd] :
       {std::pair(get_to_keep(), &tokens), std::pair(get_for_job(3, kOther), &of_a_sweep)}) {
    Visitor maker = visitor();
    EXPECT_EQ(maker.ask(request).is(), "yours");
    EXPECT_EQ(maker.ask({{"op", "put"}}, {fd->get()}).is(), "held");
  }
  made(get_to_keep(gone));  // nobody but the coordinator has it
  EXPECT_EQ(place_->held(), 3u);
  place_.reset();  // as when it is killed: what it wrote down stays

  os::TestLoop loop;
  const std::unique_ptr<MeetingPlace> next = *sweeps_.open(*loop, folder_.path());
  EXPECT_EQ(next->held(), 2u);
  EXPECT_EQ(next->kept(), 1u);
  EXPECT_EQ(inode_of(Visitor(loop, folder_.path()).ask(get()).fd), inode_of(tokens));
  sweeps_.over.insert({3});
  next->review();
  EXPECT_EQ(next->held(), 1u);
}

TEST_F(MeetingPlaceTest, WhoIsKilledWhileItTakesUpLosesNothing) {
  const UniqueFd first = memory(kName);
  const UniqueFd second = memory(kOther);
  for (const auto& [request, fd] :
       {std::pair(get_for_job(2), &first), std::pair(get_for_job(3, kOther), &second)}) {
    Visitor maker = visitor();
    EXPECT_EQ(maker.ask(request).is(), "yours");
    EXPECT_EQ(maker.ask({{"op", "put"}}, {fd->get()}).is(), "held");
  }
  place_.reset();

  // What lies there at any moment of the taking up is what a successor would begin with.
  std::vector<std::size_t> lines;
  Holdings next(folder_ / "share.json", 64);
  next.recover([&](SweepId) {
    const Result<std::string> text = os::read_file(folder_ / "share.json", 1 << 20);
    lines.push_back(text ? json::parse(*text).size() : 0);
    return true;
  });
  EXPECT_EQ(lines, (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(next.size(), 2u);
}

TEST_F(MeetingPlaceTest, ADamagedTableIsPassedOver) {
  for (const char* text : {"", "{", "7", "[7,{}]", R"([{"name":1}])"}) {
    ASSERT_TRUE(os::write_file_atomic(folder_ / "share.json", text, 0600, false));
    place_.reset();
    os::TestLoop loop;
    const Result<std::unique_ptr<MeetingPlace>> next = sweeps_.open(*loop, folder_.path());
    ASSERT_TRUE(next) << text;
    EXPECT_EQ((*next)->held(), 0u);
  }
}

}  // namespace
}  // namespace pergpu
