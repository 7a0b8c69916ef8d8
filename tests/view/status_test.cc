// The status view, its redraw on a terminal, and the lines elsewhere.
#include "view/commands/status.h"

#include <gtest/gtest.h>

#include "view/text/escape.h"
#include "view/text/screen.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

constexpr std::int64_t kNow = 1'795'266'000'000'000'000;  // 2026-11-21 13:00:00 UTC
constexpr std::int64_t kSecond = 1'000'000'000;

JobSnapshot running(std::int64_t id, std::string lane) {
  JobSnapshot job;
  job.id = id;
  job.sweep = "thirteen";
  job.run = "0" + std::to_string(id) + "-method=edm";
  job.index = id;
  job.step = "train";
  job.state = "running";
  job.attempt = 1;
  job.lane = std::move(lane);
  job.started_at = kNow - 131 * kSecond;
  return job;
}

Followed three_lanes() {
  Followed followed;
  followed.sweep.id = 3;
  followed.sweep.name = "thirteen";
  followed.sweep.remaining_s = 210;
  followed.sweep_at_ns = kNow - 10 * kSecond;
  for (const char* name : {"gpu0", "gpu2", "gpu10"}) {
    LaneSnapshot lane;
    lane.name = name;
    lane.state = "free";
    followed.lanes.push_back(lane);
  }
  followed.lanes[1].state = "foreign";
  followed.lanes[1].why = "used by alice/python";
  JobSnapshot first = running(1, "gpu0");
  first.expected_s = 185;
  followed.take(first);
  followed.newest[1] = "step 100, loss 0.41";
  JobSnapshot queued = running(2, "");
  queued.state = "queued";
  queued.lane.reset();
  followed.take(queued);
  return followed;
}

TEST(StatusView, ARowPerLaneInNaturalOrder) {
  EXPECT_EQ(status_lines(three_lanes(), kNow, Style{}),
            (std::vector<std::string>{
                "thirteen: 1 running, 1 queued, about 3m20s left (13:03:20)",
                "gpu0   01-method=edm/train  2m11s / ~3m05s  step 100, loss 0.41",
                "gpu2   -                           foreign  used by alice/python",
                "gpu10  -",
                "q: detach · Ctrl-C: hold queued jobs",
            }));
}

TEST(StatusView, WhatTheJobSaysOfItselfComesFirst) {
  Followed followed = three_lanes();
  followed.jobs[1].progress = "3/10";
  followed.jobs[1].status = "warming up";
  EXPECT_NE(status_lines(followed, kNow, Style{})[1].find("3/10 warming up"), std::string::npos);
}

TEST(StatusView, NeverWiderOrHigherThanTheTerminal) {
  Followed followed = three_lanes();
  for (int i = 0; i < 40; ++i) {
    followed.take(running(100 + i, "cpu" + std::to_string(i)));
    followed.newest[100 + i] = "größe 大大大大大大大大大大大大 \x1b[31m loss";
  }
  for (const int width : {10, 30, 80}) {
    Style style;
    style.width = width;
    style.height = 12;
    style.colour = true;
    const std::vector<std::string> lines = status_lines(followed, kNow, style);
    EXPECT_LT(lines.size(), 12u);
    for (const std::string& line : lines) EXPECT_LE(columns_of(safe_line(line)), width) << line;
  }
}

TEST(StatusView, LanesWithAJobStayWhenThereIsNoRoom) {
  Followed followed = three_lanes();
  followed.take(running(9, "gpu10"));
  Style style;
  style.height = 6;
  EXPECT_EQ(status_lines(followed, kNow, style),
            (std::vector<std::string>{
                "thirteen: 2 running, 1 queued, about 3m20s left (13:03:20)",
                "gpu0   01-method=edm/train  2m11s / ~3m05s  step 100, loss 0.41",
                "gpu10  09-method=edm/train           2m11s",
                "and 1 more lane",
                "q: detach · Ctrl-C: hold queued jobs",
            }));
}

TEST(StatusView, AMessageReplacesTheKeys) {
  Followed followed = three_lanes();
  followed.message = "16 jobs held";
  EXPECT_EQ(status_lines(followed, kNow, Style{}).back(), "16 jobs held");
}

TEST(StatusView, CountsFollowTheJobs) {
  Followed followed = three_lanes();
  JobSnapshot done = followed.jobs[1];
  done.state = "done";
  followed.take(done);
  JobSnapshot old = followed.jobs[2];
  old.replaced = true;
  followed.take(old);
  followed.sweep.remaining_s.reset();
  EXPECT_EQ(headline(followed, kNow, Style{}), "thirteen: 1 done");
  followed.sweep.warnings = {"simulated"};
  EXPECT_EQ(headline(followed, kNow, Style{}), "thirteen: 1 done; simulated");
  EXPECT_EQ(status_lines(followed, kNow, Style{})[1], "gpu0   -");
}

TEST(ChangeLine, OnePerChangeOfState) {
  JobSnapshot before = running(1, "gpu0");
  before.state = "queued";
  JobSnapshot after = running(1, "gpu0");
  const Style style;
  EXPECT_EQ(change_line(&before, after, kNow, kNow, style),
            "13:00:00 1 thirteen/01-method=edm/train running on gpu0\n");
  EXPECT_EQ(change_line(&after, after, kNow, kNow, style), "");

  JobSnapshot done = after;
  done.state = "done";
  done.duration_s = 123;
  EXPECT_EQ(change_line(&after, done, kNow, kNow, style),
            "13:00:00 1 thirteen/01-method=edm/train done after 2m03s\n");

  JobSnapshot failed = after;
  failed.state = "failed";
  failed.duration_s = 3;
  failed.reason = "exit code 3";
  failed.log = "/log.txt";
  EXPECT_EQ(change_line(&after, failed, kNow, kNow, style),
            "13:00:00 1 thirteen/01-method=edm/train failed after 3.0s: exit code 3; log: "
            "/log.txt\n");

  JobSnapshot again = failed;
  again.state = "queued";
  again.reason = "retry 1 of 2";
  EXPECT_EQ(change_line(&failed, again, kNow, kNow, style),
            "13:00:00 1 thirteen/01-method=edm/train queued again: retry 1 of 2\n");
}

TEST(ChangeLine, AtTheFirstLookWhatIsUnderWayAndWhatHasEndedSince) {
  JobSnapshot job = running(1, "gpu0");
  job.ended_at = kNow - 1;
  EXPECT_NE(change_line(nullptr, job, kNow, kNow, Style{}), "");
  for (const char* state : {"queued", "done", "failed", "starting"}) {
    job.state = state;
    EXPECT_EQ(change_line(nullptr, job, kNow, kNow, Style{}), "") << state;
  }
  job.state = "done";
  EXPECT_NE(change_line(nullptr, job, kNow - 1, kNow, Style{}), "");
  job.state = "skipped";  // it never ran
  job.ended_at = 0;
  job.queued_at = kNow;
  EXPECT_NE(change_line(nullptr, job, kNow, kNow, Style{}), "");
}

// A terminal that knows what redraw() uses.
class Terminal {
 public:
  void write(const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == '\n') {
        ++row_;
        column_ = 0;
        if (row_ >= rows_.size()) rows_.emplace_back();
      } else if (bytes[i] == '\r') {
        column_ = 0;
      } else if (bytes[i] == '\x1b') {
        i += 2;
        std::size_t count = 0;
        while (bytes[i] >= '0' && bytes[i] <= '9') {
          count = count * 10 + static_cast<std::size_t>(bytes[i++] - '0');
        }
        if (bytes[i] == 'A') row_ -= count;
        if (bytes[i] == 'K') rows_[row_].resize(column_);
        if (bytes[i] == 'J') {
          rows_.resize(row_ + 1);
          rows_[row_].resize(column_);
        }
      } else {
        std::string& row = rows_[row_];
        if (row.size() <= column_) row.resize(column_ + 1, ' ');
        row[column_++] = bytes[i];
      }
    }
  }
  std::vector<std::string> rows() const {
    return std::vector<std::string>(rows_.begin(), rows_.end() - 1);
  }

 private:
  std::vector<std::string> rows_ = {""};
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

TEST(Redraw, TheTerminalShowsTheNewBlock) {
  const std::vector<std::vector<std::string>> blocks = {
      {"head", "a", "b", "foot"},
      {"head", "longer a", "b", "foot"},
      {"head", "a", "foot"},
      {"head"},
      {"head 2", "x", "y", "z", "foot"},
      {"head 2", "x", "y", "z", "other"},
      {},
  };
  Terminal terminal;
  std::vector<std::string> before;
  for (const std::vector<std::string>& after : blocks) {
    terminal.write(redraw(before, 80, after, 80));
    EXPECT_EQ(terminal.rows(), after);
    before = after;
  }
}

TEST(Redraw, NothingChangedNothingWritten) {
  EXPECT_EQ(redraw({"a", "b"}, 80, {"a", "b"}, 80), "");
}

TEST(Redraw, UnchangedLinesAreNotWrittenAgain) {
  EXPECT_EQ(redraw({"head", "a", "foot"}, 80, {"head", "b", "foot"}, 80).find("head"),
            std::string::npos);
}

TEST(Redraw, ANarrowerWindowErasesWrappedLines) {
  EXPECT_EQ(erase({std::string(80, 'x'), "y"}, 80, 40), "\x1b[3A\r\x1b[J");
  EXPECT_EQ(redraw({std::string(80, 'x')}, 80, {"short"}, 40), "\x1b[2A\r\x1b[Jshort\n");
}

}  // namespace
}  // namespace pergpu::view
