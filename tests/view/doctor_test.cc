// `doctor` as people and programs see it: golden texts.
#include "view/commands/doctor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pergpu::view {
namespace {

std::vector<Finding> some() {
  return {
      {.check = "driver",
       .state = FindingState::Ok,
       .what = "NVIDIA driver 550.54.15",
       .why = "not shown"},
      {.check = "gpu",
       .state = FindingState::Problem,
       .what = "gpu3: the GPU is lost",
       .why = "no job starts on it",
       .mend = "sudo reboot\nor call the vendor"},
      {.check = "leases", .state = FindingState::Note, .what = "gpu1: used by bob", .why = "w"}};
}

TEST(DoctorText, SaysWhyAndHowToMendWhatIsNotFine) {
  EXPECT_EQ(doctor_text(some(), Style{}),
            "ok       driver        NVIDIA driver 550.54.15\n"
            "problem  gpu           gpu3: the GPU is lost\n"
            "                       why   no job starts on it\n"
            "                       fix   sudo reboot\n"
            "                             or call the vendor\n"
            "note     leases        gpu1: used by bob\n"
            "                       why   w\n"
            "1 problem, 1 note, 1 ok\n");
}

TEST(DoctorText, SaysSoWhereNothingIsToMend) {
  std::vector<Finding> findings = some();
  findings.erase(findings.begin() + 1);
  findings.push_back(findings.back());
  const std::string text = doctor_text(findings, Style{});
  EXPECT_NE(text.find("\nnothing to fix: 2 notes, 1 ok\n"), std::string::npos) << text;
}

TEST(DoctorText, NothingReachesATerminalRawOrIsCut) {
  const std::string longest(300, 'x');
  const std::string text = doctor_text({{.check = "outsiders",
                                         .state = FindingState::Note,
                                         .what = "a\x1b]0;title\x07",
                                         .why = "b\x1b[2Jc",
                                         .mend = longest}},
                                       Style{.width = 40});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find(longest), std::string::npos);
}

TEST(DoctorJson, HoldsTheSame) {
  const nlohmann::json json = doctor_json(some(), {}, "0.1.0");
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["version"], "0.1.0");
  EXPECT_EQ(json["fine"], false);
  EXPECT_EQ(json["counts"]["problem"], 1);
  EXPECT_EQ(json["counts"]["warning"], 0);
  ASSERT_EQ(json["findings"].size(), 3u);
  EXPECT_EQ(json["findings"][1]["state"], "problem");
  EXPECT_EQ(json["findings"][1]["mend"], "sudo reboot\nor call the vendor");
  EXPECT_EQ(json["findings"][2]["mend"], "");
  EXPECT_EQ(json["findings"][0]["why"], "not shown");
}

}  // namespace
}  // namespace pergpu::view
