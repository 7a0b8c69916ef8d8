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
  const std::string text = to_json_text(record()).substr(0, 256);
  EXPECT_EQ(keeper::record_head(text)->id, record().id);
  EXPECT_FALSE(keeper::record_head(text)->has_ended);
  AttemptRecord ended = record();
  ended.state = "failed";
  EXPECT_TRUE(keeper::record_head(to_json_text(ended).substr(0, 256))->has_ended);
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

TEST(AttemptRecord, WhatItSaysOfTheStartIsReadBack) {
  AttemptRecord r = record();
  r.argv = {"python3", "train.py"};
  r.cwd = "/data";
  r.git_commit = "0123abcd";
  r.files = {{"train.py", "xxh128:0"}};
  const std::optional<AttemptRecord> back = attempt_record_of(to_json_text(r));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->id, r.id);
  EXPECT_EQ(back->argv, r.argv);
  EXPECT_EQ(back->cwd, r.cwd);
  EXPECT_EQ(back->env_set, r.env_set);
  EXPECT_EQ(back->env_names, r.env_names);
  EXPECT_EQ(back->files, r.files);
  EXPECT_EQ(back->git_commit, r.git_commit);
  EXPECT_FALSE(attempt_record_of("{}"));
  EXPECT_FALSE(attempt_record_of("not JSON"));
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
