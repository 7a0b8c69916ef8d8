// The fake engine on a simulated clock.
#include "run/fake.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <map>

namespace pergpu {
namespace {

constexpr std::int64_t kHour = 3'600'000'000'000;

/// A clock that jumps from callback to callback.
class Simulation final : public os::Clock {
 public:
  Instant now() override { return {.wall_ns = now_, .boot_ns = now_}; }
  void at(std::int64_t boot_ns, std::function<void()> callback) {
    callbacks_.emplace(boot_ns, std::move(callback));
  }
  void run_until(std::int64_t boot_ns) {
    while (!callbacks_.empty() && callbacks_.begin()->first <= boot_ns) {
      auto node = callbacks_.extract(callbacks_.begin());
      now_ = std::max(now_, node.key());
      node.mapped()();
    }
    now_ = boot_ns;
  }

 private:
  std::int64_t now_ = 0;
  std::multimap<std::int64_t, std::function<void()>> callbacks_;
};

class FakeEngineTest : public testing::Test {
 protected:
  void start(AttemptId id, std::chrono::milliseconds duration, int exit) {
    AttemptPlan plan;
    plan.id = id;
    plan.fake_duration = duration;
    plan.fake_exit = exit;
    engine_.start({}, std::move(plan));
  }
  template <typename Event>
  const Event* at(std::size_t index) const {
    return index < events_.size() ? std::get_if<Event>(&events_[index]) : nullptr;
  }

  Simulation clock_;
  std::vector<EngineEvent> events_;
  FakeEngine engine_{
      clock_, [this](std::int64_t at, std::function<void()> f) { clock_.at(at, std::move(f)); },
      [this](const EngineEvent& e) { events_.push_back(e); }};
};

constexpr AttemptId kId = {{1}, 1};

TEST_F(FakeEngineTest, AttemptTakesItsTimeAndEndsAsPlanned) {
  start(kId, std::chrono::hours(1), 3);
  EXPECT_TRUE(events_.empty());  // nothing is reported inside the call
  clock_.run_until(kHour - 1);
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_TRUE(at<engine_event::Started>(0));
  clock_.run_until(kHour);
  ASSERT_EQ(events_.size(), 2u);
  ASSERT_TRUE(at<engine_event::Exited>(1));
  EXPECT_EQ(at<engine_event::Exited>(1)->exit_code, 3);
  EXPECT_EQ(at<engine_event::Exited>(1)->exited_at.boot_ns, kHour);
  EXPECT_EQ(engine_.running(), 0u);
}

TEST_F(FakeEngineTest, StoppedAttemptEndsByTheSignalOnce) {
  start(kId, std::chrono::hours(1), 0);
  clock_.run_until(kHour / 2);
  engine_.stop(kId, StopHow::TermThenKill);
  engine_.stop(kId, StopHow::Kill);
  clock_.run_until(2 * kHour);
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(at<engine_event::Exited>(1)->signal, SIGTERM);
  EXPECT_FALSE(at<engine_event::Exited>(1)->exit_code);
  EXPECT_EQ(at<engine_event::Exited>(1)->exited_at.boot_ns, kHour / 2);
}

TEST_F(FakeEngineTest, RestartLosesEverything) {
  engine_.adopt({{.id = kId}});
  clock_.run_until(0);
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_TRUE(at<engine_event::Lost>(0)->proven_gone);
}

}  // namespace
}  // namespace pergpu
