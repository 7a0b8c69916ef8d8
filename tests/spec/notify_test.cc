// [notify] of a sweep file: who is told what, and what of it may be shown.
#include "spec/sweep/notify.h"

#include <gtest/gtest.h>

#include "spec/schema/load.h"
#include "spec/sweep/wire.h"
#include "spec/tree/diagnostics.h"

namespace pergpu {
namespace {

using Kind = NotifyChannel::Kind;

ParsedSweep parse(const std::string& notify) {
  return parse_sweep(notify + "\n[steps.main]\ncommand = [\"true\"]\n", SweepFormat::Toml,
                     "test.toml");
}

TEST(Notify, OneTableOfSeveralChannelsIsToldEverything) {
  const ParsedSweep parsed = parse(R"([notify]
command = "./hook.sh --to 'the lab'"
webhook = "https://example.org/hook"
slack = "$SLACK_URL"
token = "$TOKEN"
timeout = "5s")");
  ASSERT_TRUE(parsed.sweep);
  const std::vector<NotifyChannel> channels = channels_of(parsed.sweep->notify);
  ASSERT_EQ(channels.size(), 3U);
  EXPECT_EQ(channels[0].command, (std::vector<std::string>{"./hook.sh", "--to", "the lab"}));
  EXPECT_EQ(channels[0].timeout, std::chrono::seconds(5));
  EXPECT_EQ(channels[1].kind, Kind::Webhook);
  EXPECT_EQ(channels[1].token, "$TOKEN");
  EXPECT_EQ(channels[2].token, "") << "Slack's URL is all the secret there is";
  for (const NotifyChannel& channel : channels)
    EXPECT_TRUE(channel.on_failure && channel.on_hold && channel.on_end);
}

TEST(Notify, ACommandThatNeedsAShellIsRefusedWithWhatTheSectionHas) {
  for (const auto& [command, why] : std::vector<std::pair<std::string, std::string>>{
           {"~/bin/x",
            "`notify.command`: this command doesn't run in a shell, so nothing is expanded"},
           {"$HOME/bin/x", "this command doesn't run in a shell, so nothing is expanded"},
           {"./x | mail me",
            "`|` needs a shell, but this command doesn't run in one: put it into a script"},
           {"FOO=1 ./x", "`FOO=1` before the program needs a shell: write `env NAME=VALUE …`"},
           {"./x $HOME", "[\"sh\", \"-c\", \"…\"]"}}) {
    const ParsedSweep parsed = parse("[notify]\ncommand = \"" + command + "\"");
    const std::string text = to_text(parsed.diagnostics);
    EXPECT_NE(text.find(why), std::string::npos) << text;
    EXPECT_EQ(text.find("`shell = "), std::string::npos) << text;
  }
}

TEST(Notify, SeveralTablesChooseTheirEvents) {
  const ParsedSweep parsed = parse(R"([[notify]]
on = ["end"]
ntfy = "lab-gpu"
[[notify]]
on = "failure"
ntfy = "https://ntfy.example.org/alarms")");
  ASSERT_TRUE(parsed.sweep);
  const std::vector<NotifyChannel> channels = channels_of(parsed.sweep->notify);
  ASSERT_EQ(channels.size(), 2U);
  EXPECT_TRUE(channels[0].on_end && !channels[0].on_failure && !channels[0].on_hold);
  EXPECT_TRUE(!channels[1].on_end && channels[1].on_failure && !channels[1].on_hold);
  EXPECT_NE(key_of(channels[0]), key_of(channels[1]));
}

TEST(Notify, TravelsWithTheSweepAndHoldsNoSecret) {
  const ParsedSweep parsed = parse("[notify]\nslack = \"$SLACK_URL\"\non = [\"hold\"]");
  ASSERT_TRUE(parsed.sweep);
  const Result<SweepSpec> back = sweep_from_wire(to_wire(*parsed.sweep));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->notify, parsed.sweep->notify);
  EXPECT_FALSE(sweep_from_wire(
      R"({"name":"a","folder":"/","steps":[],"notify":[{"on":[],"slack":"https://x/y"}]})"));
}

TEST(Notify, OfAUrlOnlyTheHostIsShown) {
  const auto webhook = [](const std::string& url) {
    return shown({.kind = Kind::Webhook, .target = url});
  };
  EXPECT_EQ(webhook("https://example.org:8080/T0/B0/xyz"), "webhook https://example.org:8080/…");
  EXPECT_EQ(webhook("https://example.org?key=xyz"), "webhook https://example.org/…");
  EXPECT_EQ(webhook("https://example.org"), "webhook https://example.org");
  EXPECT_EQ(webhook("$HOOK"), "webhook $HOOK");
  EXPECT_EQ(shown({.kind = Kind::Command, .command = {"mail", "--token", "xyz"}}),
            "command mail --token ***");
}

TEST(Notify, AVariableIsANameAndNothingElse) {
  EXPECT_EQ(variable_of("$A_1"), "A_1");
  for (const char* other : {"", "$", "A", "$1A", "${A}", "$A/b", "$A B", "x$A"})
    EXPECT_EQ(variable_of(other), "") << other;
}

TEST(Notify, ReasonsWhyAUrlIsNoneDoNotRepeatIt) {
  EXPECT_EQ(why_no_url("https://example.org/a?b#c"), "");
  EXPECT_EQ(why_no_url("http://127.0.0.1:8000"), "");
  for (const char* bad : {"ftp://secret/", "secret", "https:///secret", "https://secret/a b"}) {
    const std::string why = why_no_url(bad);
    EXPECT_FALSE(why.empty()) << bad;
    EXPECT_EQ(why.find("secret"), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace pergpu
