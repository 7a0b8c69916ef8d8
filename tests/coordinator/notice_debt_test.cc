// When a message is due, what a failed one leaves, and what the store keeps of it.
#include "notify/notice_debt.h"

#include <gtest/gtest.h>

#include "timers.h"

namespace pergpu {
namespace {

constexpr std::int64_t kNow = 1'000 * kSecond;

NoticeDebt failures(int count) {
  NoticeDebt debt;
  for (int i = 1; i <= count; ++i) add_failure(debt, {i});
  return debt;
}

TEST(NoticeDebt, FailuresAreCountedAndTheFirstOnesNamed) {
  const NoticeDebt debt = joined(failures(8), failures(1'000'000));
  EXPECT_EQ(debt.failures, 1'000'008);
  EXPECT_EQ(debt.failed.size(), kMostNamed);
  EXPECT_EQ(to_words(debt), "1000008 failures");
}

TEST(NoticeDebt, JoinedKeepsWhatIsNewer) {
  NoticeDebt older{.hold = "old", .ended_wall_ns = 1};
  older = joined(older, {.hold = "new"});
  EXPECT_EQ(older.hold, "new");
  EXPECT_EQ(older.ended_wall_ns, 1);
  EXPECT_EQ(joined(older, failures(2)).failures, 2);
  EXPECT_EQ(to_words(joined(older, failures(1))), "1 failure, held jobs and the end");
}

TEST(NoticeDebt, KeepsWhichDiskLetsNoJobStart) {
  const NoticeDebt debt = joined({.outage = "old"}, {.outage = "/data is full"});
  EXPECT_FALSE(debt.empty());
  EXPECT_EQ(to_words(debt), "a disk problem that keeps jobs from starting");
  ChannelStates states;
  states["slack"].owed = debt;
  const Result<ChannelStates> read = channel_states_of(to_text(states));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->at("slack").owed, debt);
}

TEST(NoticeDebt, TheFirstFailureIsDueAtOnceAndLaterOnesTogether) {
  ChannelState state{.owed = failures(1), .since_ns = kNow};
  EXPECT_LE(due_ns(state), kNow + kSecond);
  state.last_sent_ns = kNow - kSecond;
  EXPECT_GE(due_ns(state), kNow + 200 * kSecond);
  state.owed.ended_wall_ns = 1;
  EXPECT_EQ(due_ns(state), kNow) << "the end does not wait, and takes the failures along";
}

TEST(NoticeDebt, AFailedTryIsOwedAgainTogetherWithWhatCameMeanwhile) {
  ChannelState state{.owed = failures(2), .sending = failures(3)};
  EXPECT_FALSE(put_off(state, "HTTP 503", kNow));
  EXPECT_FALSE(state.is_sending());
  EXPECT_EQ(state.owed.failures, 5);
  EXPECT_EQ(state.trouble, "HTTP 503");
  EXPECT_GT(due_ns(state), kNow);
}

TEST(NoticeDebt, PausesGrowAndStayBelowAQuarterOfAnHour) {
  EXPECT_EQ(pause_after(1), 2 * kSecond);
  EXPECT_EQ(pause_after(2), 4 * kSecond);
  for (int tries = 1; tries < kMostTries; ++tries) {
    EXPECT_GE(pause_after(tries + 1), pause_after(tries));
    EXPECT_LE(pause_after(tries), 900 * kSecond);
  }
}

TEST(NoticeDebt, IsGivenUpAfterSomeHours) {
  ChannelState state;
  std::int64_t now = kNow;
  int tries = 0;
  for (bool is_over = false; !is_over; ++tries) {
    state.sending = failures(1);
    state.owed = {};
    is_over = put_off(state, "no route to host", now);
    now = std::max(now, state.not_before_ns);
  }
  EXPECT_EQ(tries, kMostTries);
  EXPECT_GE(now - kNow, 5 * 3600 * kSecond);
  EXPECT_LE(now - kNow, 8 * 3600 * kSecond);
  EXPECT_FALSE(state.owes());
  EXPECT_NE(state.trouble.find("gave up after 34 tries: no route to host"), std::string::npos);
}

TEST(NoticeDebt, AnArrivalSettlesWhatWasSentAndNoMore) {
  ChannelState state{.owed = failures(1), .sending = failures(2), .tries = 3, .trouble = "x"};
  settle_debt(state, kNow);
  EXPECT_EQ(state.owed.failures, 1);
  EXPECT_EQ(state.tries, 0);
  EXPECT_EQ(state.trouble, "");
  EXPECT_TRUE(state.owes());
}

TEST(NoticeDebt, WhatIsOnItsWayIsOwedInTheStore) {
  ChannelStates states;
  states["slack $S"] = {.owed = failures(1),
                        .sending = {.hold = "h\"\n", .ended_wall_ns = 7},
                        .tries = 2,
                        .trouble = "t"};
  states["ntfy quiet"] = {};
  const Result<ChannelStates> back = channel_states_of(to_text(states));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->size(), 1U);
  const ChannelState& state = back->at("slack $S");
  EXPECT_EQ(state.owed, joined(states["slack $S"].sending, states["slack $S"].owed));
  EXPECT_EQ(state.tries, 2);
  EXPECT_EQ(state.trouble, "t");
  EXPECT_LE(due_ns(state), 0) << "after a restart at once";
}

TEST(NoticeDebt, WhatTheStoreSaysIsTakenForWhatItIs) {
  EXPECT_TRUE(channel_states_of("")->empty());
  EXPECT_FALSE(channel_states_of("[]"));
  EXPECT_FALSE(channel_states_of("{"));
  EXPECT_FALSE(channel_states_of(std::string(100'000, '[')));
  const Result<ChannelStates> odd =
      channel_states_of(R"({"a":{"failures":-3,"failed":["x",1],"hold":4,"tries":1000000},"b":7})");
  ASSERT_TRUE(odd);
  EXPECT_FALSE(odd->at("a").owes());
  EXPECT_LE(odd->at("a").tries, kMostTries);
}

}  // namespace
}  // namespace pergpu
