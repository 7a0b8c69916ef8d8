// What a job does to keep its keeper busy.
#include "keeper/rig.h"

namespace pergpu::keeper::rig {
namespace {

using KeeperAgainstItsJob = KeeperTest;

TEST_F(KeeperAgainstItsJob, WhateverLiesInThePlaceOfMetricsKeepsItFromNothing) {
  start_keeper();
  Client client = connect();
  std::int64_t number = 0;
  for (const char* plant : {"ln -s /dev/zero $M", "truncate -s 8T $M", "mkfifo $M"}) {
    Start start = shell(++number, std::string(plant) + "; : > $M.there; exec sleep 1000");
    const std::string metrics = out() + "/metrics" + std::to_string(number);
    start.env.push_back("M=" + metrics);
    start.ready_path = metrics;
    client.send(start);
    client.expect<Started>();
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(metrics + ".there"); }));
    client.send(Stop{.id = {{number}, 1}, .kill = true});
    EXPECT_EQ(client.expect<Exited>().signal, SIGKILL) << plant;
    client.send(Forget{.id = {{number}, 1}});
  }
}

TEST_F(KeeperAgainstItsJob, ALineBehindAMegabyteOfMetricsIsFoundLater) {
  start_keeper();
  Client client = connect();
  Start start =
      shell(1, "head -c 3000000 /dev/zero >> $M; while :; do echo >> $M; sleep 0.01; done");
  start.env.push_back("M=" + out() + "/metrics.jsonl");
  start.ready_path = out() + "/metrics.jsonl";
  client.send(start);
  client.expect<Started>();
  EXPECT_EQ(client.expect<Notify>().line, "READY=1");
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  client.expect<Exited>();
}

TEST_F(KeeperAgainstItsJob, AFloodOfDatagramsDoesNotKeepItFromItsEnd) {
  start_keeper();
  Client client = connect();
  Start start = shell(1,
                      "exec python3 -c 'import os, socket\n"
                      "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                      "s.connect(os.environ[\"PERGPU_NOTIFY\"])\n"
                      "open(\"flood\", \"w\").close()\n"
                      "while True: s.send(b\"x\")'");
  client.send(start);
  client.expect<Started>();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_.path() + "/flood"); }));
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_EQ(client.expect<Exited>().signal, SIGKILL);
}

}  // namespace
}  // namespace pergpu::keeper::rig
