// The wire: what is written is read, what is cut or forged is refused without harm, and what a
// later release appends is passed over.
#include "keeper/protocol.h"

#include <gtest/gtest.h>

#include "keeper/notify.h"
#include "keeper/revive.h"

namespace pergpu::keeper {
namespace {

Start full_start() {
  Start start;
  start.id = {{17}, 2};
  start.folder = {
      .out = "/o", .attempt = 2, .umask = 077, .files = {{"/o/config.json", "{}", true}}};
  start.argv = {"a", "", "c"};
  start.env = {"A=1"};
  start.limits = {{7, ~std::uint64_t{0}}};
  start.cpu_list = {0, 3};
  start.lease_count = 1;
  start.outputs = {"/o/model.pt"};
  start.grace_ns = -5;
  start.ready_path = "/o/metrics.jsonl";
  start.shell = Shell{.limits = {{7, 1024, 4096}}, .nice = -3, .cpus = {0, 1}, .groups = {4}};
  return start;
}

TEST(Wire, ReadsWhatItWrote) {
  const std::optional<Start> read = decode<Start>(encode(full_start()));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id, (AttemptId{{17}, 2}));
  EXPECT_EQ(read->folder.files.at(0).path, "/o/config.json");
  EXPECT_TRUE(read->folder.files.at(0).keep_if_same);
  EXPECT_EQ(read->argv, (std::vector<std::string>{"a", "", "c"}));
  EXPECT_EQ(read->limits.at(0).soft, ~std::uint64_t{0});
  EXPECT_EQ(read->cpu_list, (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(read->grace_ns, -5);
  EXPECT_EQ(encode(*read), encode(full_start()));
}

TEST(Wire, StartOfAnEarlierReleaseHasNoShell) {
  Start start = full_start();
  start.shell.reset();
  std::string bytes = encode(start);
  bytes.resize(bytes.size() - 3 * sizeof(std::uint32_t));  // of an empty root
  ASSERT_TRUE(decode<Start>(bytes));
  bytes.pop_back();  // the one byte that says that there is none
  const std::optional<Start> read = decode<Start>(bytes);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->shell);
  EXPECT_EQ(read->ready_path, "/o/metrics.jsonl");
}

TEST(Wire, KeepsOptionalFieldsApart) {
  State state;
  state.held.push_back(Held{.started = Started{{{1}, 1}, 5, 6}});
  state.held.push_back(Held{.exited = Exited{.id = {{2}, 1}, .exit_code = 0}});
  const std::optional<State> read = decode<State>(encode(state));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->held.size(), 2u);
  EXPECT_FALSE(read->held[0].exited);
  EXPECT_EQ(read->held[1].exited->exit_code, 0);
  EXPECT_FALSE(read->held[1].exited->signal);
}

TEST(Wire, BytesThatAreCutOrForgedAreHarmless) {
  const std::string bytes = encode(full_start());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    (void)decode<Start>(std::string_view(bytes).substr(0, size));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char forged : {'\xff', '\x7f', '\0'}) {
      std::string wrong = bytes;
      wrong[at] = forged;
      (void)decode<Start>(wrong);
    }
  }
  EXPECT_FALSE(decode<Notify>(std::string("\x0c\0\0\0", 4)));       // shorter than it says
  EXPECT_FALSE(decode<Start>(std::string("\xff\xff\xff\xff", 4)));  // longer than anything
}

TEST(Wire, FieldsOfALaterReleaseArePassedOver) {
  EXPECT_EQ(decode<Stop>(encode(Stop{.id = {{1}, 2}, .kill = true}) + "more")->id.number, 2);
}

TEST(Wire, FieldsThatAnEarlierReleaseLacksKeepTheirDefaults) {
  std::string bytes = encode(Stop{.id = {{1}, 2}, .kill = true});
  bytes.pop_back();  // as if `kill` did not exist yet
  const std::optional<Stop> read = decode<Stop>(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id.number, 2);
  EXPECT_FALSE(read->kill);
}

constexpr std::int64_t kMs = 1'000'000;

TEST(NotifyFilter, ForwardsKnownKeysWithoutControlCharacters) {
  NotifyFilter filter;
  EXPECT_EQ(filter.accept("STATUS=a\x1b[31m\nMAINPID=1\nREADY=1\nSTATUSX=2", 0),
            (std::vector<std::string>{"STATUS=a?[31m", "READY=1"}));
  EXPECT_EQ(filter.accept("CHECKPOINT=" + std::string(5000, 'x'), 0).at(0).size(),
            NotifyFilter::kLongestLine);
}

TEST(NotifyFilter, OfManyLinesTheLastIsSentWhenItsTimeHasCome) {
  NotifyFilter filter;
  EXPECT_EQ(filter.accept("PROGRESS=1/9", 0).size(), 1u);
  EXPECT_FALSE(filter.next_due());
  EXPECT_TRUE(filter.accept("PROGRESS=2/9", 1 * kMs).empty());
  EXPECT_TRUE(filter.accept("PROGRESS=3/9", 2 * kMs).empty());
  EXPECT_EQ(filter.next_due(), 200 * kMs);
  EXPECT_TRUE(filter.due(199 * kMs).empty());
  EXPECT_EQ(filter.due(200 * kMs), (std::vector<std::string>{"PROGRESS=3/9"}));
  EXPECT_FALSE(filter.next_due());
}

TEST(ReviveSchedule, NeverMoreThanFiveInAMinute) {
  ReviveSchedule schedule(42);
  constexpr std::int64_t kSecond = 1000 * kMs;
  std::vector<std::int64_t> starts;
  std::int64_t now = kSecond;
  schedule.lost(now);
  while (starts.size() < 50) {
    now = *schedule.next();
    schedule.started(now);
    starts.push_back(now);
    if (starts.size() % 3 == 0) schedule.lost(now);  // it connected and was killed again
  }
  for (std::size_t i = 5; i < starts.size(); ++i)
    EXPECT_GE(starts[i] - starts[i - 5], 60 * kSecond) << i;
}

TEST(ReviveSchedule, FirstComesSoonAndConnectionCancelsIt) {
  ReviveSchedule schedule(7);
  schedule.lost(1000 * kMs);
  ASSERT_TRUE(schedule.next());
  EXPECT_LT(*schedule.next(), 1100 * kMs);
  schedule.cancel();
  EXPECT_FALSE(schedule.next());
}

TEST(ReviveSchedule, OneThatYieldsLetsOthersBeFirst) {
  ReviveSchedule schedule(7);
  schedule.lost(1000 * kMs, /*yields=*/true);
  EXPECT_GE(*schedule.next(), 4000 * kMs);
  EXPECT_LT(*schedule.next(), 4100 * kMs);
}

TEST(ReviveSchedule, OneThatDoesNotConnectIsFollowedByAnother) {
  ReviveSchedule schedule(7);
  schedule.lost(2000 * kMs);
  schedule.started(2050 * kMs);
  ASSERT_TRUE(schedule.next());
  EXPECT_GE(*schedule.next(), 14'050 * kMs);
  EXPECT_LT(*schedule.next(), 17'050 * kMs);
}

}  // namespace
}  // namespace pergpu::keeper
