// The client's side of the protocol against a coordinator that misbehaves as told.
#include "cli/client/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "cli/follow/interrupts.h"
#include "cli/follow/json_lines.h"
#include "cli/submit/submit.h"
#include "cli/term/exit_code.h"
#include "fake_coordinator.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using Session = FakeCoordinator::Session;

Place place_of(const Scratch& scratch) {
  return Place{.home = scratch.home(), .run_dir = scratch.run_dir()};
}

TEST(Client, WithoutACoordinatorNothingIsStartedWhenThatIsNotAllowed) {
  const Scratch scratch;
  Client client(place_of(scratch), Client::Start::Never);
  const Result<json> reply = client.call({{"op", "status"}});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::NotFound);
  EXPECT_FALSE(std::filesystem::exists(place_of(scratch).log()));
}

TEST(Client, ARefusalKeepsItsExitCodeAndWords) {
  const Scratch scratch;
  FakeCoordinator fake(scratch.socket(), [](Session& session, const json& request) {
    session.refuse(request["code"].get<int>(), "because of it");
    return true;
  });
  Client client(place_of(scratch), Client::Start::Never);
  for (const int code : {1, 2, 3, 4}) {
    const Result<json> reply = client.call({{"op", "x"}, {"code", code}});
    ASSERT_FALSE(reply);
    EXPECT_EQ(exit_code_of(reply.error()), code);
    EXPECT_EQ(reply.error().message, "because of it");
  }
  EXPECT_EQ(fake.requests("x").size(), 4u);
}

TEST(Interrupts, ACoordinatorThatDoesNotAnswerIsNoReasonToLeave) {
  const Scratch scratch;
  std::atomic<bool> stalled = true;
  FakeCoordinator fake(scratch.socket(), [&](Session& session, const json&) {
    if (!stalled) session.reply({{"running", 1}, {"held", 2}});
    return true;
  });
  Interrupts interrupts(place_of(scratch), 3, false, std::chrono::milliseconds(50));
  const Result<std::string> unanswered = interrupts.next();
  ASSERT_FALSE(unanswered);
  EXPECT_EQ(unanswered.error().kind, ErrorKind::Unavailable);
  EXPECT_NE(unanswered.error().message.find("has not confirmed"), std::string::npos);
  EXPECT_FALSE(interrupts.any());
  stalled = false;
  EXPECT_TRUE(interrupts.next());
  ASSERT_EQ(fake.requests("interrupt").size(), 2u);
  EXPECT_EQ(fake.requests("interrupt")[1]["level"], 1);
}

TEST(JsonLines, GiveEachLineOnceAndTheLastOneWithoutItsEnd) {
  JsonLines lines;
  EXPECT_EQ(lines.feed(7, "one\ntw"), "{\"job\":7,\"line\":\"one\",\"schema\":1}\n");
  EXPECT_EQ(lines.feed(7, "o\n\xff"), "{\"job\":7,\"line\":\"two\",\"schema\":1}\n");
  EXPECT_EQ(json::parse(lines.finish(7))["line"], "\xef\xbf\xbd");
  EXPECT_EQ(lines.finish(7), "");
}

TEST(Client, ABrokenConnectionIsMendedAndTheSameSubmitSentAgain) {
  const Scratch scratch;
  std::atomic<int> tries = 0;
  FakeCoordinator fake(scratch.socket(), [&](Session& session, const json& request) {
    for (int i = 0; i < request["runs"].get<int>(); ++i) session.read_line();
    if (++tries < 3) return false;  // accepted perhaps, but the reply never comes
    session.reply({{"schema", 1}, {"sweep", "thirteen"}, {"sweep_id", 3}, {"jobs", {17, 18}}});
    return true;
  });
  Client client(place_of(scratch), Client::Start::Never);
  SweepSpec sweep;
  sweep.name = "thirteen";
  sweep.runs = {RunSpec{.json = R"({"seed":1})"}, RunSpec{.json = R"({"seed":2})"}};
  SubmitContext context;
  context.key = "00112233445566778899aabbccddeeff";
  const Result<SubmitReply> reply = submit(client, sweep, context);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->jobs, (std::vector<std::int64_t>{17, 18}));
  const std::vector<json> sent = fake.requests("submit");
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0], sent[2]);
  EXPECT_EQ(sent[2]["context"]["key"], context.key);
}

TEST(Client, ACoordinatorThatAlwaysBreaksIsGivenUp) {
  const Scratch scratch;
  FakeCoordinator fake(scratch.socket(), [](Session&, const json&) { return false; });
  Client client(place_of(scratch), Client::Start::Never);
  const Result<json> reply = client.call({{"op", "ps"}});
  ASSERT_FALSE(reply);
  EXPECT_EQ(exit_code_of(reply.error()), kUnreachable);
  EXPECT_EQ(fake.requests("ps").size(), 6u);  // the first and five new tries
}

TEST(Client, ARefusalInTheMiddleOfASubmitIsHeard) {
  const Scratch scratch;
  FakeCoordinator fake(scratch.socket(), [](Session& session, const json&) {
    session.read_line();
    session.refuse(2, "run 1 makes no sense");
    return false;
  });
  Client client(place_of(scratch), Client::Start::Never);
  const std::vector<std::string> runs(200'000, R"({"json":{"text":"0123456789"}})");
  const Result<json> reply = client.call({{"op", "submit"}}, runs);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message, "run 1 makes no sense");
  EXPECT_EQ(fake.requests("submit").size(), 1u);
}

TEST(Client, AnotherProtocolIsRefusedWithTheWayOut) {
  const Scratch scratch;
  FakeCoordinator fake(scratch.socket(), [](Session&, const json&) { return true; },
                       {{"protocol", 2}, {"version", "2.0.0"}, {"pid", 4711}});
  Client client(place_of(scratch), Client::Start::IfNeeded);
  const Result<json> reply = client.call({{"op", "ps"}});
  ASSERT_FALSE(reply);
  EXPECT_EQ(exit_code_of(reply.error()), kUnreachable);
  EXPECT_NE(reply.error().message.find("version 2.0.0, pid 4711"), std::string::npos);
  EXPECT_NE(reply.error().message.find("coordinator stop"), std::string::npos);
  EXPECT_TRUE(fake.requests("ps").empty());
}

TEST(Client, AnOlderCoordinatorThatIsNeededIsSpokenTo) {
  for (const json& status : {json{{"live", 1}, {"queued", 0}}, json{{"live", 0}, {"queued", 1}},
                             json{{"live", 0}, {"queued", 0}, {"cleaning", 1}}}) {
    const Scratch scratch;
    FakeCoordinator fake(scratch.socket(),
                         [&](Session& session, const json& request) {
                           session.reply(request["op"] == "status" ? status : json{{"a", 1}});
                           return true;
                         },
                         {{"protocol", 1}, {"version", "0.0.1"}, {"pid", 4711}});
    Client client(place_of(scratch), Client::Start::IfNeeded);
    const Result<json> reply = client.call({{"op", "ps"}});
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_TRUE(fake.requests("stop").empty()) << status;
  }
}

TEST(Client, WhatIsAskedOverOneConnectionIsNotSentOverAnother) {
  const Scratch scratch;
  FakeCoordinator fake(scratch.socket(), [](Session& session, const json& request) {
    if (request["op"] == "moved") return false;
    session.reply({{"a", 1}});
    return true;
  });
  Client client(place_of(scratch), Client::Start::Never);
  EXPECT_FALSE(client.call_unbroken({{"op", "status"}})) << "there is none yet";
  EXPECT_TRUE(fake.requests("status").empty());
  ASSERT_TRUE(client.call({{"op", "clean"}}));
  EXPECT_TRUE(client.call_unbroken({{"op", "status"}}));
  for (int i = 0; i < 2; ++i) {
    const Result<json> broken = client.call_unbroken({{"op", "moved"}});
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().kind, ErrorKind::Unavailable);
  }
  EXPECT_EQ(fake.requests("moved").size(), 1u);
  EXPECT_TRUE(client.call({{"op", "cleaned"}})) << "that one may be sent over a new one";
}

TEST(Client, AWaitEndsAtItsDeadline) {
  const Scratch scratch;
  FakeCoordinator fake(scratch.socket(), [](Session& session, const json&) {
    session.wait_for("never");
    return true;
  });
  Client client(place_of(scratch), Client::Start::Never);
  const Result<json> reply = client.call({{"op", "wait"}}, {}, std::chrono::milliseconds(50));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::Busy);
}

TEST(Client, AnAnswerThatIsNoJsonIsAnError) {
  EXPECT_FALSE(unwrap_reply("hello"));
  EXPECT_FALSE(unwrap_reply("{}"));
  EXPECT_FALSE(unwrap_reply(R"({"ok":1})"));
  EXPECT_FALSE(unwrap_reply(R"({"ok":false})"));
  EXPECT_TRUE(unwrap_reply(R"({"ok":true})"));
}

TEST(Backoff, FiveTriesAMinuteWithGrowingPauses) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  Backoff backoff;
  std::chrono::milliseconds last{-1};
  for (int i = 0; i < 5; ++i) {
    const auto pause = backoff.next(i * kSecond);
    ASSERT_TRUE(pause);
    EXPECT_GT(*pause, last);
    last = *pause;
  }
  EXPECT_FALSE(backoff.next(59 * kSecond));
  EXPECT_TRUE(backoff.next(61 * kSecond));
}

TEST(Version, OlderMeansOlderByNumber) {
  EXPECT_TRUE(is_older_version("0.9.0", "0.10.0"));
  EXPECT_TRUE(is_older_version("0.9", "1"));
  EXPECT_FALSE(is_older_version("1.0.0", "1.0.0"));
  EXPECT_FALSE(is_older_version("2.0", "1.9"));
  EXPECT_FALSE(is_older_version("unknown", "1.0"));
}

}  // namespace
}  // namespace pergpu::cli
