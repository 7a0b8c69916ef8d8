// What a keeper does to an attempt that goes on: signals ahead of its end.
#include "keeper/rig.h"

namespace pergpu::keeper::rig {
namespace {

using KeeperWatch = KeeperTest;

// A shell waits for its children; `sleep` is one, and in its process group, too.
constexpr char kTraps[] =
    "trap 'echo usr1; n=$((n+1))' USR1; trap 'exit 3' TERM; touch ready; "
    "while :; do sleep 1000 & wait; kill $!; done";

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

}  // namespace
}  // namespace pergpu::keeper::rig
