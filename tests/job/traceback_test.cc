// Exceptions in all the forms in which they are printed.  tests/data/failures has whole logs.
#include "job/traceback.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

std::vector<PythonError> errors_of(std::string_view log) { return python_errors(log_lines(log)); }

const std::string kFrames =
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    main()\n";

TEST(Traceback, TheFirstLineThatIsIndentedLessThanTheFramesIsTheException) {
  for (const std::string line :
       {"KeyError: 'x'", "KeyboardInterrupt", "requests.exceptions.ConnectionError: no",
        "__main__.f.<locals>.Diverged: at 3", "Diverged", "SystemExit: 3"}) {
    const std::vector<PythonError> errors = errors_of("epoch 1\n" + kFrames + line + "\nmore\n");
    ASSERT_EQ(errors.size(), 1u) << line;
    EXPECT_EQ(errors[0].line, line);
    EXPECT_EQ(errors[0].first, 1u);
    EXPECT_EQ(errors[0].last, 4u);
  }
}

TEST(Traceback, WithoutAnExceptionThereIsNone) {
  for (const std::string& log : std::vector<std::string>{
           std::string("KeyError: 'x'\n"), kFrames, kFrames + "no exception here\n",
           std::string("Traceback is a word\nKeyError: 'x'\n"), std::string("")}) {
    EXPECT_TRUE(errors_of(log).empty()) << log;
  }
}

TEST(Traceback, LinesOfOthersAmidTheFramesAreLeftOut) {
  const std::vector<PythonError> errors = errors_of(
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nepoch 3 loss 0.5\n"
      "    main()\n1 file read\nKeyError: 'x'\n");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].line, "KeyError: 'x'");
}

TEST(Traceback, ProcessesThatWriteAtTheSameTimeAreToldApartByTheirTags) {
  const std::vector<PythonError> errors = errors_of(
      "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n"
      "[rank0]:   File \"a.py\", line 3\n[rank1]:   File \"a.py\", line 4\n"
      "[rank1]: ValueError: b\n[rank0]: KeyError: 'a'\n");
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].line, "ValueError: b");
  EXPECT_EQ(errors[0].tag, "[rank1]:");
  EXPECT_EQ(errors[1].line, "KeyError: 'a'");
}

TEST(Traceback, ChainsKeepHowTheyAreLinked) {
  const std::vector<PythonError> errors = errors_of(
      kFrames +
      "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n" +
      kFrames +
      "OSError: b\n\nThe above exception was the direct cause of the following exception:\n\n" +
      kFrames + "RuntimeError: c\n");
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].link, ChainLink::None);
  EXPECT_EQ(errors[1].link, ChainLink::During);
  EXPECT_EQ(errors[2].link, ChainLink::Cause);
}

TEST(Traceback, WhatEndsNothingIsAnAside) {
  for (const std::string before :
       {"Exception ignored in: <function Reader.__del__ at 0x7f0000000000>",
        "Exception ignored in atexit callback: <function f at 0x7f0000000000>",
        "--- Logging error ---", "Error in atexit._run_exitfuncs:",
        "Task exception was never retrieved\nfuture: <Task finished name='Task-1'>"}) {
    const std::vector<PythonError> errors = errors_of(before + "\n" + kFrames + "KeyError: 'a'\n");
    ASSERT_EQ(errors.size(), 1u) << before;
    EXPECT_TRUE(errors[0].is_aside) << before;
  }
  EXPECT_TRUE(errors_of("ERROR:root:no\n" + kFrames + "KeyError: 'a'\n").at(0).is_logged);
  EXPECT_FALSE(errors_of("epoch 3\n" + kFrames + "KeyError: 'a'\n").at(0).is_logged);
}

TEST(Traceback, OtherPrintersOfIt) {
  const std::vector<std::string> logs = {
      // IPython, Jupyter.
      "---------------------------------------------------------------------------\n"
      "KeyError                                  Traceback (most recent call last)\n"
      "Cell In[1], line 2\n      1 batch = {}\n----> 2 batch['los']\n\nKeyError: 'los'\n",
      // rich, without line drawing.
      "+---------- Traceback (most recent call last) ----------+\n| a.py:2 in <module>  |\n"
      "| > 2 batch['los']    |\n+---------------------+\nKeyError: 'los'\n",
      // A program that does not compile: see below.
      "Traceback (most recent call last):\r\n  File \"a.py\", line 2, in <module>\r\nKeyError: "
      "'los'\r\n",
      // torchrun, of a function with @record.
      "  traceback : Traceback (most recent call last):\n    File \"a.py\", line 2, in main\n"
      "      batch['los']\n  KeyError: 'los'\n",
      // PyTorch's DataLoader.
      kFrames +
          "KeyError: Caught KeyError in DataLoader worker process 0.\n"
          "Original Traceback (most recent call last):\n  File \"b.py\", line 2\nKeyError: 'los'\n",
      " 33%|###   | 10/30 [00:01<00:02,  8.1it/s]" + kFrames + "KeyError: 'los'\n",
  };
  for (const std::string& log : logs) {
    const std::vector<PythonError> errors = errors_of(log);
    ASSERT_FALSE(errors.empty()) << log;
    EXPECT_EQ(errors.back().line, "KeyError: 'los'") << log;
  }
  EXPECT_EQ(
      errors_of(
          "  File \"a.py\", line 1\n    def main(:\n             ^\nSyntaxError: invalid syntax\n")
          .at(0)
          .name,
      "SyntaxError");
}

TEST(Traceback, AGroupHoldsItsExceptions) {
  const std::vector<PythonError> errors = errors_of(
      "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1\n"
      "  | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
      "    | Exception Group Traceback (most recent call last):\n    |   File \"a.py\", line 2\n"
      "    | ExceptionGroup: inner (1 sub-exception)\n    +-+---------------- 1 ----------------\n"
      "      | KeyError: 'a'\n"
      "      | Traceback (most recent call last):\n      |   File \"a.py\", line 3\n      | "
      "KeyError: 'b'\n"
      "      +------------------------------------\n    +---------------- 2 ----------------\n"
      "    | Traceback (most recent call last):\n    |   File \"a.py\", line 4\n    | ValueError: "
      "c\n"
      "    +------------------------------------\n");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].line, "ExceptionGroup: two (2 sub-exceptions)");
  EXPECT_EQ(errors[0].inner, (std::vector<std::string>{"KeyError: 'b'", "ValueError: c"}));
}

TEST(Traceback, AGroupHoldsExceptionsThatWereNeverRaised) {
  const std::vector<PythonError> errors = errors_of(
      "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1\n"
      "  |     raise ExceptionGroup('eg', [KeyError(1), TypeError(2)])\n"
      "  | ExceptionGroup: eg (4 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
      "    | KeyError: 1\n    +---------------- 2 ----------------\n"
      "    | Traceback (most recent call last):\n    |   File \"a.py\", line 4\n"
      "    | ValueError: c\n    +---------------- 3 ----------------\n"
      "    | ExceptionGroup: inner (1 sub-exception)\n    +-+---------------- 1 ----------------\n"
      "      | TypeError\n      +------------------------------------\n");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].inner,
            (std::vector<std::string>{"KeyError: 1", "ValueError: c", "TypeError"}));
}

}  // namespace
}  // namespace pergpu
