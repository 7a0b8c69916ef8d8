// `pergpu run` against a coordinator that does what the test says: exit codes, Ctrl-C, detaching,
// and coordinators that die while they are watched.
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>

#include <atomic>
#include <fstream>

#include "cli/follow/wait_reason.h"
#include "fake_coordinator.h"
#include "os/loop.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using Session = FakeCoordinator::Session;

json job(int id, const std::string& state) {
  return {{"id", id},       {"sweep", "t"}, {"sweep_id", 3},
          {"run", "00"},    {"index", 0},   {"step", "s" + std::to_string(id)},
          {"state", state}, {"attempt", 1}, {"reason", "as the test says"}};
}

json snapshot(const json& jobs) {
  return {{"event", "snapshot"},
          {"sweep", {{"id", 3}, {"name", "t"}, {"steps", {"s1", "s2"}}}},
          {"jobs", jobs},
          {"lanes", json::array()}};
}

class Follow : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_BINARY();
    std::ofstream(scratch_.path() + "/t.toml") << "name = \"t\"\n[steps.s1]\ncommand = [\"true\"]\n"
                                                  "[steps.s2]\ncommand = [\"true\"]\n";
  }

  /// Answers submits, hands the rest to `then`.
  FakeCoordinator::Handler accepting(FakeCoordinator::Handler then) {
    return [then = std::move(then)](Session& session, const json& request) {
      if (request["op"] != "submit") return then(session, request);
      for (int i = 0; i < request["runs"].get<int>(); ++i) session.read_line();
      session.reply({{"sweep", "t"}, {"sweep_id", 3}, {"jobs", {1, 2}}, {"new", 2}});
      return true;
    };
  }

  const Scratch scratch_;
};

TEST_F(Follow, AllDoneIsZeroAndTheTableGoesToStdout) {
  FakeCoordinator fake(scratch_.socket(), accepting([](Session& session, const json&) {
                         session.send(snapshot({job(1, "running"), job(2, "queued")}));
                         session.send({{"event", "job"}, {"job", job(1, "done")}});
                         session.send({{"event", "job"}, {"job", job(2, "done")}});
                         session.send({{"event", "end"}});
                         return true;
                       }));
  Program program(scratch_, {"run", "t.toml"});
  EXPECT_EQ(program.wait(), 0) << program.err;
  EXPECT_NE(program.out.find("t: 2 done"), std::string::npos) << program.out;
  EXPECT_NE(program.err.find("1 t/00/s1 done"), std::string::npos) << program.err;
  EXPECT_EQ((program.out + program.err).find('\x1b'), std::string::npos);
}

/// The answer to `why` of job 1.
json queued_because(const std::string& why) {
  const json one = {{"id", 1}, {"name", "t/00/s1"}, {"state", "queued"}, {"why", why}};
  return {{"schema", 1}, {"jobs", json::array({one})}};
}

TEST_F(Follow, WithoutATerminalItSaysWhyNothingStarts) {
  for (const bool is_single : {false, true}) {
    FakeCoordinator fake(scratch_.socket(), accepting([](Session& session, const json& request) {
                           if (request["op"] == "why") {
                             session.reply(queued_because("all 2 GPUs are in use"));
                             return true;
                           }
                           session.send(snapshot(json::array({job(1, "queued")})));
                           session.wait_for("end");
                           session.send({{"event", "job"}, {"job", job(1, "done")}});
                           session.send({{"event", "end"}});
                           return true;
                         }));
    Program program =
        is_single ? Program(scratch_, {"run", "--", "true"}) : Program(scratch_, {"run", "t.toml"});
    EXPECT_TRUE(program.says(is_single ? "pergpu: t/00/s1 is queued: all 2 GPUs are in use"
                                       : "nothing starts; t/00/s1: all 2 GPUs are in use"));
    EXPECT_EQ(fake.requests("why").at(0)["sel"], json::array({"1"}));
    fake.raise("end");
    EXPECT_EQ(program.wait(), 0) << program.err;
  }
}

TEST_F(Follow, AReasonIsReportedOnceWhateverItsFigures) {
  const std::vector<std::string> reasons = {"5 GiB are in use", "6 GiB are in use", "a full disk"};
  std::size_t asked = 0;
  FakeCoordinator fake(scratch_.socket(), [&](Session& session, const json&) {
    session.reply(queued_because(reasons.at(asked++)));
    return true;
  });
  const auto loop = os::Loop::create();
  ASSERT_TRUE(loop);
  std::vector<std::string> reported;
  WaitReason reason(**loop, {.home = scratch_.home(), .run_dir = scratch_.run_dir()},
                    [&](const std::string&, const std::string& why) {
                      reported.push_back(why);
                      if (why == reasons.back()) (*loop)->stop();
                    });
  reason.is_due(true, 1);
  for (std::size_t i = 0; i < reasons.size(); ++i) reason.ask(1);
  (*loop)->at(os::RealClock().now().boot_ns + kDeadlineNs, [&] { (*loop)->stop(); });
  ASSERT_TRUE((*loop)->run());
  EXPECT_EQ(reported, (std::vector<std::string>{reasons.front(), reasons.back()}));
}

TEST_F(Follow, AReasonIsAskedForAfterSomeSecondsAndThenOnceAMinute) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const auto loop = os::Loop::create();
  ASSERT_TRUE(loop);
  WaitReason reason(**loop, {}, [](const std::string&, const std::string&) {});
  std::vector<int> due;
  for (int second = 1; second <= 140; ++second) {
    const bool is_waiting = second != 70;  // a job runs for a moment
    if (reason.is_due(is_waiting, second * kSecond)) due.push_back(second);
  }
  EXPECT_EQ(due, (std::vector<int>{6, 66, 76, 136}));
}

TEST_F(Follow, OneFailedOrOnlyHeldLeftIsOne) {
  for (const char* state : {"failed", "held", "skipped"}) {
    FakeCoordinator fake(scratch_.socket(), accepting([&](Session& session, const json&) {
                           session.send(snapshot({job(1, "done"), job(2, state)}));
                           session.send({{"event", "end"}});
                           return true;
                         }));
    Program program(scratch_, {"run", "t.toml"});
    EXPECT_EQ(program.wait(), 1) << state;
  }
}

TEST_F(Follow, JsonIsOneValueOnStdout) {
  FakeCoordinator fake(scratch_.socket(), accepting([](Session& session, const json&) {
                         session.send(snapshot(json::array({job(1, "done")})));
                         session.send({{"event", "end"}});
                         return true;
                       }));
  Program program(scratch_, {"run", "--json", "t.toml"});
  EXPECT_EQ(program.wait(), 0);
  const json value = json::parse(program.out, nullptr, false);
  EXPECT_EQ(value["schema"], 1);
  EXPECT_EQ(value["jobs"][0]["state"], "done");
}

TEST_F(Follow, DetachPrintsTheSubmitAndDoesNotWatch) {
  FakeCoordinator fake(scratch_.socket(), accepting([](Session&, const json&) { return false; }));
  Program program(scratch_, {"submit", "t.toml", "--json"});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(json::parse(program.out, nullptr, false)["sweep_id"], 3);
  EXPECT_TRUE(fake.requests("watch").empty());
}

TEST_F(Follow, ADyingCoordinatorIsReplacedAndTheWatchGoesOn) {
  std::atomic<int> watches = 0;
  FakeCoordinator fake(scratch_.socket(), accepting([&](Session& session, const json&) {
                         if (++watches == 1) {
                           session.send(snapshot({job(1, "running"), job(2, "queued")}));
                           return false;
                         }
                         session.send(snapshot({job(1, "done"), job(2, "done")}));
                         session.send({{"event", "end"}});
                         return true;
                       }));
  Program program(scratch_, {"run", "t.toml"});
  EXPECT_EQ(program.wait(), 0) << program.err;
  EXPECT_EQ(watches, 2);
  EXPECT_EQ(fake.requests("submit").size(), 1u);
  EXPECT_NE(program.err.find("1 t/00/s1 done"), std::string::npos) << program.err;
}

TEST_F(Follow, FiveBreaksInAMinuteAreTheEnd) {
  FakeCoordinator fake(scratch_.socket(), accepting([](Session&, const json&) { return false; }));
  Program program(scratch_, {"run", "t.toml"});
  EXPECT_EQ(program.wait(), 3) << program.err;
  EXPECT_EQ(fake.requests("watch").size(), 6u);
}

// Answers interrupts, and ends the watch when the test raises "end".
FakeCoordinator::Handler interruptible(const std::vector<json>& at_the_end) {
  return [at_the_end](Session& session, const json& request) {
    if (request["op"] == "interrupt") {
      session.reply({{"running", 1}, {"held", 1}});
      return true;
    }
    session.send(snapshot({job(1, "running"), job(2, "queued")}));
    session.wait_for("end");
    for (const json& one : at_the_end) session.send({{"event", "job"}, {"job", one}});
    session.send({{"event", "end"}});
    return true;
  };
}

TEST_F(Follow, CtrlCHoldsThenStopsThenKills) {
  FakeCoordinator fake(scratch_.socket(),
                       accepting(interruptible({job(1, "cancelled"), job(2, "held")})));
  Program program(scratch_, {"run", "t.toml"});
  ASSERT_TRUE(program.says("running"));
  program.signal(SIGINT);
  ASSERT_TRUE(program.says("1 job held; waiting for 1 running. Ctrl-C again: stop them"));
  program.signal(SIGINT);
  ASSERT_TRUE(program.says("stopping 1 job (SIGTERM"));
  program.signal(SIGINT);
  ASSERT_TRUE(program.says("killing 1 job (SIGKILL)"));
  fake.raise("end");
  EXPECT_EQ(program.wait(), 130);
  const std::vector<json> interrupts = fake.requests("interrupt");
  ASSERT_EQ(interrupts.size(), 3u);
  for (int level = 1; level <= 3; ++level) {
    EXPECT_EQ(interrupts[static_cast<std::size_t>(level - 1)]["level"], level);
    EXPECT_EQ(interrupts[static_cast<std::size_t>(level - 1)]["sweep_id"], 3);
  }
  EXPECT_NE(program.err.find("pergpu release t"), std::string::npos) << program.err;
}

TEST_F(Follow, AfterCtrlCRunningJobsAreWaitedFor) {
  FakeCoordinator fake(scratch_.socket(),
                       accepting(interruptible({job(1, "done"), job(2, "held")})));
  Program program(scratch_, {"run", "t.toml"});
  ASSERT_TRUE(program.says("running"));
  program.signal(SIGINT);
  ASSERT_TRUE(program.says("waiting for 1 running"));
  fake.raise("end");
  EXPECT_EQ(program.wait(), 130);
  EXPECT_NE(program.out.find("1 done, 1 held"), std::string::npos) << program.out;
}

TEST_F(Follow, AFourthCtrlCLeavesAtOnce) {
  FakeCoordinator fake(scratch_.socket(), accepting(interruptible({})));
  Program program(scratch_, {"run", "t.toml"});
  ASSERT_TRUE(program.says("running"));
  for (const char* words : {"waiting for 1 running", "stopping 1", "killing 1"}) {
    program.signal(SIGINT);
    ASSERT_TRUE(program.says(words));
  }
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 130);
}

TEST_F(Follow, HangUpAndTermDetachAndHoldNothing) {
  for (const auto& [number, code] : {std::pair{SIGHUP, 129}, std::pair{SIGTERM, 143}}) {
    FakeCoordinator fake(scratch_.socket(), accepting(interruptible({})));
    Program program(scratch_, {"run", "t.toml"});
    ASSERT_TRUE(program.says("running"));
    program.signal(number);
    EXPECT_EQ(program.wait(), code);
    EXPECT_TRUE(fake.requests("interrupt").empty());
    EXPECT_TRUE(fake.requests("hold").empty());
  }
}

class SingleJob : public Follow {
 protected:
  std::string log() const { return scratch_.path() + "/log.txt"; }
  json running() const {
    json one = job(1, "running");
    one["log"] = log();
    one["started_at"] = "2026-11-21T12:00:00.000Z";
    return one;
  }
};

TEST_F(SingleJob, ItsOutputIsOursAndSoIsItsCode) {
  FakeCoordinator fake(scratch_.socket(), accepting([&](Session& session, const json&) {
                         std::ofstream(log()) << "first\n";
                         session.send(snapshot(json::array({running()})));
                         session.wait_for("more");
                         std::ofstream(log(), std::ios::app) << "\x1b[31mlast\x1b[0m\n";
                         json end = running();
                         end["state"] = "failed";
                         end["exit"] = 7;
                         session.send({{"event", "job"}, {"job", end}});
                         session.send({{"event", "end"}});
                         return true;
                       }));
  Program program(scratch_, {"run", "--", "true"});
  ASSERT_TRUE(program.says("first\n"));
  fake.raise("more");
  EXPECT_EQ(program.wait(), 7);
  EXPECT_EQ(program.out, "first\n\x1b[31mlast\x1b[0m\n");  // a pipe gets the bytes as they are
}

TEST_F(SingleJob, ASignalIsHundredTwentyEightMore) {
  FakeCoordinator fake(scratch_.socket(), accepting([&](Session& session, const json&) {
                         json end = running();
                         end["state"] = "failed";
                         end["signal"] = 9;
                         session.send(snapshot(json::array({end})));
                         session.send({{"event", "end"}});
                         return true;
                       }));
  Program program(scratch_, {"run", "--", "true"});
  EXPECT_EQ(program.wait(), 137);
}

TEST_F(SingleJob, AFailureWithExitCodeZeroIsNotZero) {
  FakeCoordinator fake(scratch_.socket(), accepting([&](Session& session, const json&) {
                         json end = running();
                         end["state"] = "failed";
                         end["class"] = "output-missing";
                         end["exit"] = 0;
                         session.send(snapshot(json::array({end})));
                         session.send({{"event", "end"}});
                         return true;
                       }));
  Program program(scratch_, {"run", "--", "true"});
  EXPECT_EQ(program.wait(), 1);
}

TEST_F(SingleJob, TheFirstCtrlCStops) {
  FakeCoordinator fake(scratch_.socket(), accepting([&](Session& session, const json& request) {
                         if (request["op"] == "interrupt") {
                           session.reply({{"running", 1}, {"held", 0}});
                           return true;
                         }
                         std::ofstream(log()) << "up\n";
                         session.send(snapshot(json::array({running()})));
                         session.wait_for("end");
                         json end = running();
                         end["state"] = "cancelled";
                         end["signal"] = 15;
                         session.send({{"event", "job"}, {"job", end}});
                         session.send({{"event", "end"}});
                         return true;
                       }));
  Program program(scratch_, {"run", "--", "true"});
  ASSERT_TRUE(program.says("up\n"));
  program.signal(SIGINT);
  ASSERT_TRUE(program.says("stopping 1 job"));
  fake.raise("end");
  EXPECT_EQ(program.wait(), 130);
  ASSERT_EQ(fake.requests("interrupt").size(), 1u);
  EXPECT_EQ(fake.requests("interrupt")[0]["level"], 2);
}

// A pseudo terminal whose other end the test reads and types on.
class OnTerminal : public Follow {
 protected:
  void SetUp() override {
    Follow::SetUp();
    int master = -1;
    int slave = -1;
    winsize size{};
    size.ws_col = 80;
    size.ws_row = 24;
    ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, &size), 0);
    master_.reset(master);
    slave_.reset(slave);
  }

  std::vector<std::string> env() const { return {"TERM=xterm"}; }

  /// Reads what the terminal shows until it holds `text`.
  testing::AssertionResult shows(const std::string& text) {
    os::RealClock clock;
    const std::int64_t end_ns = clock.now().boot_ns + kDeadlineNs;
    while (shown_.find(text) == std::string::npos && clock.now().boot_ns < end_ns) {
      pollfd ready{master_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 200) <= 0) continue;
      std::array<char, 4096> block;
      const ssize_t n = ::read(master_.get(), block.data(), block.size());
      if (n <= 0) break;
      shown_.append(block.data(), static_cast<std::size_t>(n));
    }
    if (shown_.find(text) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the terminal never showed \"" << text << "\" but:\n"
                                       << shown_;
  }

  os::UniqueFd master_;
  os::UniqueFd slave_;
  std::string shown_;
};

TEST_F(OnTerminal, NotInItsForegroundThereIsNoRedraw) {
  // The test's process group is not the terminal's: modes must not be touched, lines are printed.
  FakeCoordinator fake(scratch_.socket(), accepting(interruptible({job(1, "done")})));
  Program program(scratch_, {"run", "t.toml"}, slave_.get(), env());
  ASSERT_TRUE(shows("t/00/s1"));
  fake.raise("end");
  EXPECT_EQ(program.wait(), 1);
  EXPECT_EQ(shown_.find("\x1b[J"), std::string::npos);
}

/// `setsid -c` makes the terminal the program's own, as a login shell would.
class InForeground : public OnTerminal {
 protected:
  void SetUp() override {
    OnTerminal::SetUp();
    if (IsSkipped()) return;
    if (::access("/usr/bin/setsid", X_OK) != 0) {
      GTEST_SKIP() << "setsid(1) is not installed: nothing was checked";
    }
  }
  void start(std::vector<std::string> arguments) {
    os::SpawnPlan plan;
    plan.argv = {"/usr/bin/setsid", "-c", "-w", binary()};
    plan.argv.insert(plan.argv.end(), arguments.begin(), arguments.end());
    plan.env = {"PATH=/usr/bin:/bin", "HOME=" + scratch_.path(), "LANG=C.UTF-8", "TERM=xterm",
                "PERGPU_HOME=" + scratch_.home()};
    plan.cwd = scratch_.path();
    plan.stdin_fd = plan.stdout_fd = plan.stderr_fd = slave_.get();
    os::SpawnResult result = os::spawn(plan);
    ASSERT_TRUE(std::holds_alternative<os::Spawned>(result));
    child_ = std::move(std::get<os::Spawned>(result));
  }
  int wait() {
    const Result<os::Reaped> reaped = os::wait_for(child_.pid);
    return reaped && std::holds_alternative<os::Exited>(reaped->status)
               ? std::get<os::Exited>(reaped->status).code
               : -1;
  }
  void type(const std::string& keys) {
    ASSERT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  tcflag_t local_modes() {
    termios modes{};
    EXPECT_EQ(::tcgetattr(slave_.get(), &modes), 0);
    return modes.c_lflag & static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  }

  os::Spawned child_;
};

TEST_F(InForeground, QDetachesWithZeroAndRestoresTheTerminal) {
  const tcflag_t before = local_modes();
  FakeCoordinator fake(scratch_.socket(), accepting(interruptible({})));
  start({"run", "t.toml"});
  ASSERT_TRUE(shows("q: detach"));
  EXPECT_EQ(local_modes(), static_cast<tcflag_t>(ISIG));
  type("q");
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(local_modes(), before);
  EXPECT_TRUE(fake.requests("interrupt").empty());
  EXPECT_TRUE(shows("`pergpu attach t` watches it again"));
}

TEST_F(InForeground, CtrlCIsTypedOnTheTerminal) {
  FakeCoordinator fake(scratch_.socket(),
                       accepting(interruptible({job(1, "done"), job(2, "held")})));
  start({"run", "t.toml"});
  ASSERT_TRUE(shows("q: detach"));
  type("\x03");
  ASSERT_TRUE(shows("1 job held; waiting for 1 running"));
  fake.raise("end");
  EXPECT_EQ(wait(), 130);
}

TEST_F(InForeground, WhileStoppedTheTerminalIsTheShells) {
  const tcflag_t before = local_modes();
  FakeCoordinator fake(scratch_.socket(), accepting(interruptible({})));
  start({"run", "t.toml"});
  ASSERT_TRUE(shows("q: detach"));
  type("\x1a");
  os::RealClock clock;
  const std::int64_t end_ns = clock.now().boot_ns + kDeadlineNs;
  while (local_modes() != before && clock.now().boot_ns < end_ns) ::poll(nullptr, 0, 5);
  EXPECT_EQ(local_modes(), before);
  shown_.clear();
  [[maybe_unused]] const int sent = ::kill(-::tcgetpgrp(master_.get()), SIGCONT);
  ASSERT_TRUE(shows("q: detach"));
  type("q");
  EXPECT_EQ(wait(), 0);
}

}  // namespace
}  // namespace pergpu::cli
