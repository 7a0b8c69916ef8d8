// A keeper whose files in the run folder go, and whose home does.
#include <unistd.h>

#include "keeper/rig.h"
#include "os/clock.h"
#include "os/fs/boot_id.h"
#include "os/fs/file.h"

namespace pergpu::keeper::rig {
namespace {

class KeeperFiles : public KeeperTest {
 protected:
  void use(const std::string& home, const std::string& run) {
    home_name_ = home;
    run_name_ = run;
    for (const std::string& folder : {this->home(), this->run()}) {
      std::filesystem::create_directories(folder);
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
    }
  }
  std::string waits_for_go() const {
    return "while [ ! -e " + folder_.path() + "/go ]; do sleep 0.01; done; exit 7";
  }
  /// Started; the connection has ended.
  Started start_job_and_leave() {
    Client client = connect();
    client.send(shell(1, waits_for_go()));
    return client.expect<Started>();
  }
  /// What the keeper holds, by its socket and by its record, in this folder.
  void expect_job_in(const std::string& folder, std::int32_t pid) {
    ASSERT_TRUE(
        eventually([&] { return !read_record(record_path(folder, kId), os::boot_id()).empty(); }));
    EXPECT_EQ(read_record(record_path(folder, kId), os::boot_id()).at(0).started->pid, pid);
    Result<os::UniqueFd> fd = os::connect_unix(socket_path(folder, kId), true);
    ASSERT_TRUE(fd) << fd.error().message;
    Client next(*std::move(fd));
    next.send(Hello{});
    const State state = next.expect<State>();
    ASSERT_EQ(state.held.size(), 1u);
    EXPECT_EQ(state.held[0].started->pid, pid);
    EXPECT_TRUE(std::filesystem::exists(notify_path(folder, kId)));
  }
};

TEST_F(KeeperFiles, AreMadeAgainWhenTheConnectionEnds) {
  start_keeper();
  Started started;
  {
    Client client = connect();
    client.send(shell(1, waits_for_go()));
    started = client.expect<Started>();
    std::filesystem::remove_all(run());
  }
  expect_job_in(run(), started.pid);
}

TEST_F(KeeperFiles, AreMadeAgainWhileNobodyIsConnected) {
  start_keeper();
  const Started started = start_job_and_leave();
  for (const auto& file : std::filesystem::directory_iterator(run()))
    std::filesystem::remove(file.path());
  expect_job_in(run(), started.pid);
}

TEST_F(KeeperFiles, AreMadeAgainOnRequestAndTheConnectionGoesOn) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, waits_for_go()));
  const Started started = client.expect<Started>();
  std::filesystem::remove_all(run());
  client.send(Rebind{.run_folder = run()});
  client.send(Hello{});
  EXPECT_EQ(client.expect<State>().held.at(0).started->pid, started.pid);
  for (const std::string& path :
       {socket_path(run(), kId), notify_path(run(), kId), record_path(run(), kId)})
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  spill(folder_.path() + "/go", "");
  EXPECT_EQ(client.expect<Exited>().exit_code, 7);
  EXPECT_EQ(read_record(record_path(run(), kId), os::boot_id()).at(0).exited->exit_code, 7);
}

TEST_F(KeeperFiles, MoveWhereTheCoordinatorWantsThem) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, waits_for_go()));
  const Started started = client.expect<Started>();
  const std::string other = folder_.path() + "/other";
  client.send(Rebind{.run_folder = other});
  client.send(Hello{});
  client.expect<State>();
  EXPECT_TRUE(os::list_dir(run())->empty());
  client = Client(os::UniqueFd());
  expect_job_in(other, started.pid);
}

TEST_F(KeeperFiles, LieInTheHomeWhereTheirFolderCannotBeMade) {
  use("/h", "/runtime/run");
  start_keeper();
  const Started started = start_job_and_leave();
  std::filesystem::remove_all(folder_.path() + "/runtime");
  spill(folder_.path() + "/runtime", "a file");
  expect_job_in(home() + "/run", started.pid);
}

TEST_F(KeeperFiles, AreNotMadeInAnotherHomeOfThatName) {
  use("/h", "/h/run");
  const std::string revived = folder_.path() + "/revived";
  spill(folder_.path() + "/pergpu", "#!/bin/sh\necho >> " + revived + "\n");
  ASSERT_EQ(::chmod((folder_.path() + "/pergpu").c_str(), 0700), 0);
  start_keeper(folder_.path() + "/pergpu");
  Started started;
  {
    Client client = connect();
    client.send(shell(1, waits_for_go()));
    started = client.expect<Started>();
    std::filesystem::rename(home(), folder_.path() + "/moved");
    use("/h", "/h/run");
    spill(socket_path(run(), kId), "another keeper's");
  }
  EXPECT_TRUE(os::is_alive(started.pid, started.start_ticks));
  spill(folder_.path() + "/go", "");  // it ends with its job, since nobody will come
  ASSERT_TRUE(eventually([&] { return os::has_ended(keeper_.pidfd); }));
  EXPECT_EQ(*os::list_dir(run()), std::vector<std::string>{"k7"});
  EXPECT_EQ(slurp(socket_path(run(), kId)), "another keeper's");
  EXPECT_FALSE(std::filesystem::exists(revived)) << "a coordinator was started in another home";
}

}  // namespace
}  // namespace pergpu::keeper::rig
