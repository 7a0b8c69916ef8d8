// What a keeper does to an attempt that goes on: signals ahead of its end.
#include "keeper/rig.h"

namespace pergpu::keeper::rig {
namespace {

using KeeperWatch = KeeperTest;

// A shell waits for its children; `sleep` is one, and in its process group, too.  No other program
// runs when it is ready: the shell would tell of one that the signal ended.
constexpr char kTraps[] =
    "trap 'echo usr1; n=$((n+1))' USR1; trap 'exit 3' TERM; : >ready; "
    "while :; do sleep 1000 & wait; kill $! 2>/dev/null; done";

TEST_F(KeeperWatch, SignalReachesTheProcessGroupOnceHoweverOftenItIsAsked) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, kTraps));
  client.expect<Started>();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_.path() + "/ready"); }));
  client.send(Signal{.id = {{2}, 1}, .number = SIGUSR1});  // another attempt's
  client.send(Signal{.id = {{1}, 1}, .number = SIGUSR1});
  client.send(Signal{.id = {{1}, 1}, .number = SIGUSR1});
  ASSERT_TRUE(eventually([&] { return slurp(out() + "/log.txt").find("usr1\n") == 0; }));
  client.send(Signal{.id = {{1}, 1}, .number = SIGUSR1});
  client.send(Stop{.id = {{1}, 1}});
  EXPECT_EQ(client.expect<Exited>().exit_code, 3);
  EXPECT_EQ(slurp(out() + "/log.txt"), "usr1\n");
}

constexpr std::int64_t kMillisecond = 1'000'000;

TEST_F(KeeperWatch, SilenceIsToldAndOutputIsNot) {
  start_keeper();
  Client client = connect();
  Start silent = shell(1, "exec sleep 1000");
  silent.idle_ns = 300 * kMillisecond;
  client.send(silent);
  client.expect<Started>();
  const Quiet quiet = client.expect<Quiet>();
  EXPECT_FALSE(quiet.is_stall);
  EXPECT_GE(quiet.silent_ns, 300 * kMillisecond);
  client.send(Stop{.id = {{1}, 1}});
  client.wait_for<Exited>();

  Start talking = shell(2, "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.1; done");
  talking.idle_ns = 800 * kMillisecond;
  client.send(talking);
  client.expect<Started>();
  client.expect<Exited>();  // and nothing before it
}

TEST_F(KeeperWatch, ASleeperStallsWithItsWholeTreeAndASpinnerDoesNot) {
  groups_ = groups_of_this_machine();
  start_keeper();
  Client client = connect();
  Start sleeper = shell(1, "sleep 1000 & exec sleep 1000");
  sleeper.stall_ns = 400 * kMillisecond;
  client.send(sleeper);
  client.expect<Started>();
  const Quiet quiet = client.expect<Quiet>();
  EXPECT_TRUE(quiet.is_stall);
  EXPECT_LT(quiet.cpu_ns, 10 * kMillisecond);
  EXPECT_TRUE(client.expect<Quiet>().is_stall);  // told again
  client.send(Stop{.id = {{1}, 1}});
  client.wait_for<Exited>();

  // A child of the first process works.
  Start spinner = shell(2, "timeout 2 sh -c 'while :; do :; done'; true");
  spinner.stall_ns = 800 * kMillisecond;
  client.send(spinner);
  client.expect<Started>();
  client.expect<Exited>();
}

}  // namespace
}  // namespace pergpu::keeper::rig
