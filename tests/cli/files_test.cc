// Ends of files, growing logs, and which commit a folder is at.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "cli/job_files/log_reader.h"
#include "cli/job_files/tail.h"
#include "cli/submit/git.h"
#include "cli/submit/submit_context.h"
#include "program.h"

namespace pergpu::cli {
namespace {

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

TEST(LastLines, BlankLinesDoNotCount) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/log.txt";
  write(path, "a\nb\n\n  \nc\n\n");
  EXPECT_EQ(last_lines(path, 2), (std::vector<std::string>{"b", "c"}));
  write(path, "half a line");
  EXPECT_EQ(last_lines(path, 3), (std::vector<std::string>{"half a line"}));
}

TEST(LastLines, OnlyBehindTheGivenBegin) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/log.txt";
  write(path, "old\nnew\n");
  EXPECT_EQ(last_lines(path, 5, 4), (std::vector<std::string>{"new"}));
}

TEST(LastLines, WhatIsNoFileHasNone) {
  const Scratch scratch;
  EXPECT_TRUE(last_lines(scratch.path() + "/missing", 5).empty());
  EXPECT_TRUE(last_lines(scratch.path(), 5).empty());
  const std::string fifo = scratch.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(last_lines(fifo, 5).empty());  // and does not block
}

TEST(LastLines, WhatALinkLeadsToHasNone) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/log.txt";
  write(scratch.path() + "/secret", "secret\n");
  ASSERT_EQ(::symlink("secret", path.c_str()), 0);
  EXPECT_TRUE(last_lines(path, 5).empty());
  EXPECT_EQ(file_size(path), 0);
  EXPECT_EQ(offset_of_last_lines(path, 5), 0);
}

TEST(OffsetOfLastLines, LooksForALineNoFurtherThanALongOneReaches) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/log.txt";
  write(path, "one\n");
  constexpr std::int64_t kHuge = std::int64_t{1} << 42;
  ASSERT_EQ(::truncate(path.c_str(), kHuge), 0);  // takes no room
  const std::int64_t offset = offset_of_last_lines(path, 5);
  EXPECT_GE(offset, kHuge - kLongestLine - (1 << 20));
}

TEST(OffsetOfLastLines, CountsAHalfWrittenLine) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/log.txt";
  write(path, "one\ntwo\nthree\n");
  EXPECT_EQ(offset_of_last_lines(path, 1), 8);
  EXPECT_EQ(offset_of_last_lines(path, 2), 4);
  EXPECT_EQ(offset_of_last_lines(path, 3), 0);
  EXPECT_EQ(offset_of_last_lines(path, 9), 0);
  EXPECT_EQ(offset_of_last_lines(path, 0), 14);
  append(path, "four");
  EXPECT_EQ(offset_of_last_lines(path, 1), 14);
}

TEST(OffsetOfLastLines, BeyondOneBlock) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/log.txt";
  write(path, "first\n" + std::string(200'000, 'x') + "\nlast\n");
  EXPECT_EQ(offset_of_last_lines(path, 2), 6);
}

class LogReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
    ASSERT_TRUE(loop);
    loop_ = std::move(*loop);
    auto reader = LogReader::create(*loop_, [this](std::string_view bytes) {
      got_.append(bytes);
      if (got_.size() >= wanted_) loop_->stop();
    });
    ASSERT_TRUE(reader);
    reader_ = std::move(*reader);
    os::RealClock clock;
    loop_->at(clock.now().boot_ns + kDeadlineNs, [this] {
      ADD_FAILURE() << "got only \"" << got_ << "\"";
      loop_->stop();
    });
  }
  /// Runs the loop until that many bytes have come.
  void until(std::size_t bytes) {
    wanted_ = bytes;
    if (got_.size() >= bytes) return;
    ASSERT_TRUE(loop_->run());
  }

  const Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<LogReader> reader_;
  std::string got_;
  std::size_t wanted_ = 1u << 30;
};

TEST_F(LogReaderTest, StopsDrainingWhenItIsAskedToEnd) {
  const std::string path = scratch_.path() + "/log.txt";
  const std::size_t size = 32 << 20;
  write(path, std::string(size, 'x'));
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &term, nullptr), 0);
  ASSERT_EQ(::raise(SIGTERM), 0);
  reader_->follow(path);
  reader_->drain();
  const std::size_t at_once = got_.size();
  int signal = 0;
  ::sigwait(&term, &signal);
  ::pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  EXPECT_LT(at_once, size);
  reader_->drain();
  EXPECT_EQ(got_.size(), size);
}

TEST_F(LogReaderTest, PassesOverAHole) {
  const std::string path = scratch_.path() + "/log.txt";
  write(path, "one\n");
  reader_->follow(path);
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 40), 0);
  append(path, "two\n");
  reader_->drain();
  EXPECT_LT(got_.size(), 1U << 20);
  EXPECT_TRUE(got_.starts_with("one\n") && got_.ends_with("two\n"));
}

TEST(OffsetOfLastLines, EndsAtAHole) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/log.txt";
  write(path, "one\n");
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 40), 0);
  append(path, "two\nthree\n");
  EXPECT_GT(offset_of_last_lines(path, 5), off_t{1} << 39);
}

TEST_F(LogReaderTest, FollowsAFileThatDoesNotExistYet) {
  const std::string path = scratch_.path() + "/log.txt";
  reader_->follow(path);
  write(path, "one\n");
  until(4);
  append(path, "two\n");
  until(8);
  EXPECT_EQ(got_, "one\ntwo\n");
}

TEST_F(LogReaderTest, ARetrysLogFollowsAfterTheRestOfTheOldOne) {
  const std::string path = scratch_.path() + "/log.txt";
  write(path, "first\n");
  reader_->follow(path);
  until(6);
  append(path, "last words\n");
  std::filesystem::rename(path, scratch_.path() + "/log.1.txt");
  write(path, "second\n");
  reader_->follow(path);
  until(24);
  EXPECT_EQ(got_, "first\nlast words\nsecond\n");
}

TEST_F(LogReaderTest, StartsAtTheGivenOffset) {
  const std::string path = scratch_.path() + "/log.txt";
  write(path, "skipped\nshown\n");
  reader_->follow(path, 8);
  reader_->drain();
  EXPECT_EQ(got_, "shown\n");
}

TEST(Git, AFolderWithoutGitIsNoError) {
  const Scratch scratch;
  const GitState state = git_state_of(scratch.path());
  EXPECT_EQ(state.commit, "");
  EXPECT_FALSE(state.dirty);
}

TEST(SubmitContextOfShell, EnvironmentUmaskLimitsAndAFreshKey) {
  const Scratch scratch;
  ::setenv("PERGPU_TEST_MARK", "here", 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const SubmitContext context = capture_context(scratch.path(), "");
  ::unsetenv("PERGPU_TEST_MARK");
  EXPECT_NE(std::find(context.env.begin(), context.env.end(), "PERGPU_TEST_MARK=here"),
            context.env.end());
  EXPECT_EQ(context.key.size(), 32u);
  EXPECT_NE(context.key, capture_context(scratch.path(), "").key);
  EXPECT_FALSE(context.limits.empty());
  EXPECT_EQ(context.devices, "");
  const mode_t before = ::umask(027);
  EXPECT_EQ(capture_context(scratch.path(), "").umask, 027);
  EXPECT_EQ(::umask(before), 027u);
}

TEST(SubmitContextOfShell, DevicesComeFromCudaVisibleDevicesUnlessGiven) {
  const Scratch scratch;
  ::setenv("CUDA_VISIBLE_DEVICES", "0,2", 1);
  EXPECT_EQ(capture_context(scratch.path(), "").devices, "0,2");
  EXPECT_EQ(capture_context(scratch.path(), "1").devices, "1");
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(capture_context(scratch.path(), "").devices, "-1");  // CUDA sees none, so do we
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace pergpu::cli
