// The keys of `top`: what each makes of the state, and what is asked for.
#include "view/top/top_keys.h"

#include <gtest/gtest.h>

#include "top_fixture.h"
#include "view/top/top_rows.h"

namespace pergpu::view::testing {
namespace {

using Kind = TopAction::Kind;
using Mode = TopState::Mode;
using Name = TopKey::Name;
using Ids = std::vector<std::int64_t>;

struct TopKeys : ::testing::Test {
  TopSnapshot s = at_work();
  TopState state;
  TopSurface surface;

  void SetUp() override { settle(state, s, surface); }
  TopAction press_keys(std::string_view keys) { return type(state, keys, s, surface); }
  TopAction press_key(Name name) { return type(state, name, s, surface); }
  Ids rows() {
    Ids ids;
    for (const JobSnapshot* job : rows_of(s, state)) ids.push_back(job->id);
    return ids;
  }
};

TEST_F(TopKeys, RunningOnesComeFirstAndTheLastEndedBeforeTheOthers) {
  EXPECT_EQ(rows(), (Ids{1, 2, 3, 5, 4}));
  EXPECT_EQ(state.selected, 1);
}

TEST_F(TopKeys, MoveWithinTheJobs) {
  press_keys("j");
  EXPECT_EQ(state.selected, 2);
  press_key(Name::Down);
  EXPECT_EQ(state.selected, 3);
  press_keys("kk");
  EXPECT_EQ(state.selected, 1);
  press_keys("k");
  EXPECT_EQ(state.selected, 1);
  press_key(Name::End);
  EXPECT_EQ(state.selected, 4);
  press_key(Name::PageUp);
  EXPECT_EQ(state.selected, 1);
  press_key(Name::PageDown);
  EXPECT_EQ(state.selected, 4);
  press_key(Name::Home);
  EXPECT_EQ(state.selected, 1);
}

TEST_F(TopKeys, TheChoiceStaysWithItsJob) {
  press_keys("jj");
  EXPECT_EQ(state.selected, 3);
  s.jobs[3] = job_of(3, "running");
  s.jobs[2] = job_of(2, "done");
  settle(state, s, surface);
  EXPECT_EQ(state.selected, 3);
  EXPECT_EQ(state.row, 1u);
  s.jobs.erase(3);  // gone: the job in its place
  settle(state, s, surface);
  EXPECT_EQ(state.selected, rows()[1]);
  s.jobs.clear();
  settle(state, s, surface);
  EXPECT_EQ(state.selected, 0);
}

TEST_F(TopKeys, FilterIsAppliedAsItIsTypedAndEscGoesBack) {
  press_keys("/fail");
  EXPECT_EQ(state.mode, Mode::Filter);
  EXPECT_EQ(rows(), Ids{4});
  press_key(Name::Enter);
  EXPECT_EQ(state.mode, Mode::Jobs);
  EXPECT_EQ(state.filter, "fail");
  press_keys("/x");
  EXPECT_TRUE(rows().empty());
  press_key(Name::Escape);
  EXPECT_EQ(state.filter, "fail");
  press_keys("/");
  for (int i = 0; i < 6; ++i) press_key(Name::Backspace);
  EXPECT_EQ(state.filter, "");
  press_keys("q\x15");  // Ctrl-U
  EXPECT_EQ(state.filter, "");
  state = press(state, TopKey{.name = Name::Char, .code = 0xe9}, s, surface).state;
  EXPECT_EQ(state.filter, "é");
  press_key(Name::Backspace);
  EXPECT_EQ(state.filter, "");
  press_key(Name::Enter);
  press_keys("frun");
  EXPECT_EQ(state.filter, "state=run");
  EXPECT_EQ(rows(), (Ids{1, 2}));
}

TEST_F(TopKeys, FilterWordsAllHaveToHold) {
  const JobSnapshot job = job_of(4, "failed");
  for (const char* words :
       {"", "  ", "thirteen/04", "METHOD=EDM", "state=fail", "!done", "step=train",
        "lane=gpu3 id=4", "exit code", "sweep=thir run=04 !state=done"}) {
    EXPECT_TRUE(passes(job, words)) << words;
  }
  for (const char* words : {"done", "!failed", "state=train", "thirteen nothing", "id=5"}) {
    EXPECT_FALSE(passes(job, words)) << words;
  }
}

TEST_F(TopKeys, SortByEachColumnAndBack) {
  press_keys("oi");
  EXPECT_EQ(rows(), (Ids{1, 2, 3, 4, 5}));
  press_keys("i");
  EXPECT_EQ(rows(), (Ids{5, 4, 3, 2, 1}));
  press_keys("i.");
  EXPECT_EQ(state.sort, TopSort::Name);
  press_keys(",,,");
  EXPECT_EQ(state.sort, TopSort::Lane);
  EXPECT_EQ(rows(), (Ids{1, 2, 4, 5, 3}));
  press_keys("os");
  EXPECT_EQ(rows(), (Ids{5, 4, 3, 1, 2}));
  press_keys("ot");
  EXPECT_EQ(rows().back(), 3);
  press_keys("oz");  // no column: as it was
  EXPECT_EQ(state.sort, TopSort::Time);
  EXPECT_EQ(state.mode, Mode::Jobs);
}

TEST_F(TopKeys, CancelAsksFirst) {
  EXPECT_EQ(press_keys("c"), TopAction{});
  EXPECT_EQ(state.mode, Mode::Confirm);
  EXPECT_EQ(state.question, "cancel 1 thirteen/01-method=edm/train? y: yes, any other key: no");
  EXPECT_EQ(press_keys("n"), TopAction{});
  EXPECT_EQ(state.mode, Mode::Jobs);
  EXPECT_EQ(press_keys("y"), TopAction{});  // nothing is asked any more
  EXPECT_EQ(press_keys("cy"), (TopAction{Kind::Cancel, {1}}));
  press_key(Name::F9);
  EXPECT_EQ(press_keys("y"), (TopAction{Kind::Cancel, {1}}));
  EXPECT_EQ(press_keys("Ky"), (TopAction{Kind::Kill, {1}}));
}

TEST_F(TopKeys, WhatWasAskedAboutIsWhatIsCancelled) {
  press_keys("jc");
  s.jobs.erase(2);  // meanwhile
  settle(state, s, surface);
  EXPECT_NE(state.selected, 2);
  EXPECT_EQ(press_keys("y"), (TopAction{Kind::Cancel, {2}}));
}

TEST_F(TopKeys, TaggedJobsAreTakenTogether) {
  press_keys("  ");
  EXPECT_EQ(state.tagged, (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(state.selected, 3);
  press_keys("c");
  EXPECT_EQ(state.question,
            "cancel 1 thirteen/01-method=edm/train and 1 more? y: yes, any other key: no");
  EXPECT_EQ(press_keys("y"), (TopAction{Kind::Cancel, {1, 2}}));
  EXPECT_EQ(press_keys("r"), (TopAction{Kind::Retry, {1, 2}}));
  press_key(Name::Escape);
  EXPECT_TRUE(state.tagged.empty());
  press_key(Name::Home);
  press_keys("  ");
  s.jobs.erase(1);
  settle(state, s, surface);
  EXPECT_EQ(state.tagged, std::set<std::int64_t>{2});
}

TEST_F(TopKeys, HoldReleasesWhatIsHeld) {
  press_keys("jj");
  EXPECT_EQ(press_keys("p"), (TopAction{Kind::Hold, {3}}));
  s.jobs[3].state = "held";
  settle(state, s, surface);
  EXPECT_EQ(press_keys("p"), (TopAction{Kind::Release, {3}}));
}

TEST_F(TopKeys, ReadonlyChangesNothing) {
  state.readonly = true;
  for (const char* keys : {"c", "K", "T", "p", "r"}) {
    EXPECT_EQ(press_keys(keys), TopAction{}) << keys;
    EXPECT_EQ(state.mode, Mode::Jobs);
    EXPECT_NE(state.message.find("--readonly"), std::string::npos);
    EXPECT_EQ(press_keys("y"), TopAction{});
  }
  EXPECT_EQ(press_keys("w").kind, Kind::Why);
  EXPECT_EQ(press_key(Name::Enter).kind, Kind::Show);
}

TEST_F(TopKeys, OfNothingNothingIsAsked) {
  s.jobs.clear();
  settle(state, s, surface);
  for (const char* keys : {"c", "p", "r", "w", " ", "j"}) {
    EXPECT_EQ(press_keys(keys), TopAction{}) << keys;
    EXPECT_EQ(state.mode, Mode::Jobs) << keys;
  }
  EXPECT_EQ(press_key(Name::Enter), TopAction{});
}

TEST_F(TopKeys, LeaveAndRedraw) {
  EXPECT_EQ(press_keys("q").kind, Kind::Leave);
  EXPECT_EQ(press_key(Name::F10).kind, Kind::Leave);
  EXPECT_EQ(press_keys("\x0c").kind, Kind::Redraw);
}

TEST_F(TopKeys, ThePageOfKeysScrollsAndCloses) {
  surface.rows = 12;
  press_keys("?");
  EXPECT_EQ(state.mode, Mode::Page);
  EXPECT_NE(text_of(drawn(s, state, surface)).find("up down j k"), std::string::npos);
  press_keys("j");
  EXPECT_EQ(state.page.first, 1);
  press_key(Name::End);
  EXPECT_NE(text_of(drawn(s, state, surface)).find("SIGKILL at once"), std::string::npos);
  press_key(Name::Home);
  EXPECT_EQ(state.page.first, 0);
  EXPECT_EQ(press_keys("q"), TopAction{});
  EXPECT_EQ(state.mode, Mode::Jobs);
}

TEST_F(TopKeys, PanelsComeAndGo) {
  press_keys("l");
  EXPECT_EQ(state.log, TopState::Log::Large);
  EXPECT_EQ(layout_of(s, state, surface).jobs, 0);
  press_keys("l");
  EXPECT_EQ(layout_of(s, state, surface).log, 0);
  press_keys("ls");
  EXPECT_EQ(layout_of(s, state, surface).charts, 0);
  press_keys("C");
  EXPECT_EQ(state.palette, Palette::ColourBlind);
  press_keys("C");
  EXPECT_EQ(state.palette, Palette::Standard);
  state.palette = Palette::None;
  press_keys("C");
  EXPECT_EQ(state.palette, Palette::None);
}

}  // namespace
}  // namespace pergpu::view::testing
