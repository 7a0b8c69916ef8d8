// Waiting for leases without polling, and fairness between two users (gpu/lease_watch.h).
#include "gpu/lease_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include "gpu/yield_patience.h"
#include "support.h"

namespace pergpu::gpu {
namespace {

using std::chrono::milliseconds;

const std::string kUuid = "GPU-watched";

bool waits_for(const LeaseWatch& watch, const std::string& uuid) {
  return std::ranges::count(watch.waiting(), uuid) > 0;
}

class LeaseWatchTest : public testing::Test {
 protected:
  LeaseWatchTest() {
    Result<LeaseFolder> folder = LeaseFolder::open_at(temp_ / "locks");
    EXPECT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    watch_ = open_watch();
  }
  std::unique_ptr<LeaseWatch> open_watch() {
    Result<std::unique_ptr<LeaseWatch>> watch =
        LeaseWatch::open(loop_.loop(), loop_.clock(), *folder_,
                         [this](const std::string& uuid, Result<Lease> lease) {
                           (lease ? got_ : failed_).insert(uuid);
                           if (lease) leases_.push_back(std::move(*lease));
                           if (then_) then_(uuid);
                         });
    EXPECT_TRUE(watch);
    return std::move(*watch);
  }
  // Whether anything came within a few turns of a loop with nothing to wait for.
  void settle() {
    bool over = false;
    loop_.after(milliseconds(30), [&] { over = true; });
    loop_.run_until([&] { return over; });
  }

  TempFolder temp_;
  TestLoop loop_;
  std::optional<LeaseFolder> folder_;
  std::set<std::string> got_;
  std::set<std::string> failed_;
  std::function<void(const std::string&)> then_;
  std::vector<Lease> leases_;
  std::unique_ptr<LeaseWatch> watch_;
};

TEST_F(LeaseWatchTest, FreeLeaseComesButNotInsideTheCall) {
  watch_->wait_for(kUuid);
  EXPECT_TRUE(got_.empty());
  EXPECT_TRUE(waits_for(*watch_, kUuid));
  loop_.run_until([&] { return !got_.empty(); });
  EXPECT_FALSE(waits_for(*watch_, kUuid));
  EXPECT_FALSE(folder_->take(kUuid)) << "we hold it";
}

TEST_F(LeaseWatchTest, ComesWhenTheHolderLetsGo) {
  Result<Lease> held = folder_->take(kUuid);
  ASSERT_TRUE(held);
  watch_->wait_for(kUuid);
  settle();
  EXPECT_TRUE(got_.empty());
  EXPECT_TRUE(folder_->contended(kUuid)) << "the holder sees that somebody waits";
  held->release();
  loop_.run_until([&] { return !got_.empty(); });
  EXPECT_FALSE(folder_->contended(kUuid));
}

TEST_F(LeaseWatchTest, ComesWhenTheLastOfSeveralHoldersEnds) {
  Result<Lease> held = folder_->take(kUuid);
  ASSERT_TRUE(held);
  int gate[2];
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  const pid_t job = ::fork();
  if (job == 0) {
    char byte = 0;
    ::close(gate[1]);
    ::_exit(::read(gate[0], &byte, 1) == 0 ? 0 : 1);
  }
  held->release();
  watch_->wait_for(kUuid);
  settle();
  EXPECT_TRUE(got_.empty());
  ::close(gate[0]);
  ::close(gate[1]);
  loop_.run_until([&] { return !got_.empty(); });
  ::waitpid(job, nullptr, 0);
}

TEST_F(LeaseWatchTest, StopAndDestructionEndTheWaitForOthersToSee) {
  const Result<Lease> held = folder_->take(kUuid);
  ASSERT_TRUE(held);
  watch_->wait_for(kUuid);
  watch_->wait_for("GPU-b");
  EXPECT_TRUE(folder_->contended(kUuid));
  watch_->stop(kUuid);
  EXPECT_FALSE(folder_->contended(kUuid));
  EXPECT_EQ(watch_->waiting(), std::vector<std::string>{"GPU-b"});
  watch_.reset();
  EXPECT_FALSE(folder_->contended("GPU-b"));
  settle();
  EXPECT_TRUE(got_.empty());
}

TEST_F(LeaseWatchTest, CallbackMayWaitForAnother) {
  then_ = [&](const std::string& uuid) {
    if (uuid == kUuid) watch_->wait_for("GPU-b");
  };
  watch_->wait_for(kUuid);
  loop_.run_until([&] { return got_.count("GPU-b") > 0; });
}

TEST_F(LeaseWatchTest, TwoWaitersDoNotWakeEachOther) {
  const Result<Lease> held = folder_->take(kUuid);
  ASSERT_TRUE(held);
  const std::unique_ptr<LeaseWatch> second = open_watch();
  watch_->wait_for(kUuid);
  second->wait_for(kUuid);
  settle();
  int turns = 0;
  loop_.loop().on_turn([&] { ++turns; });
  settle();
  // Its own timer, and at most a few stray ones; a storm makes thousands.
  EXPECT_LT(turns, 20);
}

TEST_F(LeaseWatchTest, FollowsAFileThatWasReplaced) {
  Result<Lease> held = folder_->take(kUuid);
  ASSERT_TRUE(held);
  watch_->wait_for(kUuid);
  settle();
  ASSERT_EQ(::unlink((folder_->path() + "/" + kUuid).c_str()), 0);
  Result<Lease> other = folder_->take(kUuid);
  ASSERT_TRUE(other);
  held->release();
  settle();
  EXPECT_TRUE(got_.empty()) << "the lock of the old file is none";
  other->release();
  loop_.run_until([&] { return !got_.empty(); });
  EXPECT_FALSE(folder_->take(kUuid));
}

TEST_F(LeaseWatchTest, FileThatIsNotInOrderIsReported) {
  ASSERT_EQ(::mkdir((folder_->path() + "/" + kUuid).c_str(), 0755), 0);
  watch_->wait_for(kUuid);
  loop_.run_until([&] { return !failed_.empty(); });
  EXPECT_FALSE(waits_for(*watch_, kUuid));
}

TEST_F(LeaseWatchTest, AfterYieldLetsAWaiterGoFirst) {
  const std::unique_ptr<LeaseWatch> other = open_watch();
  Result<Lease> held = folder_->take(kUuid);
  ASSERT_TRUE(held);
  std::vector<std::string> order;
  then_ = [&](const std::string&) { order.push_back(waits_for(*other, kUuid) ? "us" : "other"); };
  other->wait_for(kUuid);
  settle();
  ASSERT_TRUE(folder_->contended(kUuid));
  watch_->wait_for(kUuid, LeaseWatch::Manner::AfterYield);
  held->release();
  loop_.run_until([&] { return !order.empty(); });
  EXPECT_EQ(order, std::vector<std::string>{"other"});
  EXPECT_TRUE(folder_->contended(kUuid)) << "we wait for our next turn";
  leases_.clear();
  loop_.run_until([&] { return order.size() == 2; });
}

TEST_F(LeaseWatchTest, AfterYieldDoesNotWaitForAWaiterThatIsStopped) {
  Result<Lease> held = folder_->take(kUuid);
  ASSERT_TRUE(held);
  Result<os::UniqueFd> stopped = folder_->open_wanted(kUuid);
  ASSERT_TRUE(stopped);
  ASSERT_EQ(::flock(stopped->get(), LOCK_SH | LOCK_NB), 0);
  watch_->wait_for(kUuid, LeaseWatch::Manner::AfterYield);
  held->release();
  loop_.run_until([&] { return !got_.empty(); });
}

TEST_F(LeaseWatchTest, AFalseWaiterCostsLessEachTime) {
  Result<os::UniqueFd> false_waiter = folder_->open_wanted(kUuid);
  ASSERT_TRUE(false_waiter);
  ASSERT_EQ(::flock(false_waiter->get(), LOCK_SH | LOCK_NB), 0);
  const auto hand_over = [&] {
    Result<Lease> held = folder_->take(kUuid);
    EXPECT_TRUE(held);
    got_.clear();
    const std::int64_t begin_ns = loop_.clock().now().boot_ns;
    watch_->wait_for(kUuid, LeaseWatch::Manner::AfterYield);
    held->release();
    loop_.run_until([&] { return !got_.empty(); });
    leases_.clear();
    return (loop_.clock().now().boot_ns - begin_ns) / 1'000'000;
  };
  EXPECT_GE(hand_over(), YieldPatience::kMost.count());
  std::int64_t total_ms = 0;
  for (int i = 0; i < 20; ++i) total_ms += hand_over();
  EXPECT_LT(total_ms, 10 * YieldPatience::kMost.count()) << "20 times";
}

// A coordinator in small: jobs of 4 ms on every GPU it can lease, hand-over as gpu/lease.h asks.
class SmallCoordinator {
 public:
  SmallCoordinator(const LeaseFolder& folder, std::vector<std::string> gpus, int jobs, int stamps,
                   os::UniqueFd all_held)
      : folder_(folder),
        gpus_(std::move(gpus)),
        jobs_(jobs),
        stamps_(stamps),
        all_held_(std::move(all_held)) {
    Result<std::unique_ptr<LeaseWatch>> watch = LeaseWatch::open(
        loop_.loop(), loop_.clock(), folder_, [this](const std::string& uuid, Result<Lease> lease) {
          if (lease) on_lease(uuid, std::move(*lease));
        });
    if (watch) watch_ = std::move(*watch);
  }
  int run() {
    if (!watch_) return 2;
    for (const std::string& uuid : gpus_) watch_->wait_for(uuid);
    loop_.run_until([&] { return ended_ == jobs_; });
    return ended_ == jobs_ ? 0 : 3;
  }

 private:
  void on_lease(const std::string& uuid, Lease lease) {
    if (started_ == jobs_) return;
    held_[uuid] = std::move(lease);
    if (held_.size() == gpus_.size()) all_held_.reset();
    start(uuid);
  }
  void start(const std::string& uuid) {
    if (++started_ == jobs_) {
      for (const std::string& other : watch_->waiting()) watch_->stop(other);
    }
    const std::int64_t begin = loop_.clock().now().boot_ns;
    loop_.after(milliseconds(4), [this, uuid, begin] {
      const std::string stamp =
          fmt::format("{} {} {} {}\n", uuid, ::getuid(), begin, loop_.clock().now().boot_ns);
      if (::write(stamps_, stamp.data(), stamp.size()) < 0) ::_exit(4);
      on_end(uuid);
    });
  }
  void on_end(const std::string& uuid) {
    ++ended_;
    if (started_ < jobs_ && !folder_.contended(uuid)) return start(uuid);
    if (started_ < jobs_) watch_->wait_for(uuid, LeaseWatch::Manner::AfterYield);
    held_.erase(uuid);
  }

  TestLoop loop_;
  const LeaseFolder& folder_;
  std::vector<std::string> gpus_;
  int jobs_;
  int stamps_;
  os::UniqueFd all_held_;
  int started_ = 0;
  int ended_ = 0;
  std::map<std::string, Lease> held_;
  std::unique_ptr<LeaseWatch> watch_;
};

struct Stamp {
  std::string gpu = {};
  int user = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

void two_users_share(std::array<uid_t, 2> uids) {
  constexpr int kJobs = 500;
  TempFolder temp;
  ASSERT_EQ(::chmod(temp.path().c_str(), 0755), 0);
  ASSERT_TRUE(LeaseFolder::open_at(temp / "locks"));
  std::vector<std::string> gpus;
  for (int i = 0; i < 8; ++i) gpus.push_back(fmt::format("GPU-{}", i));
  // One file a user: without a second uid the stamps tell them apart all the same.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::array<os::UniqueFd, 2> all_held = {os::UniqueFd(ends[0]), os::UniqueFd(ends[1])};
  std::array<pid_t, 2> children = {};
  for (std::size_t user = 0; user < 2; ++user) {
    children[user] = ::fork();
    if (children[user] == 0) {
      const os::UniqueFd stamps(::open((temp / fmt::format("stamps.{}", user)).c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      const uid_t uid = uids[user];
      if (uid != ::getuid() &&
          (::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0)) {
        ::_exit(90);
      }
      Result<LeaseFolder> folder = LeaseFolder::open_at(temp / "locks");
      ::_exit(
          folder
              ? SmallCoordinator(*folder, gpus, kJobs, stamps.get(), std::move(all_held[1])).run()
              : 91);
    }
    // The second one comes when the first one has all GPUs.
    char byte = 0;
    all_held[1].reset();
    if (user == 0) {
      EXPECT_EQ(::read(all_held[0].get(), &byte, 1), 0);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }

  std::vector<Stamp> stamps;
  std::array<std::set<std::string>, 2> used;
  for (int user = 0; user < 2; ++user) {
    std::istringstream lines(*os::read_file(temp / fmt::format("stamps.{}", user), 1 << 20));
    int jobs = 0;
    Stamp stamp{.user = user};
    for (uid_t uid = 0; lines >> stamp.gpu >> uid >> stamp.begin >> stamp.end; ++jobs) {
      EXPECT_EQ(uid, uids[static_cast<std::size_t>(user)]);
      stamps.push_back(stamp);
      used[static_cast<std::size_t>(user)].insert(stamp.gpu);
    }
    EXPECT_EQ(jobs, kJobs);
  }
  EXPECT_GE(used[0].size(), 6u);
  EXPECT_GE(used[1].size(), 6u);
  std::ranges::sort(stamps, {}, [](const Stamp& s) { return std::pair(s.gpu, s.begin); });
  int turns = 0;
  for (std::size_t i = 1; i < stamps.size(); ++i) {
    if (stamps[i].gpu != stamps[i - 1].gpu) continue;
    ASSERT_GE(stamps[i].begin, stamps[i - 1].end) << "two jobs at once on " << stamps[i].gpu;
    turns += stamps[i].user != stamps[i - 1].user ? 1 : 0;
  }
  EXPECT_GT(turns, kJobs) << "while both have jobs, each GPU changes hands at each job";
}

TEST(TwoCoordinators, ShareEightGpusWithoutOverlapAndTakeTurns) {
  two_users_share({::getuid(), ::getuid()});
}

TEST(TwoUsers, ShareEightGpusWithoutOverlapAndTakeTurns) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: two uids share the GPUs of one machine";
  two_users_share({12345, 65534});
}

}  // namespace
}  // namespace pergpu::gpu
