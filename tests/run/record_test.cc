// attempt.json: readable by a machine, and by the keeper that moves it aside.
#include "run/record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "keeper/folder.h"

namespace pergpu {
namespace {

AttemptRecord record() {
  AttemptRecord r;
  r.id = {{17}, 2};
  r.sweep = "thirteen";
  r.step = "train";
  r.argv = {"python3", "train.py", "\xff"};
  r.env_names = {"HOME", "TOKEN"};
  r.env_set = {{"OMP_NUM_THREADS", "4"}};
  r.state = "running";
  return r;
}

TEST(AttemptRecord, NamesItsAttemptWhereTheKeeperLooks) {
  EXPECT_EQ(keeper::attempt_of_record(to_json_text(record()).substr(0, 256)), 2);
}

TEST(AttemptRecord, HoldsNamesOfInheritedVariablesAndValuesOfOurs) {
  const nlohmann::json j = nlohmann::json::parse(to_json_text(record()));
  EXPECT_EQ(j.at("schema"), 1);
  EXPECT_EQ(j.at("environment").at("inherited"), (std::vector<std::string>{"HOME", "TOKEN"}));
  EXPECT_EQ(j.at("environment").at("set").at("OMP_NUM_THREADS"), "4");
  EXPECT_TRUE(j.at("run").is_null());
  EXPECT_FALSE(j.contains("class"));
}

TEST(AttemptRecord, IsIndentedJsonWhateverTheTextsHold) {
  AttemptRecord r = record();
  r.argv = {"a \"quoted\" one", "back\\slash", "line\nbreak", "\xff", "größe", ""};
  r.git_commit = "0123abcd";
  r.files = {{"train.py", "xxh128:0"}};
  r.outcome = Outcome{.cls = OutcomeClass::Signal, .signal = 9, .reason = "signal 9"};
  r.duration_s = 1.0;
  const std::string text = to_json_text(r);
  const nlohmann::ordered_json j = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(text, j.dump(2) + "\n");
  EXPECT_EQ(j.at("argv"), (std::vector<std::string>{"a \"quoted\" one", "back\\slash",
                                                    "line\nbreak", "\ufffd", "größe", ""}));
  EXPECT_EQ(j.at("gpus"), nlohmann::ordered_json::array());
  EXPECT_EQ(j.at("git").at("dirty"), false);
}

TEST(AttemptRecord, EndedOneTellsHow) {
  AttemptRecord r = record();
  r.state = "failed";
  r.outcome = Outcome{.cls = OutcomeClass::Exit, .exit_code = 3, .reason = "exit code 3"};
  const nlohmann::json j = nlohmann::json::parse(to_json_text(r));
  EXPECT_EQ(j.at("exit"), 3);
  EXPECT_TRUE(j.at("signal").is_null());
  EXPECT_EQ(j.at("reason"), "exit code 3");
}

}  // namespace
}  // namespace pergpu
