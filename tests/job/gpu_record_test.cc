// What the ends of attempts say of a GPU (job/schedule/gpu_record.h).
#include "job/schedule/gpu_record.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

struct GpuRecordTest : ::testing::Test {
  /// A job of its own for each step, unless it is named.
  void ended(const std::string& gpu, int step, OutcomeClass cls, std::int64_t job = 0) {
    record.ended({gpu}, JobId{job != 0 ? job : step}, {SweepId{1}, static_cast<std::int16_t>(step)},
                 cls);
  }
  void failed(const std::string& gpu, int step, OutcomeClass cls = OutcomeClass::Exit) {
    ended(gpu, step, cls);
  }
  void succeeded(const std::string& gpu, int step) { ended(gpu, step, OutcomeClass::Ok); }
  /// Fails on one and then succeeds on another.
  void moved(const std::string& from, const std::string& to, int step) {
    failed(from, step);
    succeeded(to, step);
  }
  GpuRecord record;
};

TEST_F(GpuRecordTest, ThreeJobsOfDifferentStepsThatFailInARowAndSucceedElsewhereMakeALemon) {
  moved("a", "b", 1);
  failed("a", 2, OutcomeClass::Signal);
  failed("a", 3, OutcomeClass::Stall);
  succeeded("b", 2);
  EXPECT_FALSE(record.is_lemon("a"));
  succeeded("c", 3);
  EXPECT_TRUE(record.is_lemon("a"));
  EXPECT_FALSE(record.is_lemon("b"));
  EXPECT_EQ(record.gpus_of(JobId{3}), (std::vector<std::string>{"a", "c"}));
  record.forget("a");
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, AScriptThatIsMendedStepByStepDoesNot) {
  for (const int step : {1, 2, 3, 4, 5}) {  // a new sweep each time
    failed("a", step);
    succeeded("b", 50 + step);  // another user's work goes on beside it
  }
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, ARowOfAGridThatAlwaysFailsDoesNot) {
  for (const int step : {1, 2, 3, 4, 5}) {
    ended("a", step, OutcomeClass::Exit, 10 * step);
    ended("b", step, OutcomeClass::Ok, 10 * step + 1);
  }
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, JobsOfOneStepDoNot) {
  for (int job = 1; job <= 9; ++job) {
    ended("a", 1, OutcomeClass::Exit, job);
    ended("b", 1, OutcomeClass::Ok, job);
  }
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, ASuccessOnItEndsTheRow) {
  moved("a", "b", 1);
  moved("a", "b", 2);
  succeeded("a", 7);
  moved("a", "b", 3);
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, AProgramThatFailsElsewhereTooSpeaksAgainstItself) {
  failed("a", 2);
  failed("b", 2);
  for (const int step : {1, 2, 3}) moved("a", "b", step);
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, FailuresThatAreExplainedDoNotCount) {
  for (const OutcomeClass cls :
       {OutcomeClass::UserError, OutcomeClass::OomGpu, OutcomeClass::Hardware, OutcomeClass::Lost,
        OutcomeClass::Cancelled, OutcomeClass::Timeout, OutcomeClass::DiskFull}) {
    for (const int step : {1, 2, 3}) {
      failed("a", step, cls);
      succeeded("b", step);
    }
  }
  EXPECT_FALSE(record.is_lemon("a"));
  for (const int step : {1, 2, 3}) {
    record.ended({"a", "c"}, JobId{step}, {SweepId{1}, static_cast<std::int16_t>(step)},
                 OutcomeClass::Exit);
    succeeded("b", step);
  }
  EXPECT_FALSE(record.is_lemon("a")) << "which of the two?";
}

TEST_F(GpuRecordTest, TwoJobsThatSayOneAfterTheOtherThatItIsBrokenAreBelieved) {
  for (int tries = 0; tries < 5; ++tries) failed("a", 1, OutcomeClass::Hardware);
  EXPECT_FALSE(record.is_broken_by_word("a")) << "one job";
  failed("b", 2, OutcomeClass::Hardware);
  EXPECT_FALSE(record.is_broken_by_word("a")) << "another GPU";
  succeeded("a", 3);
  failed("a", 2, OutcomeClass::Hardware);
  EXPECT_FALSE(record.is_broken_by_word("a")) << "it has worked in between";
  failed("a", 4, OutcomeClass::Exit);
  failed("a", 1, OutcomeClass::Hardware);
  EXPECT_TRUE(record.is_broken_by_word("a"));
  EXPECT_FALSE(record.is_broken_by_word("b"));
}

}  // namespace
}  // namespace pergpu
