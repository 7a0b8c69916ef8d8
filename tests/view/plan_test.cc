// The chart of lanes, and the answer to `plan` as people read it.
#include "view/commands/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "view/charts/lane_chart.h"
#include "view/text/escape.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Style plain(int width) {
  Style style;
  style.width = width;
  style.unicode = false;
  return style;
}

TEST(LaneChart, BarsLieWhereTheirTimesAre) {
  const LaneChart chart{.lanes = {"gpu0", "gpu1"},
                        .bars = {{.lane = 0, .start_s = 0, .end_s = 20, .label = "00 train"},
                                 {.lane = 0, .start_s = 20, .end_s = 40, .label = "01 train"},
                                 {.lane = 1, .start_s = 10, .end_s = 30, .label = "02"}},
                        .total_s = 40};
  EXPECT_EQ(lines_of(lane_chart(chart, plain(46))),
            (std::vector<std::string>{
                "gpu0  00 train-----------|01 train-----------|",
                "gpu1            02-----------------|",
                "      0s             15s            30s",
            }));
}

TEST(LaneChart, WithUtf8ItHasTheSameColumns) {
  const LaneChart chart{.lanes = {"gpu0"},
                        .bars = {{.start_s = 0, .end_s = 20, .label = "大大大 größe"},
                                 {.start_s = 20, .end_s = 40, .is_other = true}},
                        .total_s = 40};
  for (const int width : {20, 46, 80}) {
    Style style = plain(width);
    style.unicode = true;
    for (const std::string& line : lines_of(lane_chart(chart, style))) {
      EXPECT_LE(columns_of(line), width) << line;
    }
  }
}

TEST(LaneChart, ManyShortJobsInOneColumnAreMarkedAndNoneGetsLost) {
  LaneChart chart{.lanes = {"lane0"}, .total_s = 1000};
  for (int i = 0; i < 1000; ++i) {
    chart.bars.push_back({.start_s = static_cast<double>(i), .end_s = i + 1.0, .label = "x"});
  }
  const std::string line = lines_of(lane_chart(chart, plain(40))).front();
  EXPECT_EQ(line, "lane0  " + std::string(33, '#'));
}

TEST(LaneChart, IdleLanesAndTimesAreBlank) {
  const LaneChart chart{.lanes = {"gpu0", "gpu1"},
                        .bars = {{.lane = 1, .start_s = 30, .end_s = 40, .label = "a"}},
                        .total_s = 40};
  EXPECT_EQ(lines_of(lane_chart(chart, plain(46)))[0], "gpu0");
}

TEST(LaneChart, HostileLabelsDoNotReachTheTerminal) {
  const LaneChart chart{
      .lanes = {"gpu0\x1b[2J"}, .bars = {{.end_s = 40, .label = "a\x1b[31m\nb"}}, .total_s = 40};
  const std::string text = lane_chart(chart, plain(80));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(lines_of(text).size(), 2u);
}

json story() {
  json jobs = json::array();
  for (int run = 0; run < 2; ++run) {
    jobs.push_back({{"id", nullptr},
                    {"sweep", "thirteen"},
                    {"run", "0" + std::to_string(run) + "-method=edm"},
                    {"step", "train"},
                    {"lanes", json::array({"gpu" + std::to_string(run)})},
                    {"start_s", 0},
                    {"end_s", 3600},
                    {"live", false}});
  }
  const json durations = {{"sweep", "thirteen"},
                          {"step", "train"},
                          {"jobs", 2},
                          {"mean_s", 3600.0},
                          {"source", "given"}};
  return {
      {"schema", 1},
      {"sweeps", json::array({"thirteen"})},
      {"at", "2026-11-21T13:00:00.000Z"},
      {"end_at", "2026-11-21T14:00:00.000Z"},
      {"total_s", 3600.0},
      {"lower_bound_s", 3600.0},
      {"bound_by", {{"kind", "chain"}, {"words", "the longest job, thirteen/00-method=edm/train"}}},
      {"idle_share", 1.0 / 3},
      {"lane_kind", "GPU"},
      {"lane_count", 3},
      {"with_lanes",
       {{{"lanes", 1}, {"total_s", 7200.0}},
        {{"lanes", 2}, {"total_s", 3600.0}},
        {{"lanes", 3}, {"total_s", 3600.0}}}},
      {"with_expect_s", nullptr},
      {"lanes", {"gpu0", "gpu1", "gpu2"}},
      {"jobs", jobs},
      {"others", json::array()},
      {"durations", json::array({durations})},
      {"held", 1},
      {"stuck", json::array()},
      {"notes", json::array({"gpu3 is foreign: used by alice"})}};
}

TEST(PlanText, TellsScheduleTotalBoundIdleShareAndWhatOtherNumbersOfLanesWouldDo) {
  EXPECT_EQ(plan_text(story(), plain(46)),
            "thirteen: 2 jobs on 3 GPUs, done in 1h (14:00:00)\n"
            "\n"
            "gpu0  00 train-------------------------------|\n"
            "gpu1  01 train-------------------------------|\n"
            "      0s                  30m\n"
            "1 more lane idle throughout\n"
            "\n"
            "total        1h\n"
            "lower bound  1h\n"
            "bottleneck   the longest job, thirteen/00-method=edm/train\n"
            "idle         33 % of 3 GPUs\n"
            "durations    train 1h (2 jobs, as given)\n"
            "\n"
            "with 1 GPU: 2h\n"
            "with 2 to 3 GPUs: 1h\n");
}

TEST(PlanText, NotesNameWhatIsHeldAndWhatIsLeftOut) {
  EXPECT_EQ(plan_notes(story()),
            (std::vector<std::string>{"1 job is held, or needs a held job: not counted",
                                      "gpu3 is foreign: used by alice"}));
}

TEST(PlanText, MissingDurationsAreAskedForAndNamedWithTheWayToGiveThem) {
  json missing = json::array();
  missing.push_back({{"sweep", "thirteen"}, {"step", "train"}, {"jobs", 13}});
  EXPECT_EQ(
      missing_text(missing),
      "can't estimate step train of thirteen (13 jobs): no job of it is done yet, and its file has "
      "no `expect`; write expect = \"1h\" into [steps.train], or pass --expect train=1h");
  EXPECT_EQ(missing_question(missing[0]),
            "How long does a job of step train take (13 of thirteen)? ");
}

TEST(PlanText, OfNothingSaysSo) {
  EXPECT_EQ(plan_text({{"schema", 1}, {"total_s", 0}, {"jobs", json::array()}}, plain(80)),
            "nothing left to do\n");
}

TEST(PlanText, WhatCannotStartIsNoTotal) {
  json plan = story();
  plan["total_s"] = nullptr;
  plan["end_at"] = nullptr;
  plan["stuck"] = json::array();
  plan["stuck"].push_back(
      {{"sweep", "thirteen"}, {"step", "evaluate"}, {"jobs", 2}, {"why", "all GPUs are in use"}});
  EXPECT_NE(plan_text(plan, plain(80)).find("and others can't start"), std::string::npos);
  EXPECT_EQ(plan_text(plan, plain(80)).find("total "), std::string::npos);
  EXPECT_EQ(plan_notes(plan)[1], "2 jobs of step evaluate can't start: all GPUs are in use");
}

}  // namespace
}  // namespace pergpu::view
