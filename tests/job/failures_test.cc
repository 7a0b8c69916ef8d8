// What the end of a log says.
#include "job/failures.h"

#include <gtest/gtest.h>

#include "job/classify.h"

namespace pergpu {
namespace {

std::optional<OutcomeClass> class_in(std::string_view log, bool is_quick = true,
                                     std::vector<FailureRule> own = {}) {
  const std::optional<FoundFailure> found = find_failure(log, own, is_quick);
  if (!found) return std::nullopt;
  return found->cls;
}

TEST(FindFailure, KnowsWhatFrameworksSay) {
  const std::vector<std::pair<std::string, OutcomeClass>> said = {
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
       OutcomeClass::OomGpu},
      {"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying",
       OutcomeClass::OomGpu},
      {"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
       OutcomeClass::OomHost},
      {"terminate called after throwing an instance of 'std::bad_alloc'", OutcomeClass::OomHost},
      {"RuntimeError: CUDA error: uncorrectable ECC error encountered", OutcomeClass::Hardware},
      {"RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
       OutcomeClass::Driver},
      {"OSError: [Errno 28] No space left on device", OutcomeClass::DiskFull},
  };
  for (const auto& [line, cls] : said) {
    EXPECT_EQ(class_in("epoch 1\n" + line + "\n"), cls) << line;
    EXPECT_EQ(class_in(line, false), cls) << line;  // after hours, too
  }
  EXPECT_EQ(class_in("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Terminated."),
            std::nullopt);
  EXPECT_EQ(class_in("loss 0.5\nloss 0.4\n"), std::nullopt);
  EXPECT_EQ(class_in(""), std::nullopt);
}

TEST(FindFailure, TheLastWordsDecide) {
  const std::string handled = "CUDA out of memory: trying a smaller batch\n";
  EXPECT_EQ(class_in(handled + "OSError: [Errno 28] No space left on device"),
            OutcomeClass::DiskFull);
  const std::string traceback = "Traceback (most recent call last):\n  File \"a.py\"\n";
  EXPECT_EQ(class_in(handled + traceback + "KeyError: 'lr'\n"), OutcomeClass::UserError);
}

TEST(FindFailure, AMistakeIsOneOnlyRightAfterTheStart) {
  const std::string log = "Traceback (most recent call last):\nKeyError: 'lr'\n";
  EXPECT_EQ(class_in(log, true), OutcomeClass::UserError);
  EXPECT_EQ(class_in(log, false), std::nullopt);
  EXPECT_EQ(class_in("KeyError: only mentioned\n"), std::nullopt);
}

TEST(FindFailure, TheStepsOwnRulesComeFirst) {
  const std::vector<FailureRule> own = {{"loss is nan", OutcomeClass::UserError},
                                        {"NCCL timeout", OutcomeClass::Requeue}};
  EXPECT_EQ(class_in("step 7: loss is nan, giving up\nCUDA out of memory\n", false, own),
            OutcomeClass::UserError);
  EXPECT_EQ(class_in("NCCL timeout\n", false, own), OutcomeClass::Requeue);
}

TEST(FindFailure, ALineIsQuotedWithoutControlsAndCutBetweenCharacters) {
  const std::string line =
      "\x1b]0;evil\x07"
      "CUDA out of memory " +
      std::string(178, 'x') + "ä";
  const std::optional<FoundFailure> found = find_failure(line, {}, false);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->line.find('\x1b'), std::string::npos);
  EXPECT_TRUE(found->line.ends_with("x…")) << found->line;
}

TEST(Classify, ASignalAfterWordsThatNameTheCause) {
  const std::string log = "terminate called after throwing an instance of 'std::bad_alloc'\n";
  const Outcome outcome = classify({.signal = 6, .log_tail = log});
  EXPECT_EQ(outcome.cls, OutcomeClass::OomHost);
  EXPECT_EQ(outcome.reason, "killed by signal 6 (SIGABRT): " + log.substr(0, log.size() - 1));
}

TEST(Signature, NumbersDoNotCount) {
  const auto of = [](const char* reason) {
    return signature_of({.cls = OutcomeClass::UserError, .reason = reason});
  };
  EXPECT_EQ(of("exit code 1: KeyError: 'run17'"), of("exit code 1: KeyError: 'run203'"));
  EXPECT_NE(of("exit code 1: KeyError: 'a'"), of("exit code 1: KeyError: 'b'"));
}

}  // namespace
}  // namespace pergpu
