// `pergpu top --once` against coordinators that answer otherwise than ours.
#include <gtest/gtest.h>

#include "fake_coordinator.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using Session = FakeCoordinator::Session;

class TopCommand : public testing::Test {
 protected:
  void SetUp() override { NEEDS_BINARY(); }

  const Scratch scratch_;
};

json everything(const json& jobs) {
  return {{"event", "snapshot"},
          {"all", true},
          {"jobs", jobs},
          {"sweeps", json::array()},
          {"counts", {{"held", 1}}},
          {"gpus", json::array()},
          {"lanes", json::array()},
          {"cpu_lanes", 2}};
}

TEST_F(TopCommand, OnceShowsWhatItIsTold) {
  FakeCoordinator fake(scratch_.socket(), [](Session& session, const json&) {
    session.send(everything(json::array({{{"id", 1},
                                          {"sweep", "t"},
                                          {"run", "00"},
                                          {"step", "train"},
                                          {"state", "held"},
                                          {"reason", "held by hand"}}})));
    return true;
  });
  Program program(scratch_, {"top", "--once"});
  EXPECT_EQ(program.wait(), 0) << program.err;
  EXPECT_NE(program.out.find("pergpu  1 held"), std::string::npos) << program.out;
  EXPECT_NE(program.out.find("1  t/00/train  held"), std::string::npos) << program.out;
  EXPECT_NE(program.out.find("held by hand"), std::string::npos) << program.out;
  const std::vector<json> asked = fake.requests("watch");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0]["all"], true);
}

TEST_F(TopCommand, AnOlderCoordinatorIsNamedWithTheWayOut) {
  FakeCoordinator fake(scratch_.socket(),
                       [](Session& session, const json&) {
                         session.send({{"event", "snapshot"},
                                       {"sweep", {{"id", 3}, {"name", "t"}}},
                                       {"jobs", json::array()},
                                       {"lanes", json::array()}});
                         return true;
                       },
                       {{"protocol", 1}, {"version", "99.0.7"}, {"pid", 4711}});
  Program program(scratch_, {"top", "--once"});
  EXPECT_EQ(program.wait(), 3);
  EXPECT_NE(program.err.find("99.0.7"), std::string::npos) << program.err;
  EXPECT_NE(program.err.find("pergpu coordinator stop"), std::string::npos) << program.err;
  EXPECT_EQ(program.out, "");
}

TEST_F(TopCommand, ARefusalIsSaid) {
  FakeCoordinator fake(scratch_.socket(), [](Session& session, const json&) {
    session.refuse(3, "no more watchers");
    return true;
  });
  Program program(scratch_, {"top", "--once"});
  EXPECT_EQ(program.wait(), 3);
  EXPECT_NE(program.err.find("no more watchers"), std::string::npos) << program.err;
}

}  // namespace
}  // namespace pergpu::cli
