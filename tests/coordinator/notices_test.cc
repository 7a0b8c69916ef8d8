// What the coordinator tells the channels of [notify], over failures, holds, the end, and restarts.
#include "notify/notices.h"

#include <nlohmann/json.hpp>

#include "simulation.h"

namespace pergpu::testing {
namespace {

using nlohmann::json;

struct NoticesTest : ::testing::Test {
  static SweepSpec told(int runs, const std::string& duration, const std::string& exit,
                        NotifySpec notify = {}) {
    SweepSpec sweep = sweep_of("told", runs);
    sweep.steps.push_back(step_of("main", duration, exit));
    if (notify.webhook.empty()) notify.slack = "$SLACK";
    sweep.notify.push_back(std::move(notify));
    return sweep;
  }
  static json notice(const Simulation::Delivery& delivery) {
    return json::parse(delivery.request.text).at("notice");
  }
  /// Runs to the end of all; `answer(n)` is what comes of message n.  The notices, in order.
  static std::vector<json> drive(
      Simulation& sim,
      const std::function<Result<void>(int)>& answer = [](int) { return Result<void>(); }) {
    std::vector<json> all;
    for (;;) {
      sim.run([&] { return all.size() < sim.deliveries.size(); });
      if (all.size() == sim.deliveries.size()) return all;
      const Simulation::Delivery next = sim.deliveries[all.size()];
      all.push_back(notice(next));
      next.done(answer(static_cast<int>(all.size()) - 1));
    }
  }
  bool keeps_environment() const {
    bool is_there = false;
    for (const Row& row : store.rows) {
      if (const auto* environment = std::get_if<row::Environment>(&row))
        is_there = !environment->entries.empty();
    }
    return is_there;
  }
  static SubmitContext with_environment() {
    SubmitContext context;
    context.env = {"SLACK=https://example.org/x"};
    return context;
  }
  /// The newest text of the sweep's debts in the store.
  std::string debts() const {
    std::string text;
    for (const Row& row : store.rows) {
      if (const auto* meta = std::get_if<row::Meta>(&row); meta && meta->key == "notify.1")
        text = meta->value;
    }
    return text;
  }

  MemoryStore store;
  SimClock clock;
};

TEST_F(NoticesTest, TheEndIsToldOnceWithTheCounts) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(6, "10s", "0")));
  const std::vector<json> all = drive(sim);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["events"], json({"end"}));
  EXPECT_EQ(all[0]["counts"], json({{"done", 6}}));
  EXPECT_EQ(all[0]["jobs"].size(), 6U);
  EXPECT_EQ(debts(), "");
  EXPECT_TRUE(sim.core->idle());
}

TEST_F(NoticesTest, TheRequestHoldsNoSecret) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(1, "1s", "0"), with_environment()));
  sim.run();
  ASSERT_EQ(sim.deliveries.size(), 1U);
  const std::string& text = sim.deliveries[0].request.text;
  EXPECT_EQ(text.find("example.org"), std::string::npos) << text;
  EXPECT_NE(text.find("$SLACK"), std::string::npos);
  EXPECT_EQ(debts().find("example.org"), std::string::npos);
}

TEST_F(NoticesTest, ManyFailuresAreFewMessagesAndNoneIsLost) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(80, "60s", "1")));
  const std::vector<json> all = drive(sim);
  std::int64_t failures = 0;
  for (const json& one : all) failures += one["failures"].get<std::int64_t>();
  EXPECT_EQ(failures, 80) << "20 min of them";
  EXPECT_GE(all.size(), 3U);
  EXPECT_LE(all.size(), 6U);
  EXPECT_LE(all[0]["failures"], 8) << "the first are told at once";
  EXPECT_EQ(all.back()["events"], json({"failure", "end"}));
  for (const json& one : all) EXPECT_LE(one["failed"].size(), kMostNamed);
}

TEST_F(NoticesTest, WhatTheBreakerHoldsIsTold) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(2000, "1s", "2")));
  std::vector<json> all;
  while (clock.ns < 60 * kSecond) {
    sim.run_for(kSecond);
    for (; all.size() < sim.deliveries.size(); all.push_back(notice(sim.deliveries[all.size()]))) {
      sim.deliveries[all.size()].done({});
    }
  }
  ASSERT_FALSE(all.empty());
  EXPECT_LE(all.size(), 2U) << "2000 held jobs are one piece of news";
  const auto tells_of_it = [](const json& one) {
    return one["hold"].get<std::string>().find("held by the breaker") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(all.begin(), all.end(), tells_of_it), 1);
  const json& hold = *std::find_if(all.begin(), all.end(), tells_of_it);
  EXPECT_GE(hold["counts"]["held"], 1990);
  const std::string text = hold["hold"];
  EXPECT_NE(text.find("jobs of step main held since"), std::string::npos) << text;
  EXPECT_NE(text.find(" is tried "), std::string::npos) << text;
  for (const json& one : all) EXPECT_EQ(one["ended_at"], nullptr) << "more is to be tried";
}

TEST_F(NoticesTest, WhatAPersonHoldsIsNot) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(8, "10s", "0", {.on_end = false})));
  sim.run([&] { return sim.count(JobState::Running) == 4; });
  std::vector<JobId> queued;
  for (const Job& job : sim.world.jobs()) {
    if (job.state == JobState::Queued) queued.push_back(job.id);
  }
  sim.core->hold(queued, "held by bob");
  EXPECT_TRUE(drive(sim).empty());
  EXPECT_TRUE(sim.core->idle());
}

TEST_F(NoticesTest, EachChannelIsToldWhatItWants) {
  Simulation sim(store, clock);
  SweepSpec sweep = told(4, "10s", "1", {.on_hold = false, .on_end = false});
  sweep.notify.push_back({.on_failure = false, .on_hold = false, .webhook = "https://example.org"});
  ASSERT_TRUE(sim.submit(sweep));
  const std::vector<json> all = drive(sim);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_NE(all[0]["events"], all[1]["events"]);
  for (const json& one : all) EXPECT_EQ(one["events"].size(), 1U);
}

TEST_F(NoticesTest, ARefusedMessageIsSentAgainAfterAPause) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(1, "10s", "0"), with_environment()));
  const auto refuse_twice = [&](int n) -> Result<void> {
    EXPECT_FALSE(sim.core->idle());
    EXPECT_TRUE(keeps_environment());
    if (n < 2) return Error{ErrorKind::Unavailable, 0, "HTTP 503"};
    EXPECT_NE(debts().find("HTTP 503"), std::string::npos);
    return {};
  };
  const std::vector<json> all = drive(sim, refuse_twice);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["events"], all[2]["events"]);
  EXPECT_GE(clock.ns, 16 * kSecond) << "10 s, and pauses of 2 and 4 s";
  EXPECT_EQ(debts(), "");
  EXPECT_FALSE(keeps_environment()) << "nobody needs it any more";
}

TEST_F(NoticesTest, WhatNeverArrivesIsGivenUpAndSaidSo) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(1, "10s", "0"), with_environment()));
  const std::vector<json> all = drive(sim, [](int) {
    return Error{ErrorKind::Unavailable, 0, "no route to host"};
  });
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kMostTries));
  EXPECT_TRUE(sim.core->idle());
  EXPECT_FALSE(keeps_environment());
  const std::vector<std::string> words = sim.core->notices().words_of(*sim.world.sweep(SweepId{1}));
  ASSERT_EQ(words.size(), 1U);
  EXPECT_NE(words[0].find("slack $SLACK: gave up after"), std::string::npos) << words[0];
}

TEST_F(NoticesTest, AKillBetweenTheEventAndItsMessageLosesNothing) {
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(told(3, "10s", "0"), with_environment()));
    sim.run();
    ASSERT_EQ(sim.deliveries.size(), 1U) << "on its way, and nobody knows whether it arrived";
  }
  Simulation again(store, clock);
  EXPECT_EQ(again.world.sweep(SweepId{1})->id, SweepId{1})
      << "it was brought back from the archive";
  const std::vector<json> all = drive(again);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["events"], json({"end"}));
  EXPECT_EQ(all[0]["counts"], json({{"done", 3}}));
  EXPECT_FALSE(keeps_environment());
  Simulation third(store, clock);
  third.run();
  EXPECT_TRUE(third.deliveries.empty()) << "told once is enough";
  EXPECT_TRUE(third.core->idle());
}

TEST_F(NoticesTest, NothingIsSentBeforeItsEventIsDurable) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(1, "10s", "0")));
  sim.run([&] { return sim.count(JobState::Running) == 1; });
  store.failing = true;
  sim.run_for(30 * kSecond);
  EXPECT_TRUE(sim.deliveries.empty());
  store.failing = false;
  EXPECT_EQ(drive(sim).size(), 1U);
}

TEST_F(NoticesTest, AChannelThatTheFileDropsIsToldNoMore) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(1, "10s", "0")));
  sim.run();
  ASSERT_EQ(sim.deliveries.size(), 1U);
  SweepSpec changed = told(1, "10s", "0");
  changed.notify = {};
  ASSERT_TRUE(sim.submit(changed));
  sim.deliveries[0].done(Error{ErrorKind::Unavailable, 0, "HTTP 503"});
  sim.run();
  EXPECT_EQ(sim.deliveries.size(), 1U);
  EXPECT_TRUE(sim.core->idle());
  EXPECT_EQ(debts(), "");
}

TEST_F(NoticesTest, ALargeSweepIsToldInAFewRows) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(told(1000, "10ms", "0")));
  const std::vector<json> all = drive(sim);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["counts"], json({{"done", 1000}}));
  EXPECT_LE(all[0]["jobs"].size(), 40U);
  EXPECT_EQ(all[0]["runs_left_out"], 1000 - 40);
}

}  // namespace
}  // namespace pergpu::testing
