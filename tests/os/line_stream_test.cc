// Lines over a socket: whole, in order, at the reader's pace.
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "fixture.h"
#include "os/clock.h"
#include "os/ipc/socket.h"

namespace pergpu::os {
namespace {

TEST(LineStream, LinesArriveWholeHoweverTheyAreCut) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  std::vector<std::string> lines;
  auto stream =
      LineStream::open(*loop, std::move(near),
                       {.on_line = [&](std::string_view line) { lines.emplace_back(line); },
                        .on_close = [&](const Error&) { loop->stop(); }});
  ASSERT_TRUE(stream);
  for (const char c : std::string("one\n\ntwo\nthr")) {
    ASSERT_EQ(::send(far.get(), &c, 1, 0), 1);
    loop.settle();
  }
  ASSERT_EQ(::send(far.get(), "ee\nrest", 7, 0), 7);
  far.reset();
  loop.run();
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two", "three"}));
}

TEST(LineStream, MegabytesToASlowReader) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  const std::string big(5u << 20, 'x');
  std::size_t lines = 0;
  auto writer = LineStream::open(*loop, std::move(near),
                                 {.on_line = [](std::string_view) {}, .on_close = {}});
  ASSERT_TRUE(writer);
  (*writer)->send(big);
  (*writer)->send("small");
  EXPECT_GT((*writer)->pending(), 0u);
  auto reader = LineStream::open(*loop, std::move(far),
                                 {.on_line =
                                      [&](std::string_view line) {
                                        EXPECT_EQ(line.size(), ++lines == 1 ? big.size() : 5u);
                                        if (lines == 2) loop->stop();
                                      },
                                  .on_close = {}});
  ASSERT_TRUE(reader);
  loop.run();
  loop.settle();
  EXPECT_EQ((*writer)->pending(), 0u);
}

TEST(LineStream, IdleAfterFlushing) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  auto writer = LineStream::open(*loop, std::move(near),
                                 {.on_line = [](std::string_view) {}, .on_close = {}});
  ASSERT_TRUE(writer);
  (*writer)->send(std::string(1u << 20, 'x'));
  std::vector<char> sink(2u << 20);
  while ((*writer)->pending() > 0) {
    ASSERT_GT(::recv(far.get(), sink.data(), sink.size(), 0), 0);
    loop.settle();
  }
  int turns = 0;
  loop->on_turn([&] { ++turns; });
  loop->at(boot_now_ns() + 30'000'000, [&] { loop->stop(); });
  loop.run();
  EXPECT_LE(turns, 4);  // EPOLLOUT is not watched with nothing to write
}

TEST(LineStream, DestroyedInsideOnLine) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  std::unique_ptr<LineStream> stream;
  std::vector<std::string> lines;
  auto opened = LineStream::open(*loop, std::move(near),
                                 {.on_line =
                                      [&](std::string_view line) {
                                        stream.reset();
                                        lines.emplace_back(line);  // still valid
                                      },
                                  .on_close = [&](const Error&) { ADD_FAILURE(); }});
  ASSERT_TRUE(opened);
  stream = std::move(*opened);
  ASSERT_EQ(::send(far.get(), "a\nb\nc\n", 6, 0), 6);
  loop.settle();
  EXPECT_EQ(lines, (std::vector<std::string>{"a"}));
}

TEST(LineStream, DestroyedInsideOnClose) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  std::unique_ptr<LineStream> stream;
  auto opened = LineStream::open(*loop, std::move(near),
                                 {.on_line = [](std::string_view) {},
                                  .on_close =
                                      [&](const Error& why) {
                                        stream.reset();
                                        EXPECT_EQ(why.kind, ErrorKind::Unavailable);
                                        loop->stop();
                                      }});
  ASSERT_TRUE(opened);
  stream = std::move(*opened);
  far.reset();
  loop.run();
  EXPECT_EQ(stream, nullptr);
}

TEST(LineStream, LinesBeforeTheEndAreDelivered) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  std::vector<std::string> log;
  auto stream = LineStream::open(*loop, std::move(near),
                                 {.on_line = [&](std::string_view l) { log.emplace_back(l); },
                                  .on_close =
                                      [&](const Error&) {
                                        log.emplace_back("<end>");
                                        loop->stop();
                                      }});
  ASSERT_TRUE(stream);
  ASSERT_EQ(::send(far.get(), "last words\n", 11, 0), 11);
  far.reset();
  loop.run();
  EXPECT_EQ(log, (std::vector<std::string>{"last words", "<end>"}));
}

TEST(LineStream, ManyExpensiveLinesAreSpreadOverTurns) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  int turns = 0;
  std::vector<int> turn_of_line;
  std::string text;
  const auto work = [&](std::string_view line) {
    text += line;
    turn_of_line.push_back(turns);
    const std::int64_t until = boot_now_ns() + 6'000'000;
    while (boot_now_ns() < until) {
    }
  };
  auto stream = LineStream::open(
      *loop, std::move(near), {.on_line = work, .on_close = [&](const Error&) { loop->stop(); }});
  ASSERT_TRUE(stream);
  loop->on_turn([&] { ++turns; });
  ASSERT_EQ(::send(far.get(), "a\nb\nc\nd", 7, 0), 7);
  loop.settle();
  ASSERT_EQ(::send(far.get(), "e\n", 2, 0), 2);
  far.reset();
  loop.run();
  EXPECT_EQ(text, "abcde");
  EXPECT_GE(turn_of_line.back() - turn_of_line.front(), 3);
}

TEST(LineStream, SendingToAPeerThatLeftIsReportedOnceAndRaisesNoSignal) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  int closes = 0;
  auto stream = LineStream::open(*loop, std::move(near),
                                 {.on_line = [](std::string_view) {},
                                  .on_close =
                                      [&](const Error&) {
                                        ++closes;
                                        loop->stop();
                                      }});
  ASSERT_TRUE(stream);
  far.reset();
  for (int i = 0; i < 3; ++i) (*stream)->send("anybody?");
  EXPECT_EQ(closes, 0);  // never inside send
  loop.run();
  loop.settle();
  EXPECT_EQ(closes, 1);
  (*stream)->send("still?");
  EXPECT_EQ((*stream)->pending(), 0u);
}

class PausedStream : public testing::Test {
 protected:
  void SetUp() override {
    auto [near, other] = socket_pair();
    far = std::move(other);
    auto opened = LineStream::open(*loop, std::move(near),
                                   {.on_line = [this](std::string_view l) { on_line(l); },
                                    .on_close = [this](const Error&) { on_line("<end>"); }});
    ASSERT_TRUE(opened);
    stream = std::move(*opened);
    loop->on_turn([this] { ++turn_count; });
  }
  void on_line(std::string_view line) {
    lines.emplace_back(line);
    if (pauses) stream->pause(true);
  }
  void say(std::string_view text) {
    ASSERT_EQ(::send(far.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  /// How often the loop turns in 30 ms.
  int turns() {
    const int before = turn_count;
    loop->at(boot_now_ns() + 30'000'000, [&] { loop->stop(); });
    loop.run();
    return turn_count - before;
  }
  TestLoop loop;
  UniqueFd far;
  std::unique_ptr<LineStream> stream;
  std::vector<std::string> lines;
  bool pauses = true;
  int turn_count = 0;
};

TEST_F(PausedStream, GivesOneLineAfterTheOther) {
  say("a\nb\nc\nd");
  const std::vector<std::string> all{"a", "b", "c", "d"};
  for (std::size_t i = 1; i <= 3; ++i) {
    loop.settle();
    EXPECT_EQ(lines, std::vector<std::string>(all.begin(), all.begin() + static_cast<long>(i)));
    stream->pause(false);
  }
  say("\n");
  loop.settle();
  EXPECT_EQ(lines, all);
}

TEST_F(PausedStream, LeavesTheRestToThePeerAndSleeps) {
  stream->pause(true);
  say("later\n");
  EXPECT_LE(turns(), 3);
  EXPECT_TRUE(lines.empty());
  int waiting = 0;
  ASSERT_EQ(::ioctl(stream->fd(), FIONREAD, &waiting), 0);
  EXPECT_EQ(waiting, 6);
  stream->send("told");
  char got[5] = {};
  EXPECT_EQ(::recv(far.get(), got, sizeof got, 0), 5);
  stream->pause(false);
  loop.settle();
  EXPECT_EQ(lines, (std::vector<std::string>{"later"}));
}

TEST_F(PausedStream, AnsweredAtOnceItIsAsIfItNeverPaused) {
  pauses = false;
  say("a\nb\n");
  stream->pause(true);
  stream->pause(false);
  loop.settle();
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "b"}));
}

TEST_F(PausedStream, GivesOneLineAfterTheOtherAlthoughThePeerHasLeft) {
  say("a\nb\nc");
  loop.settle();
  say("\n");  // still in the socket when it closes
  far.reset();
  EXPECT_LE(turns(), 3);
  EXPECT_TRUE(stream->peer_has_left());
  const std::vector<std::string> all{"a", "b", "c", "<end>"};
  for (std::size_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(lines, std::vector<std::string>(all.begin(), all.begin() + static_cast<long>(i)));
    stream->send("told");  // to nobody
    EXPECT_LE(turns(), 4);
    EXPECT_EQ(lines.size(), i);
    if (i == 4) break;
    stream->pause(false);
    turns();
  }
}

TEST_F(PausedStream, ThatGetsNoMoreStillAnswers) {
  say("a\nb\n");
  ASSERT_EQ(::shutdown(far.get(), SHUT_WR), 0);
  loop.settle();
  EXPECT_LE(turns(), 3);
  EXPECT_EQ(lines, (std::vector<std::string>{"a"}));
  stream->send("told");
  char got[5] = {};
  EXPECT_EQ(::recv(far.get(), got, sizeof got, 0), 5);
  pauses = false;
  stream->pause(false);
  loop.settle();
  loop.settle();
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "b", "<end>"}));
}

TEST(LineStream, LineLongerThanTheLimitCloses) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  std::string why;
  auto stream = LineStream::open(*loop, std::move(near),
                                 {.on_line = [](std::string_view) { ADD_FAILURE(); },
                                  .on_close =
                                      [&](const Error& error) {
                                        why = error.message;
                                        loop->stop();
                                      }},
                                 10);
  ASSERT_TRUE(stream);
  ASSERT_EQ(::send(far.get(), "0123456789ab", 12, 0), 12);
  loop.run();
  EXPECT_NE(why.find("10 bytes"), std::string::npos);
}

TEST(LineStream, ClosesWhenFlushed) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  bool closed = false;
  const std::string big(3u << 20, 'x');
  auto writer = LineStream::open(*loop, std::move(near),
                                 {.on_line = [](std::string_view) { ADD_FAILURE(); },
                                  .on_close = [&](const Error&) { closed = true; }});
  ASSERT_TRUE(writer);
  (*writer)->send(big);
  (*writer)->close_when_flushed();
  EXPECT_FALSE(closed);
  ASSERT_EQ(::send(far.get(), "unread\n", 7, 0), 7);
  std::size_t got = 0;
  auto reader = LineStream::open(*loop, std::move(far),
                                 {.on_line = [&](std::string_view line) { got = line.size(); },
                                  .on_close = [&](const Error&) { loop->stop(); }});
  ASSERT_TRUE(reader);
  loop.run();
  EXPECT_EQ(got, big.size());
  EXPECT_TRUE(closed);
}

}  // namespace
}  // namespace pergpu::os
