// Which GPU is a lemon (job/gpu_record.h).
#include "job/gpu_record.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

struct GpuRecordTest : ::testing::Test {
  static StepKey key(int step) { return {SweepId{1}, static_cast<std::int16_t>(step)}; }
  void failed(const std::string& gpu, int step, OutcomeClass cls = OutcomeClass::Exit) {
    record.ended({gpu}, key(step), cls);
  }
  void succeeded(const std::string& gpu) { failed(gpu, 99, OutcomeClass::Ok); }
  GpuRecord record;
};

TEST_F(GpuRecordTest, ThreeProgramsThatFailInARowWhileOthersSucceedElsewhereMakeALemon) {
  failed("a", 1);
  failed("a", 2, OutcomeClass::Signal);
  succeeded("b");
  EXPECT_FALSE(record.is_lemon("a"));
  failed("a", 3);
  EXPECT_TRUE(record.is_lemon("a"));
  EXPECT_FALSE(record.is_lemon("b"));
  record.forget("a");
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, OneProgramThatFailsThriceDoesNot) {
  for (int i = 0; i < 9; ++i) failed("a", 1);
  succeeded("b");
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, WhereNothingSucceedsElsewhereTheGpuIsNotToBlame) {
  succeeded("b");  // before
  for (const int step : {1, 2, 3, 4}) failed("a", step);
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, ASuccessOnItEndsTheRow) {
  failed("a", 1);
  failed("a", 2);
  succeeded("a");
  failed("a", 3);
  succeeded("b");
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, AProgramThatFailsElsewhereTooSpeaksAgainstItself) {
  for (const int step : {1, 2, 3}) failed("a", step);
  failed("b", 2);
  succeeded("b");
  EXPECT_FALSE(record.is_lemon("a"));
}

TEST_F(GpuRecordTest, FailuresThatAreExplainedDoNotCount) {
  succeeded("b");
  for (const OutcomeClass cls :
       {OutcomeClass::UserError, OutcomeClass::OomGpu, OutcomeClass::Hardware, OutcomeClass::Lost,
        OutcomeClass::Cancelled, OutcomeClass::Timeout, OutcomeClass::DiskFull}) {
    for (const int step : {1, 2, 3}) failed("a", step, cls);
  }
  succeeded("b");
  EXPECT_FALSE(record.is_lemon("a"));
  for (const int step : {1, 2, 3}) record.ended({"a", "c"}, key(step), OutcomeClass::Exit);
  succeeded("b");
  EXPECT_FALSE(record.is_lemon("a")) << "which of the two?";
}

}  // namespace
}  // namespace pergpu
