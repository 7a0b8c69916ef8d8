// What `top` draws: pure, so frames are compared as text.
#include "view/top/top.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "top_fixture.h"
#include "view/model/top_snapshot.h"
#include "view/text/utf8.h"
#include "view/top/top_rows.h"

namespace pergpu::view::testing {
namespace {

bool has(const std::vector<std::string>& lines, const std::string& text) {
  return text_of(lines).find(text) != std::string::npos;
}

TEST(TopFrame, At80x24ShowsLanesJobsAndTheLog) {
  TopSnapshot s = at_work();
  s.log_of = 1;
  s.log = "first\nepoch 1\repoch 2\n\nlast\n";
  const std::vector<std::string> lines = drawn(s);
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_EQ(lines[0],
            "pergpu  1 done, 1 failed, 2 running, 1 queued                           13:00:00")
      << text_of(lines);
  EXPECT_EQ(lines[1], "thirteen 1/5, 1 failed");
  EXPECT_TRUE(lines[2].starts_with("lanes ") && lines[2].ends_with("2 of 3 in use")) << lines[2];
  EXPECT_EQ(lines[3], "GPUs   ? used on average");
  EXPECT_TRUE(lines[4].starts_with("gpu0  1 thirteen/01-method=edm/train")) << lines[4];
  EXPECT_NE(lines[4].find("2m11s / ~3m05s"), std::string::npos) << lines[4];
  EXPECT_TRUE(lines[6].starts_with("gpu2  -")) << lines[6];
  EXPECT_NE(lines[6].find("used by alice/python"), std::string::npos);
  EXPECT_TRUE(lines[7].starts_with("-- 5 jobs ---")) << lines[7];
  EXPECT_NE(lines[8].find("running"), std::string::npos);
  EXPECT_NE(lines[10].find("queued"), std::string::npos);
  EXPECT_NE(lines[10].find("all GPUs are in use"), std::string::npos) << lines[10];
  EXPECT_TRUE(has(lines, "-- log of 1 thirteen/01-method=edm/train"));
  EXPECT_TRUE(has(lines, "\nfirst\nepoch 2\nlast\n")) << text_of(lines);
  EXPECT_TRUE(lines[23].starts_with("? help  q leave  / filter")) << lines[23];
  for (const std::string& line : lines) EXPECT_LE(columns_of(line), 80) << line;
}

TEST(TopFrame, TheChosenRowIsMarkedAndNoOther) {
  const TopSnapshot s = at_work();
  TopState state;
  state.selected = 3;
  const TopSurface surface;
  settle(state, s, surface);
  const Grid grid = draw_top(s, state, surface);
  for (int row = 0; row < grid.rows(); ++row) {
    EXPECT_EQ(grid.at(row, 0).look.reverse, row == 10) << row;
    EXPECT_EQ(grid.at(row, 79).look.reverse, row == 10) << row;
  }
}

TEST(TopFrame, At40x10StillShowsWhatRunsAndTheJobs) {
  const std::vector<std::string> lines = drawn(at_work(), {}, {.columns = 40, .rows = 10});
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_TRUE(lines[1].starts_with("gpu0 ")) << text_of(lines);
  EXPECT_TRUE(has(lines, "and 2 more lanes")) << text_of(lines);
  EXPECT_TRUE(has(lines, "-- 5 jobs"));
  EXPECT_TRUE(has(lines, "failed"));
  for (const std::string& line : lines) EXPECT_LE(columns_of(line), 40) << line;
}

TEST(TopFrame, At200x60HasRoomForWholeNames) {
  TopSnapshot s = at_work();
  s.jobs[1].run = std::string(90, 'r');
  const std::vector<std::string> lines = drawn(s, {}, {.columns = 200, .rows = 60});
  ASSERT_EQ(lines.size(), 60u);
  EXPECT_TRUE(has(lines, std::string(90, 'r') + "/train"));
  EXPECT_TRUE(has(lines, "step 100, loss 0.41"));
}

TEST(TopFrame, WithoutUnicodeEveryByteIsAscii) {
  TopSnapshot s = at_work();
  s.jobs[1].run = "méthode=日本語";
  s.log_of = 1;
  s.log = "Übergang ✓\n";
  for (int i = 0; i < 20; ++i) s.busy.add(i * Series::kSlotNs, i / 20.0);
  const std::string text = text_of(drawn(s, {}, {.unicode = false}));
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << text;
  EXPECT_NE(text.find("_..:"), std::string::npos) << text;
  EXPECT_NE(text_of(drawn(s)).find("▁▂"), std::string::npos);
}

TEST(TopFrame, ColoursAreLeftOutAndWordsStay) {
  const TopSnapshot s = at_work();
  for (const Palette palette : {Palette::None, Palette::Standard, Palette::ColourBlind}) {
    TopState state;
    state.palette = palette;
    const TopSurface surface;
    settle(state, s, surface);
    const Grid grid = draw_top(s, state, surface);
    bool has_colour = false;
    for (int row = 0; row < grid.rows(); ++row) {
      for (int column = 0; column < grid.columns(); ++column) {
        has_colour = has_colour || grid.at(row, column).look.colour != Colour::Default;
      }
    }
    EXPECT_EQ(has_colour, palette != Palette::None);
    EXPECT_EQ(grid.lines(), drawn(s));
  }
}

TEST(TopFrame, NothingOfAJobReachesACellRaw) {
  TopSnapshot s = at_work();
  const std::string evil =
      "\x1b]0;pwned\x07\x1b[2J\x9b"
      "31m\u202e\x7f";
  s.jobs[1].run = evil;
  s.jobs[1].reason = evil;
  s.jobs[1].status = evil;
  s.jobs[1].lane = evil;
  s.sweeps[0].name = evil;
  s.gpu_lanes[2].why = evil;
  s.gpu_trouble = evil;
  s.log_of = 1;
  s.log = evil + "\n" + evil;
  TopState state;
  state.filter = evil.substr(0, 2);
  for (const std::string& filter : {std::string(), state.filter}) {
    state.filter = filter;
    for (const char c : text_of(drawn(s, state, {.columns = 200, .rows = 60}))) {
      EXPECT_TRUE(c == '\n' || (c != 0x7f && (static_cast<unsigned char>(c) >= 0x20)));
    }
  }
  const std::string text = text_of(drawn(s, {}, {.columns = 250, .rows = 60}));
  EXPECT_NE(text.find("\\x1b]0;pwned\\x07"), std::string::npos) << text;
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
}

TEST(TopFrame, IsSafeAtAnySizeAndInEveryMode) {
  TopSnapshot s = at_work();
  s.jobs[2].run = "日本語日本語日本語";
  s.log_of = 1;
  s.log = std::string(300, 'x') + "\n日本";
  using Mode = TopState::Mode;
  for (const Mode mode : {Mode::Jobs, Mode::Filter, Mode::Sort, Mode::Confirm, Mode::Page}) {
    for (int rows = 0; rows < 30; rows += 1 + rows / 6) {
      for (int columns = 0; columns < 90; columns += 1 + columns / 4) {
        TopState state;
        state.mode = mode;
        state.page = help_page(false);
        state.page.first = 10'000;
        const std::vector<std::string> lines = drawn(s, state, {.columns = columns, .rows = rows});
        ASSERT_EQ(lines.size(), static_cast<std::size_t>(rows));
        for (const std::string& line : lines) ASSERT_LE(columns_of(line), columns);
      }
    }
  }
}

TEST(TopFrame, TenThousandJobsScrollToTheLastOne) {
  TopSnapshot s = at_work();
  for (std::int64_t id = 6; id < 10'006; ++id) s.jobs[id] = job_of(id, "queued");
  s.counts["queued"] = 1'000'001;
  TopState state;
  const TopSurface surface;
  settle(state, s, surface);
  EXPECT_EQ(state.selected, 1);
  type(state, TopKey::Name::End, s);
  EXPECT_EQ(state.row, 10'004u);
  const std::vector<std::string> lines = draw_top(s, state, surface).lines();
  EXPECT_TRUE(has(lines, "10005 jobs, 990000 more not loaded")) << text_of(lines);
  EXPECT_TRUE(has(lines, " 4 ")) << text_of(lines);  // the one that ended first
  type(state, TopKey::Name::Home, s);
  EXPECT_EQ(state.selected, 1);
  EXPECT_EQ(state.first, 0u);
}

TEST(TopFrame, SaysWhenItKnowsNothing) {
  EXPECT_TRUE(has(drawn({}), "connecting to the coordinator"));
  TopSnapshot s = at_work();
  s.trouble = "the coordinator has ended; another one takes over";
  EXPECT_TRUE(has(drawn(s), "another one takes over"));
  EXPECT_TRUE(has(drawn(s), "thirteen/01-method=edm/train"));
  TopSnapshot empty;
  empty.known = true;
  EXPECT_TRUE(has(drawn(empty), "no jobs"));
  TopState state;
  state.filter = "nothing like it";
  EXPECT_TRUE(has(drawn(at_work(), state), "no job matches the filter"));
}

TEST(TopFrame, UtilizationIsShownWhereItIsTold) {
  TopSnapshot s = at_work();
  s.loads["GPU-0"].utilization = 0.98;
  s.loads["GPU-0"].power_w = 412.4;
  s.loads["GPU-1"].utilization = 0;
  const std::vector<std::string> lines = drawn(s, {}, {.columns = 160, .rows = 40});
  EXPECT_TRUE(has(lines, "GPUs   49 % used on average")) << text_of(lines);
  EXPECT_NE(lines[4].find(" 98 % 412 W"), std::string::npos) << lines[4];
  EXPECT_NE(lines[5].find(" 0 %"), std::string::npos) << lines[5];
  EXPECT_EQ(lines[6].find('%'), std::string::npos) << lines[6];
  EXPECT_NE(lines[6].find('?'), std::string::npos) << lines[6];
}

TEST(TopLanes, OwnLanesOfSweepsHaveARowEach) {
  TopSnapshot s;
  s.known = true;
  s.sweeps.push_back({.id = 4, .name = "late", .counts = {{"running", 1}}, .lanes = 2});
  s.sweeps.push_back({.id = 3, .name = "thirteen", .counts = {{"queued", 1}}, .lanes = 1});
  s.sweeps.push_back({.id = 2, .name = "over", .counts = {{"done", 9}}, .lanes = 8});
  JobSnapshot job = job_of(7, "running");
  job.sweep_id = 4;
  job.lane = "lane0";
  s.jobs[7] = job;
  job.id = 8;
  job.lane = "cpu1";
  s.jobs[8] = job;
  const std::vector<TopLane> lanes = lanes_of(s);
  ASSERT_EQ(lanes.size(), 4u);
  EXPECT_EQ(lanes[0].name, "thirteen:lane0");
  EXPECT_EQ(lanes[0].job, nullptr);
  EXPECT_EQ(lanes[1].name, "late:lane0");
  EXPECT_EQ(lanes[1].job, &s.jobs[7]);
  EXPECT_EQ(lanes[3].name, "cpu1");
  EXPECT_EQ(lanes_in_use(s, lanes).used, 2);
}

TEST(TopLanes, AJobOnTwoGpusIsOnBoth) {
  TopSnapshot s = at_work();
  s.jobs[1].gpus = {"GPU-0", "GPU-2"};
  const std::vector<TopLane> lanes = lanes_of(s);
  ASSERT_EQ(lanes.size(), 3u);
  EXPECT_EQ(lanes[0].job, &s.jobs[1]);
  EXPECT_EQ(lanes[2].job, &s.jobs[1]);
}

TEST(TopEvents, MakeTheSnapshot) {
  using nlohmann::json;
  TopSnapshot s;
  EXPECT_FALSE(take_event(s, json::parse(R"({"event":"snapshot","sweep":{},"jobs":[]})")));
  EXPECT_FALSE(take_event(s, json::parse(R"({"event":"changes","jobs":[]})")));
  EXPECT_FALSE(take_event(s, json::parse("[1]")));
  EXPECT_FALSE(s.known);
  json first = json::parse(R"({"event":"snapshot","all":true,"lanes":[],"cpu_lanes":8,
      "counts":{"running":1,"queued":1},"gpus":[{"uuid":"GPU-0","busy_percent":50},
      {"uuid":"GPU-1","busy_percent":null}]})");
  first["jobs"] = json::array({job_of(1, "running"), job_of(2, "queued")});
  first["sweeps"] = json::array({SweepSummary{.id = 3, .name = "thirteen"}});
  ASSERT_TRUE(take_event(s, first));
  EXPECT_EQ(s.jobs.size(), 2u);
  EXPECT_EQ(s.loads["GPU-0"].utilization, 0.5);
  EXPECT_EQ(s.loads["GPU-1"].utilization, std::nullopt);
  EXPECT_EQ(s.cpu_lanes, 8);
  json changes = json::parse(R"({"event":"changes","gone":[1],"counts":{"queued":2}})");
  changes["jobs"] = json::array({job_of(3, "queued")});
  ASSERT_TRUE(take_event(s, changes));
  EXPECT_FALSE(s.jobs.contains(1));
  EXPECT_TRUE(s.jobs.contains(3));
  EXPECT_EQ(s.counts.size(), 1u);
  EXPECT_EQ(s.sweeps.size(), 1u);
  ASSERT_TRUE(
      take_event(s, json::parse(R"({"event":"changes","jobs":7,"gone":["x"],"counts":[]})")));
  EXPECT_EQ(s.jobs.size(), 2u);
  ASSERT_TRUE(take_event(s, first));  // another coordinator
  EXPECT_TRUE(s.jobs.contains(1) && !s.jobs.contains(3));
}

TEST(TopEvents, WhatIsNotKnownIsNoIdleLane) {
  TopSnapshot s;
  s.now_ns = kNow;
  sample(s);
  EXPECT_FALSE(s.busy.any_known());
  s = at_work();
  sample(s);
  EXPECT_TRUE(s.busy.any_known());
  EXPECT_FALSE(s.loads_so_far["GPU-0"].any_known());
}

}  // namespace
}  // namespace pergpu::view::testing
