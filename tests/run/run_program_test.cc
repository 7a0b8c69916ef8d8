// Other programs run to their end by helpers: hooks and curl.
#include "run/run_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "os/clock.h"
#include "os/process/proc.h"

namespace pergpu {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

ProgramCall shell(const std::string& script, std::int64_t limit_ns = 60 * kSecond) {
  return {.argv = {"sh", "-c", script},
          .env = {"PATH=/usr/bin:/bin", "WHO=me"},
          .cwd = "/",
          .limit_ns = limit_ns};
}

TEST(RunProgram, BringsItsStatusAndWhatItSaid) {
  const Result<ProgramEnd> end = run_program(shell("echo \"$WHO $PWD\"; echo wrong >&2; exit 3"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, os::ExitStatus(os::Exited{3}));
  EXPECT_EQ(end->output, "me /\n");
  EXPECT_EQ(end->complaint, "wrong\n");
}

TEST(RunProgram, GivesItBothInputs) {
  ProgramCall call = shell("cat; cat /dev/fd/3");
  call.input = "first ";
  call.more = "second";
  const Result<ProgramEnd> end = run_program(call);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "first second");
}

TEST(RunProgram, KillsWhatHangsWithItsChildren) {
  const std::string path = testing::TempDir() + "pergpu-child-" + std::to_string(::getpid());
  const Result<ProgramEnd> end =
      run_program(shell("sleep 1000 & echo $! > " + path + "; exec sleep 1000", 5 * kSecond));
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->status) << "it did not end by itself";
  pid_t child = 0;
  std::ifstream(path) >> child;
  ASSERT_GT(child, 0);
  const std::int64_t patience = os::boot_now_ns() + 30 * kSecond;
  for (;;) {
    const std::optional<os::ProcStat> stat = os::read_stat(child);
    if (!stat || stat->ended()) break;
    ASSERT_LT(os::boot_now_ns(), patience);
    ::usleep(2000);
  }
  ::unlink(path.c_str());
}

TEST(RunProgram, DoesNotWaitForWhatItLeavesInTheBackground) {
  const std::int64_t begin = os::boot_now_ns();
  const Result<ProgramEnd> end = run_program(shell("(sleep 20; echo late) & echo now"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "now\n");
  EXPECT_LT(os::boot_now_ns() - begin, 15 * kSecond);
}

TEST(RunProgram, KeepsLittleOfAProgramThatSaysTooMuch) {
  const Result<ProgramEnd> end = run_program(shell("yes | head -c 3000000"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, os::ExitStatus(os::Exited{0}));
  EXPECT_EQ(end->output.size(), ProgramCall().most_said);
}

TEST(RunProgram, NamesAProgramThatIsNotThere) {
  const Result<ProgramEnd> end = run_program(
      {.argv = {"no-such-program"}, .env = {"PATH=/usr/bin"}, .cwd = "/", .limit_ns = kSecond});
  ASSERT_FALSE(end);
  EXPECT_NE(end.error().message.find("no-such-program"), std::string::npos);
}

TEST(LastLine, IsTheLastThatIsNotBlank) {
  EXPECT_EQ(last_line("one\ntwo\n"), "two");
  EXPECT_EQ(last_line("one\r\n two \t\r\n \n\n"), " two");
  EXPECT_EQ(last_line("10 %\r20 %\r"), "20 %");
  EXPECT_EQ(last_line("one"), "one");
  EXPECT_EQ(last_line(" \n"), "");
  EXPECT_EQ(last_line(""), "");
}

}  // namespace
}  // namespace pergpu
