// Jobs that wait for their folder (coordinator/folder_waits.h), without the simulation.
#include "coordinator/folder_waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace pergpu {
namespace {

class Time final : public os::Clock {
 public:
  Instant now() override { return {.wall_ns = ns, .boot_ns = ns}; }
  std::int64_t ns = kSecond;
};

class FolderWaitsTest : public testing::Test {
 protected:
  FolderWaitsTest() {
    timers_.at = [this](std::int64_t at, std::function<void()> callback) {
      due_.emplace(at, std::move(callback));
      return Timers::Id{due_.size()};
    };
    timers_.cancel = [](Timers::Id) {};
  }
  std::unique_ptr<FolderWaits> make(bool looks = true) {
    FolderWaits::Parts parts{.clock = &clock_,
                             .timers = &timers_,
                             .is_queued = [this](JobId id) { return queued_.contains(id); },
                             .freed = [this](JobId id) { freed_.push_back(id); },
                             .changed = [this](JobId id) { changed_.push_back(id); }};
    if (looks) {
      parts.look = [this](std::string folder, FolderWaits::Found found) {
        looks_.emplace_back(std::move(folder), std::move(found));
      };
    }
    return std::make_unique<FolderWaits>(std::move(parts));
  }
  /// The next timer.
  void pass() {
    auto next = due_.extract(due_.begin());
    clock_.ns = std::max(clock_.ns, next.key());
    next.mapped()();
  }
  void answer(std::optional<std::string> holder) {
    auto [folder, found] = std::move(looks_.front());
    looks_.erase(looks_.begin());
    found(std::move(holder));
  }

  Time clock_;
  Timers timers_;
  std::multimap<std::int64_t, std::function<void()>> due_;
  std::vector<std::pair<std::string, FolderWaits::Found>> looks_;
  std::set<JobId> queued_ = {JobId{1}};
  std::vector<JobId> freed_;
  std::vector<JobId> changed_;
};

TEST_F(FolderWaitsTest, SaysForWhomAndEndsWhenTheFolderIsFree) {
  auto waits = make();
  waits->add({1}, "/x/train", "job 3 of sweep s");
  EXPECT_EQ(waits->words({1}), "waits for folder /x/train, in use by job 3 of sweep s");
  pass();
  ASSERT_EQ(looks_.size(), 1u);
  EXPECT_EQ(looks_.front().first, "/x/train");
  answer("job 3 of sweep s");
  EXPECT_TRUE(changed_.empty());
  pass();
  answer("job 8 of sweep t");
  EXPECT_EQ(changed_, std::vector<JobId>{{1}});
  EXPECT_EQ(waits->words({1}), "waits for folder /x/train, in use by job 8 of sweep t");
  EXPECT_TRUE(waits->has({1}));
  pass();
  answer(std::nullopt);
  EXPECT_EQ(freed_, std::vector<JobId>{{1}});
  EXPECT_TRUE(waits->empty());
}

TEST_F(FolderWaitsTest, LooksOnceASecondAtMost) {
  auto waits = make();
  waits->add({1}, "/x", "a");
  std::int64_t before = clock_.ns;
  for (int look = 0; look < 8; ++look) {
    pass();
    answer("a");
    EXPECT_LE(clock_.ns - before, kSecond);
    before = clock_.ns;
  }
  pass();
  EXPECT_EQ(clock_.ns - before, kSecond);
}

/// A look finds free what the start is refused.
TEST_F(FolderWaitsTest, PauseGrowsFromRefusalToRefusalUpToAMinute) {
  auto waits = make();
  const auto refused = [&] {
    const std::int64_t before = clock_.ns;
    waits->add({1}, "/x", "a");
    pass();
    answer(std::nullopt);
    return clock_.ns - before;
  };
  std::int64_t last = refused();
  EXPECT_LT(last, kSecond);
  for (int i = 0; i < 9; ++i) {
    const std::int64_t next = refused();
    EXPECT_EQ(next, std::min(2 * last, 60 * kSecond));
    last = next;
  }
  EXPECT_EQ(refused(), 60 * kSecond);
  waits->forget({1});  // it has had the folder
  EXPECT_LT(refused(), kSecond);
}

TEST_F(FolderWaitsTest, LooksAreAsOftenAsEverAfterManyRefusals) {
  auto waits = make();
  for (int i = 0; i < 12; ++i) {
    waits->add({1}, "/x", "a");
    pass();
    answer(std::nullopt);
  }
  waits->add({1}, "/x", "a");
  pass();
  answer("a");
  const std::int64_t before = clock_.ns;
  pass();
  EXPECT_EQ(clock_.ns - before, kSecond);
}

TEST_F(FolderWaitsTest, AJobThatIsQueuedNoLongerIsLetGo) {
  auto waits = make();
  waits->add({1}, "/x", "a");
  queued_.clear();
  pass();
  EXPECT_TRUE(looks_.empty());
  EXPECT_TRUE(waits->empty());
}

TEST_F(FolderWaitsTest, WithoutAnybodyWhoLooksItWaitsOnce) {
  auto waits = make(/*looks=*/false);
  waits->add({1}, "/x", "a");
  pass();
  EXPECT_EQ(freed_, std::vector<JobId>{{1}});
}

TEST_F(FolderWaitsTest, ALookThatComesBackTooLateDoesNothing) {
  auto waits = make();
  waits->add({1}, "/x", "a");
  pass();
  waits.reset();
  answer(std::nullopt);
  EXPECT_TRUE(freed_.empty());
}

}  // namespace
}  // namespace pergpu
