// The store of a task: what is stored can be read by another machine at once, whole files only, and
// the next life of the task begins where the last one ended.
#include "store/record_store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "os/fs/file.h"
#include "store/replay.h"

namespace pergpu {
namespace {

using store::Record;
using store::RecordName;

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/pergpu-records-XXXXXX";
    root_ = ::mkdtemp(name.data());
    path = root_ + "/sweep/.slurm/key";
    (void)os::make_dirs(path, 0755);
  }
  ~Folder() { (void)os::remove_tree(root_); }
  std::string path = {};

 private:
  std::string root_ = {};
};

row::Event event(JobId job, JobEvent e, std::int64_t at) {
  return {.job = job, .event = std::move(e), .at = {at, at}};
}

RecordStore::Parts parts(const Folder& folder, std::int32_t life = 1) {
  RecordStore::Parts out{.folder = folder.path, .task = 4, .life = life};
  out.rows = {row::NewJob{.id = {17}, .sweep = {1}, .at = {1, 1}}};
  return out;
}

/// Appends and waits until that is answered.
Result<void> store_now(RecordStore& store, Batch batch) {
  std::optional<Result<void>> answer;
  store.append(std::move(batch), [&](Result<void> result) { answer = std::move(result); });
  while (!answer) {
    pollfd fd{store.completion_fd(), POLLIN, 0};
    if (::poll(&fd, 1, 20'000) != 1) return Error{ErrorKind::Unavailable, 0, "no answer"};
    store.drain();
  }
  return *answer;
}

Result<store::Life> read(const Folder& folder, std::int32_t life, std::int32_t after = 0) {
  return store::read_life(folder.path, {4, life, after});
}

TEST(RecordStore, TellsWhatIsStored) {
  const Folder folder;
  auto store = RecordStore::open(parts(folder));
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->load([](const Row&) { return Result<void>(); }));
  ASSERT_TRUE(store_now(**store, {event({17}, event::Starting{.attempt = 1}, 2)}));
  Result<store::Life> life = read(folder, 1);
  ASSERT_TRUE(life) << life.error().message;
  EXPECT_EQ(life->parts, 1);
  EXPECT_FALSE(life->whole);
  ASSERT_EQ(life->file.records.size(), 1u);
  EXPECT_EQ(life->file.records[0].attempt, (AttemptId{{17}, 1}));

  ASSERT_TRUE(store_now(
      **store, {event({17}, event::Started{5, 6}, 3), event({17}, event::Ended{{}, {}}, 4)}));
  Result<store::Life> news = read(folder, 1, 1);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->parts, 2);
  EXPECT_EQ(news->file.records.size(), 2u);
  EXPECT_EQ(news->file.records[1].attempt.number, 1);
  EXPECT_EQ(read(folder, 1, 2).error().kind, ErrorKind::NotFound);
}

TEST(RecordStore, TellsWhatAttemptsUsed) {
  const Folder folder;
  auto store = RecordStore::open(parts(folder));
  const std::string minutes("\0\xff\x10 a", 5);
  ASSERT_TRUE(store_now(**store, {row::Usage{{17}, 1, {7, 8}, minutes}}));
  ASSERT_TRUE((*store)->finish(true));
  const Result<store::Life> life = read(folder, 1);
  ASSERT_TRUE(life) << life.error().message;
  ASSERT_EQ(life->file.usage.size(), 1u);
  const row::Usage& usage = life->file.usage[0];
  EXPECT_EQ(usage.job, JobId{17});
  EXPECT_EQ(usage.attempt, 1);
  EXPECT_EQ(usage.at, (Instant{7, 8}));
  EXPECT_EQ(usage.minutes, minutes);
}

TEST(RecordStore, PutsOneFileInThePlaceOfTheParts) {
  const Folder folder;
  auto store = RecordStore::open(parts(folder));
  ASSERT_TRUE(store_now(**store, {event({17}, event::Starting{.attempt = 1}, 2)}));
  ASSERT_TRUE(store_now(**store, {event({17}, event::Ended{{}, {}}, 3)}));
  ASSERT_TRUE((*store)->finish(true));
  EXPECT_EQ(*os::list_dir(folder.path), std::vector<std::string>{"4.1.jsonl"});
  // Whoever has read the first part gets the whole life then.
  const Result<store::Life> life = read(folder, 1, 1);
  ASSERT_TRUE(life);
  EXPECT_TRUE(life->whole);
  EXPECT_TRUE(life->file.closed);
  EXPECT_EQ(life->file.records.size(), 2u);
}

TEST(RecordStore, ItsFilesHaveTheModeThatIsAskedFor) {
  const Folder folder;
  RecordStore::Parts its = parts(folder);
  its.mode = 0640;
  auto store = RecordStore::open(std::move(its));
  const auto mode_of = [&](const char* name) {
    struct stat st = {};
    EXPECT_EQ(::stat((folder.path + name).c_str(), &st), 0) << name;
    return st.st_mode & 0777;
  };
  ASSERT_TRUE(store_now(**store, {event({17}, event::Starting{.attempt = 1}, 2)}));
  EXPECT_EQ(mode_of("/4.1.1.jsonl"), 0640u);
  ASSERT_TRUE((*store)->finish(true));
  EXPECT_EQ(mode_of("/4.1.jsonl"), 0640u);
}

TEST(RecordStore, ASecondLifeBeginsWithWhatWasTold) {
  const Folder folder;
  {
    auto store = RecordStore::open(parts(folder));
    ASSERT_TRUE(store_now(**store, {event({17}, event::Starting{.attempt = 1}, 2)}));
  }  // killed: the parts stay
  RecordStore::Parts next = parts(folder, 2);
  next.told = read(folder, 1)->file.records;
  auto store = RecordStore::open(std::move(next));
  testing_store::Replay replay;
  ASSERT_TRUE((*store)->load([&](const Row& row) { return replay.absorb(row); }));
  EXPECT_EQ(replay.jobs.at({17}).state, JobState::Starting);
  // The attempt that it ends is the one of the life before.
  ASSERT_TRUE(store_now(**store, {event({17}, event::Ended{{}, {}}, 3)}));
  EXPECT_EQ(read(folder, 2)->file.records.at(0).attempt.number, 1);
}

TEST(RecordStore, SealedItTellsNothingMore) {
  const Folder folder;
  auto store = RecordStore::open(parts(folder));
  ASSERT_TRUE(store_now(**store, {event({17}, event::Starting{.attempt = 1}, 2)}));
  (*store)->seal();
  ASSERT_TRUE(store_now(**store, {event({17}, event::Ended{{}, {}}, 3)}));
  ASSERT_TRUE((*store)->finish(false));
  const Result<store::Life> life = read(folder, 1);
  EXPECT_EQ(life->file.records.size(), 1u);
  EXPECT_FALSE(life->file.closed);
}

TEST(RecordStore, AFolderThatCannotBeWrittenFailsTheBatchAndTheNextOneIsTried) {
  const Folder folder;
  auto store = RecordStore::open(parts(folder));
  const std::string away = folder.path + ".away";
  ASSERT_EQ(::rename(folder.path.c_str(), away.c_str()), 0);
  EXPECT_FALSE(store_now(**store, {event({17}, event::Starting{.attempt = 1}, 2)}));
  ASSERT_EQ(::rename(away.c_str(), folder.path.c_str()), 0);
  ASSERT_TRUE(store_now(**store, {event({17}, event::Starting{.attempt = 1}, 2)}));
  EXPECT_EQ(read(folder, 1)->file.records.size(), 1u);
}

TEST(Records, ANameHasOneSpelling) {
  EXPECT_EQ(store::record_name_of("4.1.jsonl"), (RecordName{4, 1, 0}));
  EXPECT_EQ(store::record_name_of("4.1.12.jsonl"), (RecordName{4, 1, 12}));
  for (const char* name : {"4.jsonl", "4.0.jsonl", "4.1.0.jsonl", "04.1.jsonl", "4.1.2.3.jsonl",
                           "4.1.jsonl.tmp", "-4.1.jsonl", "a.1.jsonl", "4.1..jsonl", ".jsonl", "",
                           "99999999999.1.jsonl", "handover.jsonl"}) {
    EXPECT_FALSE(store::record_name_of(name)) << name;
  }
}

RC_GTEST_PROP(Records, EveryNameIsReadAsItIsWritten, ()) {
  const RecordName name{*rc::gen::inRange(0, 1 << 30), *rc::gen::inRange(1, 1 << 30),
                        *rc::gen::inRange(0, 1 << 30)};
  RC_ASSERT(store::record_name_of(to_string(name)) == name);
}

TEST(Records, RefusesWhatMakesNoSense) {
  for (const char* text : {"{\"job\":1}\n", "nonsense\n", "{\"closed\":3}\n",
                           R"({"job":1,"attempt":1,"event":"no","body":"{}","at":[1,2]})",
                           R"({"job":1,"attempt":1,"usage":"","at":[1e56,2]})",
                           R"({"job":1,"attempt":5000000000,"usage":"","at":[1,2]})"}) {
    const auto file = store::records_of(text);
    ASSERT_FALSE(file) << text;
    EXPECT_EQ(file.error().kind, ErrorKind::Corrupt);
    EXPECT_NE(file.error().message.find("line 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace pergpu
