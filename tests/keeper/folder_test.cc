#include "keeper/folder.h"

#include <atomic>
#include <thread>

#include "keeper/rig.h"

namespace pergpu::keeper::rig {
namespace {

class AttemptFolder : public testing::Test {
 protected:
  std::string out() const { return folder_.path() + "/runs/sweep/01/train"; }
  Folder plan(std::int32_t attempt) const {
    return {.out = out(),
            .attempt = attempt,
            .umask = 027,
            .files = {{.path = out() + "/config.json", .content = "{}", .keep_if_same = true}}};
  }
  std::string read(const std::string& name) const { return slurp(out() + "/" + name); }
  /// What attempt `number` of job `job` leaves.
  void leave(std::int64_t job, std::int32_t number, const std::string& state = "running") const {
    spill(out() + "/log.txt", "log of " + name(job, number));
    spill(out() + "/attempt.json", record(job, number, state));
  }
  Start start(std::int64_t job, std::int32_t number) const {
    Start start;
    start.id = {{job}, number};
    start.folder = plan(number);
    start.record_path = out() + "/attempt.json";
    start.record_at_start = record(job, number, "running");
    return start;
  }
  /// The folder as make_folder() makes it for job and attempt, below no root that is known.
  os::HeldFolder made(const Folder& folder) const {
    Result<os::HeldFolder> held = make_folder(folder, {});
    EXPECT_TRUE(held);
    return *std::move(held);
  }
  std::optional<SetupFailure> prepare(std::int32_t attempt) const {
    return prepare_folder(plan(attempt), made(plan(attempt)));
  }
  Taken take(const Start& start) const { return take_folder(start, made(start.folder)); }
  Forget end(std::int64_t job, std::int32_t number) const {
    return {.id = {{job}, number},
            .record_path = out() + "/attempt.json",
            .final_record = record(job, number, "done")};
  }
  static std::string name(std::int64_t job, std::int32_t number) {
    return std::to_string(job) + "." + std::to_string(number);
  }
  static std::string record(std::int64_t job, std::int32_t number, const std::string& state) {
    return "{\n  \"schema\": 1,\n  \"job\": " + std::to_string(job) +
           ",\n  \"attempt\": " + std::to_string(number) + ",\n  \"state\": \"" + state + "\",\n";
  }
  bool is_there(const std::string& name) const {
    return std::filesystem::exists(out() + "/" + name);
  }

  TempFolder folder_;
};

TEST_F(AttemptFolder, IsMadeWithTheUmaskOfTheSweep) {
  EXPECT_FALSE(prepare(1));
  EXPECT_EQ(read("config.json"), "{}");
  struct stat st = {};
  ASSERT_EQ(::stat((out() + "/config.json").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640u);
  ASSERT_EQ(::stat(out().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0750u);
}

TEST_F(AttemptFolder, UnchangedConfigIsNotTouched) {
  EXPECT_FALSE(prepare(1));
  struct stat before = {};
  struct stat after = {};
  ASSERT_EQ(::stat((out() + "/config.json").c_str(), &before), 0);
  EXPECT_FALSE(prepare(2));
  ASSERT_EQ(::stat((out() + "/config.json").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(AttemptFolder, PreparingMovesNothing) {
  EXPECT_FALSE(prepare(1));
  leave(3, 1);
  EXPECT_FALSE(prepare(1));
  EXPECT_FALSE(prepare(2));
  EXPECT_EQ(read("log.txt"), "log of 3.1");
}

TEST_F(AttemptFolder, FreshOneIsTakenWithoutARecord) {
  EXPECT_FALSE(prepare(1));
  EXPECT_TRUE(take(start(3, 1)).was_fresh);
  EXPECT_FALSE(is_there("attempt.json"));
}

TEST_F(AttemptFolder, EarlierAttemptMovesAside) {
  EXPECT_FALSE(prepare(1));
  leave(3, 1);
  EXPECT_FALSE(take(start(3, 2)).was_fresh);
  EXPECT_EQ(read("log.1.txt"), "log of 3.1");
  EXPECT_EQ(read("attempt.1.json"), record(3, 1, "running"));
  EXPECT_EQ(read("attempt.json"), record(3, 2, "running"));
  EXPECT_FALSE(is_there("log.txt"));
}

TEST_F(AttemptFolder, TakenTwiceMovesOnce) {
  EXPECT_FALSE(prepare(1));
  leave(3, 1);
  take(start(3, 2));
  spill(out() + "/log.txt", "log of 3.2");
  take(start(3, 2));
  EXPECT_EQ(read("log.txt"), "log of 3.2");
  EXPECT_EQ(read("log.1.txt"), "log of 3.1");
}

TEST_F(AttemptFolder, AttemptThatNeverRanLeavesANumberFree) {
  EXPECT_FALSE(prepare(1));
  leave(3, 1);
  take(start(3, 3));  // the second one was lost before it started
  EXPECT_EQ(read("log.1.txt"), "log of 3.1");
  EXPECT_FALSE(is_there("log.2.txt"));
}

TEST_F(AttemptFolder, EarlierJobOfTheSameFolderMovesAside) {
  EXPECT_FALSE(prepare(1));
  leave(2, 4);
  take(start(3, 1));
  EXPECT_EQ(read("log.old.txt"), "log of 2.4");
  EXPECT_EQ(read("attempt.old.json"), record(2, 4, "running"));
}

TEST_F(AttemptFolder, JobOfTheSameNumberInAnotherHomeIsAnotherJob) {
  EXPECT_FALSE(prepare(1));
  leave(3, 1, "done");
  take(start(3, 1));
  EXPECT_EQ(read("log.old.txt"), "log of 3.1");
  EXPECT_EQ(read("attempt.old.json"), record(3, 1, "done"));
  EXPECT_EQ(read("attempt.json"), record(3, 1, "running"));
}

TEST_F(AttemptFolder, RecordOfAnOlderLogGoesWithIt) {
  EXPECT_FALSE(prepare(1));
  leave(1, 1, "done");
  take(start(2, 1));
  spill(out() + "/log.txt", "log of 2.1");
  std::filesystem::remove(out() + "/attempt.json");  // as if it could not be written
  take(start(3, 1));
  EXPECT_EQ(read("log.old.txt"), "log of 2.1");
  EXPECT_FALSE(is_there("attempt.old.json"));
}

TEST_F(AttemptFolder, LateEndGoesToWhereItsRecordWasMoved) {
  EXPECT_FALSE(prepare(1));
  leave(3, 1);
  take(start(3, 2));
  EXPECT_FALSE(leave_folder(end(3, 1)));
  EXPECT_EQ(read("attempt.1.json"), record(3, 1, "done"));
  EXPECT_EQ(read("attempt.json"), record(3, 2, "running"));
}

TEST_F(AttemptFolder, LateEndOfAnAttemptWithoutARecordGoesBesideItsLog) {
  EXPECT_FALSE(prepare(1));
  EXPECT_TRUE(take(start(3, 1)).was_fresh);
  spill(out() + "/log.txt", "log of 3.1");  // it ended before its record was due
  take(start(3, 2));
  EXPECT_EQ(read("log.1.txt"), "log of 3.1");
  EXPECT_FALSE(leave_folder(end(3, 1)));
  EXPECT_EQ(read("attempt.1.json"), record(3, 1, "done"));
  EXPECT_EQ(read("attempt.json"), record(3, 2, "running"));
}

TEST_F(AttemptFolder, LateEndOfAnotherJobGoesToItsOldRecord) {
  EXPECT_FALSE(prepare(1));
  leave(2, 1);
  take(start(3, 1));
  EXPECT_FALSE(leave_folder(end(2, 1)));
  EXPECT_EQ(read("attempt.old.json"), record(2, 1, "done"));
  EXPECT_FALSE(leave_folder(end(1, 1)));  // whose files are gone
  EXPECT_EQ(read("attempt.old.json"), record(2, 1, "done"));
  EXPECT_EQ(read("attempt.json"), record(3, 1, "running"));
}

TEST_F(AttemptFolder, NumberedFilesOfAnotherJobMisleadNobody) {
  EXPECT_FALSE(prepare(1));
  spill(out() + "/log.1.txt", "log of 2.1");
  spill(out() + "/attempt.1.json", record(2, 1, "failed"));
  leave(2, 2, "failed");
  take(start(3, 1));
  spill(out() + "/log.txt", "log of 3.1");
  EXPECT_FALSE(leave_folder(end(3, 1)));
  EXPECT_EQ(read("attempt.json"), record(3, 1, "done"));
  take(start(3, 2));
  EXPECT_EQ(read("log.1.txt"), "log of 3.1");
  EXPECT_EQ(read("attempt.1.json"), record(3, 1, "done"));
}

TEST_F(AttemptFolder, RecordThatIsWrittenAtTheEndOnlyHasTheModeOfTheLog) {
  for (const mode_t mode : {0600u, 0640u, 0664u}) {
    std::filesystem::remove_all(out());
    EXPECT_FALSE(prepare(1));
    spill(out() + "/log.txt", "log");
    ASSERT_EQ(::chmod((out() + "/log.txt").c_str(), mode), 0);
    EXPECT_FALSE(leave_folder(end(17, 1)));
    struct stat st = {};
    ASSERT_EQ(::stat((out() + "/attempt.json").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, mode);
  }
}

TEST_F(AttemptFolder, LinksUnderTheNamesOfItsFilesAreReplacedNeverFollowed) {
  EXPECT_FALSE(prepare(1));
  const std::string victim = folder_.path() + "/victim";
  for (const char* name : {"config.json", "attempt.json"}) {
    spill(victim, "{}");  // even the content that would be kept
    std::filesystem::remove(out() + "/" + name);
    std::filesystem::create_symlink(victim, out() + "/" + name);
    EXPECT_FALSE(prepare(1));
    EXPECT_FALSE(leave_folder(end(17, 1)));
    EXPECT_FALSE(std::filesystem::is_symlink(out() + "/" + name)) << name;
    EXPECT_EQ(slurp(victim), "{}");
  }
}

TEST_F(AttemptFolder, EndReplacesTheRecordOfTheStartOnce) {
  EXPECT_FALSE(prepare(1));
  leave(3, 1);
  EXPECT_FALSE(leave_folder(end(3, 1)));
  EXPECT_EQ(read("attempt.json"), record(3, 1, "done"));
  Forget again = end(3, 1);
  again.final_record = record(3, 1, "poorer");
  EXPECT_FALSE(leave_folder(again));
  EXPECT_EQ(read("attempt.json"), record(3, 1, "done"));
}

TEST(RecordHead, IsReadFromTheBeginning) {
  const std::optional<RecordHead> head =
      record_head("{\n \"job\": 5,\n \"attempt\": 12,\n \"state\": \"running\"");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->id, (AttemptId{{5}, 12}));
  EXPECT_FALSE(head->has_ended);
  EXPECT_TRUE(record_head(R"({"job":5,"attempt":12,"state": "done")")->has_ended);
  EXPECT_FALSE(record_head("{\n \"job\": 5,\n \"attempt\": 7"));  // cut: may be 70
  EXPECT_FALSE(record_head(R"({"attempt": 7, "state": "done"})"));
  EXPECT_FALSE(record_head(""));
}

TEST_F(AttemptFolder, PreparingAheadReplacesNothing) {
  EXPECT_TRUE(prepare_ahead(plan(1)));
  EXPECT_EQ(read("config.json"), "{}");
  EXPECT_TRUE(prepare_ahead(plan(1)));
  spill(out() + "/config.json", "of another home");
  EXPECT_FALSE(prepare_ahead(plan(1)));
  EXPECT_EQ(read("config.json"), "of another home");
}

TEST_F(AttemptFolder, InARootThatWasReplacedNothingIsTouched) {
  const std::string root = folder_.path() + "/runs";
  const Root noted{.path = root, .note = folder_.path() + "/roots/a/1"};
  const Root of_another{.path = root, .note = folder_.path() + "/roots/a/2"};
  Start start = this->start(3, 1);
  start.root = noted;
  const auto claim = [&] { return claim_folder(start).failure; };
  ASSERT_FALSE(claim()) << "the first one is noted";
  ASSERT_TRUE(std::filesystem::exists(noted.note));

  std::filesystem::rename(root, root + ".away");
  std::filesystem::create_directory(root);
  const std::optional<SetupFailure> refused = claim();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->phase, kRootReplaced);
  EXPECT_EQ(refused->os_errno, ESTALE);
  EXPECT_EQ(refused->object, root);
  EXPECT_FALSE(prepare_ahead(start.folder, noted));
  EXPECT_TRUE(std::filesystem::is_empty(root));

  std::filesystem::remove(root);
  std::filesystem::rename(root + ".away", root);
  EXPECT_FALSE(claim()) << "it is back";
  EXPECT_TRUE(prepare_ahead(start.folder, of_another));

  std::filesystem::remove_all(root);
  EXPECT_TRUE(prepare_ahead(start.folder, noted)) << "one that was removed is made again";
  EXPECT_FALSE(claim()) << "and is the one from then on";
  EXPECT_TRUE(prepare_ahead(start.folder, of_another)) << "for others, too";
  EXPECT_FALSE(claim_folder(this->start(4, 1)).failure) << "of a coordinator that notes none";
}

/// Another user who can write there may be faster than the keeper.
TEST_F(AttemptFolder, AFolderThatTakesThePlaceOfARemovedRootIsNotTheRoot) {
  const std::string root = folder_.path() + "/runs";
  Start start = this->start(3, 1);
  start.root = {.path = root, .note = folder_.path() + "/roots/a/1"};
  ASSERT_FALSE(claim_folder(start).failure);
  const std::string noted = slurp(start.root.note);
  std::filesystem::rename(root, root + ".away");
  std::filesystem::create_directories(out());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(claim_folder(start).failure) << i;
    EXPECT_FALSE(prepare_ahead(start.folder, start.root)) << i;
  }
  Forget end = this->end(3, 1);
  end.root = start.root;
  EXPECT_TRUE(leave_folder(end));
  EXPECT_TRUE(std::filesystem::is_empty(out()));
  EXPECT_EQ(slurp(start.root.note), noted);
}

TEST_F(AttemptFolder, IsLeftWithoutLocks) {
  const std::string beside = out().substr(0, out().rfind('/')) + "/.pergpu-lock.train";
  const auto has_lock = [&] { return is_there(".pergpu-lock") || std::filesystem::exists(beside); };
  Start start = this->start(3, 1);
  start.root = {.path = folder_.path() + "/runs"};
  Forget end = this->end(3, 1);
  end.root = start.root;
  const auto claim = [&] { ASSERT_FALSE(claim_folder(start).failure); };

  claim();
  EXPECT_TRUE(has_lock());
  EXPECT_FALSE(leave_folder({.id = end.id})) << "it has no record";
  EXPECT_TRUE(has_lock());
  EXPECT_FALSE(leave_folder(end));
  EXPECT_FALSE(has_lock());

  claim();
  EXPECT_FALSE(leave_folder(end)) << "its record has an end already";
  EXPECT_FALSE(has_lock());

  claim();
  std::filesystem::remove(out() + "/attempt.json");
  std::filesystem::create_directory(out() + "/attempt.json");  // where no record can be written
  EXPECT_TRUE(leave_folder(end));
  EXPECT_FALSE(has_lock());

  claim();
  std::filesystem::remove_all(out());
  EXPECT_TRUE(std::filesystem::exists(beside));
  EXPECT_TRUE(leave_folder(end));
  EXPECT_FALSE(has_lock());

  Claim held = claim_folder(start);
  ASSERT_FALSE(held.failure);
  (void)leave_folder(end);
  EXPECT_TRUE(has_lock()) << "of an attempt that has the folder";
}

/// A neighbor can move a link of the user to where results are to go.
TEST_F(AttemptFolder, ALinkOfTheUserIsNotFollowedWhereOthersCanWrite) {
  const std::string victim = folder_.path() + "/victim";
  const std::string run = out().substr(0, out().rfind('/'));
  Start start = this->start(3, 1);
  start.root = {.path = folder_.path() + "/runs"};
  Forget end = this->end(3, 1);
  end.root = start.root;
  for (const std::string& link : {out(), run, run.substr(0, run.rfind('/'))}) {
    std::filesystem::remove_all(folder_.path() + "/runs");
    std::filesystem::remove_all(victim);
    std::filesystem::create_directories(link.substr(0, link.rfind('/')));
    std::filesystem::create_directories(victim + out().substr(link.size()));
    ASSERT_EQ(::symlink(victim.c_str(), link.c_str()), 0);
    ASSERT_EQ(::chmod((folder_.path() + "/runs").c_str(), 0775), 0);
    const std::optional<SetupFailure> refused = claim_folder(start).failure;
    ASSERT_TRUE(refused) << link;
    EXPECT_EQ(refused->phase, "program") << "the object is a whole sentence";
    EXPECT_EQ(
        refused->object.find(link + " is a symbolic link in a folder that other users or a group"),
        0u)
        << refused->object;
    EXPECT_FALSE(prepare_ahead(start.folder, start.root));
    EXPECT_FALSE(write_record(start));
    write_late_record(start);
    EXPECT_TRUE(leave_folder(end));
    EXPECT_TRUE(std::filesystem::is_empty(victim + out().substr(link.size())));

    ASSERT_EQ(::chmod((folder_.path() + "/runs").c_str(), 0755), 0);
    EXPECT_FALSE(claim_folder(start).failure) << "where nobody else writes it's the user's wish";
  }
}

/// Of two keepers that find it removed, one makes it; the other one waits for the note.
TEST_F(AttemptFolder, ARemovedRootIsMadeAgainByOneOfMany) {
  const std::string root = folder_.path() + "/runs";
  Start first = start(3, 1);
  first.root = {.path = root, .note = folder_.path() + "/roots/a/1"};
  ASSERT_FALSE(claim_folder(first).failure);
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove_all(root);
    std::atomic<int> refused = 0;
    std::vector<std::thread> keepers;
    for (int i = 0; i < 4; ++i) {
      keepers.emplace_back([&, i] {
        Start mine = first;
        mine.folder.out += std::to_string(i);
        if (claim_folder(mine).failure) ++refused;
      });
    }
    for (std::thread& keeper : keepers) keeper.join();
    EXPECT_EQ(refused, 0);
  }
}

TEST_F(AttemptFolder, IsClaimedByOneAtATime) {
  Start first = start(3, 1);
  first.holder = "job 3 of sweep a";
  Claim held = claim_folder(first);
  ASSERT_FALSE(held.failure) << held.failure->phase;
  const Claim refused = claim_folder(start(4, 1));
  ASSERT_TRUE(refused.failure);
  EXPECT_EQ(refused.failure->phase, kFolderInUse);
  EXPECT_EQ(refused.failure->object, "job 3 of sweep a");
  held.lock.release();
  EXPECT_FALSE(claim_folder(start(4, 1)).failure);
}

/// Jobs are counted in each home: what is called 3.1 here may be another home's.
TEST_F(AttemptFolder, AnotherHomesAttemptOfThatNumberIsAnotherJobs) {
  const auto of_home = [](const std::string& home, const std::string& state) {
    return "{\n  \"schema\": 1,\n  \"job\": 3,\n  \"attempt\": 1,\n  \"state\": \"" + state +
           "\",\n  \"home\": \"" + home + "\",\n";
  };
  EXPECT_FALSE(prepare(1));
  spill(out() + "/log.txt", "theirs");
  spill(out() + "/attempt.json", of_home("/theirs", "running"));
  Start ours = start(3, 1);
  ours.record_at_start = of_home("/ours", "running");
  EXPECT_FALSE(take(ours).was_fresh);
  EXPECT_EQ(read("log.old.txt"), "theirs");
  Forget theirs = end(3, 1);
  theirs.final_record = of_home("/theirs", "done");
  EXPECT_FALSE(leave_folder(theirs));
  EXPECT_EQ(read("attempt.json"), of_home("/ours", "running"));
  EXPECT_EQ(read("attempt.old.json"), of_home("/theirs", "done"));
  Forget mine = end(3, 1);
  mine.final_record = of_home("/ours", "done");
  EXPECT_FALSE(leave_folder(mine));
  EXPECT_EQ(read("attempt.json"), of_home("/ours", "done"));
}

TEST_F(AttemptFolder, ALinkOfAnotherUserIsNamedAndNothingBehindItIsTouched) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a link of another user";
  const std::string victim = folder_.path() + "/victim";
  std::filesystem::create_directories(victim);
  ASSERT_EQ(::chmod(victim.c_str(), 0700), 0);
  for (const char* name : {"config.json", "log.txt", "attempt.json"})
    spill(victim + "/" + name, "precious");
  for (const std::string& link : {out(), out().substr(0, out().rfind('/'))}) {
    std::filesystem::remove_all(folder_.path() + "/runs");
    std::filesystem::create_directories(link.substr(0, link.rfind('/')));
    ASSERT_EQ(::symlink(victim.c_str(), link.c_str()), 0);
    ASSERT_EQ(::lchown(link.c_str(), 61001, 61001), 0);
    const auto refused = [&](const std::optional<SetupFailure>& failure) {
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->phase, "program") << "the object is a whole sentence";
      EXPECT_EQ(failure->object.find(link + " is a symbolic link that belongs to uid 61001"), 0u)
          << failure->object;
    };
    Start start = this->start(3, 2);
    EXPECT_FALSE(prepare_ahead(start.folder));
    refused(claim_folder(start).failure);
    refused(leave_folder(end(3, 2)));
    (void)write_record(start);
    write_late_record(start);
  }
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(victim)) {
    EXPECT_EQ(slurp(file.path()), "precious") << file.path();
    ++files;
  }
  EXPECT_EQ(files, 3);
  struct stat st = {};
  ASSERT_EQ(::stat(victim.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace pergpu::keeper::rig
