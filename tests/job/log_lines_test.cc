// A log's lines, without what others put in front of them.
#include "job/log_lines.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

TEST(LogLines, TagsAndTimesAreNotOfTheText) {
  const std::vector<std::vector<std::string>> lines = {
      {"[rank0]: KeyError: 'x'", "[rank0]:", "KeyError: 'x'"},
      {"[rank12]:   File \"a.py\"", "[rank12]:", "  File \"a.py\""},
      {"[default0]:KeyError: 'x'", "[default0]:", "KeyError: 'x'"},
      {"0: KeyError: 'x'", "0:", "KeyError: 'x'"},
      {"17:   File \"a.py\"", "17:", "  File \"a.py\""},
      {"[1,3]<stderr>:KeyError: 'x'", "[1,3]<stderr>:", "KeyError: 'x'"},
      {"[1,3]<stderr>: KeyError: 'x'", "[1,3]<stderr>:", "KeyError: 'x'"},
      {"(RayTrainWorker pid=4711, ip=10.0.0.1) KeyError: 'x'",
       "(RayTrainWorker pid=4711, ip=10.0.0.1)", "KeyError: 'x'"},
      {"(EngineCore_DP0 pid=4711) ERROR 11-27 12:00:00 [core.py:390] KeyError: 'x'",
       "(EngineCore_DP0 pid=4711)", "KeyError: 'x'"},
      {"rank0: KeyError: 'x'", "rank0:", "KeyError: 'x'"},
      {"trainer-1  | KeyError: 'x'", "trainer-1  |", "KeyError: 'x'"},
      {"2026-11-27 12:00:00,123 KeyError: 'x'", "", "KeyError: 'x'"},
      {"2026-11-27T12:00:00.123456Z   File \"a.py\"", "", "  File \"a.py\""},
      {"[2026-11-27 12:00:00,123][__main__][ERROR] - no", "", "[__main__][ERROR] - no"},
      {"Nov 27 12:00:00 KeyError: 'x'", "", "KeyError: 'x'"},
      {"Nov  7 12:00:00 node7 train[4711]: KeyError: 'x'", "", "KeyError: 'x'"},
      {"[12:00:00] [rank1]: KeyError: 'x'", "[rank1]:", "KeyError: 'x'"},
      {"\x1b[1;31mKeyError\x1b[0m: \x1b]8;;file://a\x1b\\'x'\x1b]8;;\x1b\\", "", "KeyError: 'x'"},
      {"KeyError: 12: 'x'", "", "KeyError: 12: 'x'"},
      {"[INFO] ready", "", "[INFO] ready"},
      {"November was cold", "", "November was cold"},
      {"12:30 is no tag", "", "12:30 is no tag"},
  };
  for (const std::vector<std::string>& expected : lines) {
    const std::vector<LogLine> read = log_lines(expected[0] + "\n");
    ASSERT_EQ(read.size(), 1u) << expected[0];
    EXPECT_EQ(read[0].tag, expected[1]) << expected[0];
    EXPECT_EQ(read[0].text, expected[2]) << expected[0];
  }
}

TEST(LogLines, ANameBeforeEachLineOfATracebackIsATag) {
  const std::vector<LogLine> lines = log_lines(
      "node7: epoch 3\nnode7: Traceback (most recent call last):\nnode7:   File \"a.py\", line 3\n"
      "node8: epoch 3\nnode7: KeyError: 'x'\n");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], (LogLine{.text = "epoch 3", .tag = "node7:"}));
  EXPECT_EQ(lines[2], (LogLine{.text = "  File \"a.py\", line 3", .tag = "node7:"}));
  EXPECT_EQ(lines[3], (LogLine{.text = "node8: epoch 3", .tag = ""}));
  EXPECT_EQ(lines[4], (LogLine{.text = "KeyError: 'x'", .tag = "node7:"}));
}

TEST(LogLines, LabelsOfTasksMayBePadded) {
  const std::vector<LogLine> lines = log_lines(
      "  0: Traceback (most recent call last):\n  0:   File \"a.py\", line 3\n 12: epoch\n"
      "  0:     3: x\n  0: KeyError: 'x'\n");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], (LogLine{.text = "Traceback (most recent call last):", .tag = "0:"}));
  EXPECT_EQ(lines[1], (LogLine{.text = "  File \"a.py\", line 3", .tag = "0:"}));
  EXPECT_EQ(lines[2], (LogLine{.text = "epoch", .tag = "12:"}));
  EXPECT_EQ(lines[3], (LogLine{.text = "    3: x", .tag = "0:"}));
  EXPECT_EQ(lines[4], (LogLine{.text = "KeyError: 'x'", .tag = "0:"}));
  // The line of a program is no label.
  EXPECT_EQ(log_lines("  File \"a.py\", line 3\n    0: x\n").at(1).text, "    0: x");
}

TEST(LogLines, AReturnInANameIsWritten) {
  EXPECT_EQ(log_lines("env: 'python3\r': No such file or directory\n").at(0).text,
            "env: 'python3\\r': No such file or directory");
  EXPECT_EQ(log_lines("env: python3\r: No such file or directory\r\n").at(0).text,
            "env: python3\\r: No such file or directory");
}

TEST(LogLines, EachUpdateOfAProgressBarIsALine) {
  const std::vector<LogLine> lines =
      log_lines("\r 10%|#   | 1/10\r 20%|##  | 2/10\nTraceback\r\n\r\nlast");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1].text, " 20%|##  | 2/10");
  EXPECT_EQ(lines[2].text, "Traceback");
  EXPECT_EQ(lines[3].text, "");
  EXPECT_EQ(lines[4].text, "last");
  EXPECT_TRUE(log_lines("").empty());
}

TEST(LogLines, KindsOfLines) {
  const std::vector<std::pair<LineKind, std::vector<std::string>>> kinds = {
      {LineKind::Blank, {"", "   "}},
      {LineKind::Detail, {"  what():  no", "│ box │", "\tat Train.main(Train.java:4)"}},
      {LineKind::Trailer,
       {"wandb: Run summary:", "Set the environment variable HYDRA_FULL_ERROR=1 for a", "=====",
        " 30%|###   | 3/10 [00:01<00:02,  8.3it/s]", "make: *** [Makefile:2: train] Error 1",
        "E1127 12:00:00.000000 4711 torch/distributed/elastic/api.py:874] failed",
        "[W1127 12:00:00.123456789 ProcessGroupNCCL.cpp:1250] Warning", "Killed"}},
      {LineKind::Progress,
       {"epoch 3", "Epoch: 3/10", "[step 17] loss 0.5", "INFO:root:epoch 2 loss 0.3", "iter=5",
        "Epoch [3/10]", "2026-11-27 12:00:00 - INFO - Starting epoch 3", "Train Epoch: 1 [0/60000]",
        "{'loss': 0.53, 'learning_rate': 1e-4, 'epoch': 1.0}", "{\"step\": 17, \"loss\": 0.5}"}},
      {LineKind::Plain,
       {"loss is nan at step 17", "epochs: many", "stepping back", "KeyError: 'epoch 3'",
        "E1 is a good value", "NaN at step 17", "error: step 3 of the plan", "killed at epoch 3"}},
  };
  for (const auto& [kind, texts] : kinds) {
    for (const std::string& text : texts) EXPECT_EQ(kind_of(text), kind) << text;
  }
}

}  // namespace
}  // namespace pergpu
