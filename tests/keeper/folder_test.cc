#include "keeper/folder.h"

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
  void leave(std::int32_t attempt) const {
    spill(out() + "/log.txt", "log of " + std::to_string(attempt));
    spill(out() + "/attempt.json", record(attempt));
  }
  static std::string record(std::int32_t attempt) {
    return "{\n  \"schema\": 1,\n  \"job\": 3,\n  \"attempt\": " + std::to_string(attempt) + ",\n";
  }

  TempFolder folder_;
};

TEST_F(AttemptFolder, IsMadeWithTheUmaskOfTheSweep) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  EXPECT_EQ(read("config.json"), "{}");
  struct stat st = {};
  ASSERT_EQ(::stat((out() + "/config.json").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640u);
  ASSERT_EQ(::stat(out().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0750u);
}

TEST_F(AttemptFolder, UnchangedConfigIsNotTouched) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  struct stat before = {};
  struct stat after = {};
  ASSERT_EQ(::stat((out() + "/config.json").c_str(), &before), 0);
  EXPECT_FALSE(prepare_folder(plan(2)));
  ASSERT_EQ(::stat((out() + "/config.json").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(AttemptFolder, PreparingMovesNothing) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  leave(1);
  EXPECT_FALSE(prepare_folder(plan(1)));
  EXPECT_FALSE(prepare_folder(plan(2)));
  EXPECT_EQ(read("log.txt"), "log of 1");
}

TEST_F(AttemptFolder, EarlierAttemptMovesAside) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  leave(1);
  EXPECT_FALSE(move_earlier_attempt(plan(2)));
  EXPECT_EQ(read("log.1.txt"), "log of 1");
  EXPECT_EQ(read("attempt.1.json"), record(1));
  EXPECT_FALSE(std::filesystem::exists(out() + "/log.txt"));
}

TEST_F(AttemptFolder, AttemptThatNeverRanLeavesANumberFree) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  leave(1);
  EXPECT_FALSE(move_earlier_attempt(plan(3)));  // the second one was lost before it started
  EXPECT_EQ(read("log.1.txt"), "log of 1");
  EXPECT_FALSE(std::filesystem::exists(out() + "/log.2.txt"));
}

TEST_F(AttemptFolder, EarlierJobOfTheSameFolderMovesAside) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  leave(4);
  EXPECT_FALSE(move_earlier_attempt(plan(1)));
  EXPECT_EQ(read("log.old.txt"), "log of 4");
}

TEST_F(AttemptFolder, LateFinalRecordDoesNotReplaceTheNextAttempts) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  leave(1);
  EXPECT_FALSE(move_earlier_attempt(plan(2)));
  const Forget late = {
      .id = {{3}, 1}, .record_path = out() + "/attempt.json", .final_record = "end of 1"};
  EXPECT_FALSE(write_final_record(late));
  EXPECT_EQ(read("attempt.1.json"), "end of 1");
  EXPECT_FALSE(std::filesystem::exists(out() + "/attempt.json"));
  leave(2);
  EXPECT_FALSE(write_final_record(late));
  EXPECT_EQ(read("attempt.json"), record(2));
}

TEST_F(AttemptFolder, LateFinalRecordOfAShortAttemptGoesBesideItsLog) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  spill(out() + "/log.txt", "log of 1");  // it ended before its record was due
  EXPECT_FALSE(move_earlier_attempt(plan(2)));
  EXPECT_EQ(read("log.1.txt"), "log of 1");
  EXPECT_FALSE(write_final_record(
      {.id = {{3}, 1}, .record_path = out() + "/attempt.json", .final_record = "end of 1"}));
  EXPECT_EQ(read("attempt.1.json"), "end of 1");
  EXPECT_FALSE(std::filesystem::exists(out() + "/attempt.json"));
}

TEST_F(AttemptFolder, FinalRecordReplacesTheFirst) {
  EXPECT_FALSE(prepare_folder(plan(1)));
  leave(1);
  EXPECT_FALSE(write_final_record(
      {.id = {{3}, 1}, .record_path = out() + "/attempt.json", .final_record = "end of 1"}));
  EXPECT_EQ(read("attempt.json"), "end of 1");
}

TEST(RecordOwner, IsReadFromTheBeginning) {
  EXPECT_EQ(attempt_of_record(R"({"schema":1,"attempt":12,"x")"), 12);
  EXPECT_EQ(attempt_of_record("{\n \"attempt\": 7\n}"), 7);
  EXPECT_EQ(attempt_of_record("{\n \"attempt\": 7"), std::nullopt);  // cut: may be 70
  EXPECT_EQ(attempt_of_record(""), std::nullopt);
}

}  // namespace
}  // namespace pergpu::keeper::rig
