// Notifications as people and programs get them.
#include "view/export/notice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pergpu::view {
namespace {

using nlohmann::json;

constexpr std::int64_t kNow = 1'795'266'000'000'000'000;  // 2026-11-21 13:00:00 UTC
constexpr std::int64_t kSecond = 1'000'000'000;

JobSnapshot job(std::int64_t id, std::int64_t row, const std::string& state) {
  JobSnapshot j;
  j.id = id;
  j.sweep = "thirteen";
  j.run = "0" + std::to_string(row) + "-method=edm";
  j.index = row;
  j.step = "train";
  j.state = state;
  j.attempt = 1;
  j.duration_s = 120;
  return j;
}

Notice some_notice() {
  Notice notice;
  notice.events = {"failure", "end"};
  notice.sweep.id = 3;
  notice.sweep.name = "thirteen";
  notice.sweep.root = "/data/runs";
  notice.sweep.steps = {"train"};
  notice.sweep.columns = {"method"};
  notice.sweep.rows = {{"ddpm"}, {"edm"}};
  JobSnapshot failed = job(18, 1, "failed");
  failed.reason = "exit code 1: cannot log in with token=abc123";
  failed.log = "/data/runs/thirteen/01-method=edm/train/log.txt";
  failed.exit = 1;
  failed.cls = "exit";
  notice.jobs = {job(17, 0, "done"), failed};
  notice.failed = {failed};
  notice.failures = 1;
  notice.counts = {{"done", 1}, {"failed", 1}};
  notice.host = "alpha";
  notice.submitted_at = kNow;
  notice.ended_at = kNow + 8040 * kSecond;
  return notice;
}

TEST(NoticeText, SaysThatADiskLetsNoJobStart) {
  Notice notice = some_notice();
  notice.events = {"outage"};
  notice.failed = {};
  notice.failures = 0;
  notice.outage = "since 12:00:00 no job of this sweep can be started: mkdir /data: full";
  const Message message = message_of(notice, {});
  EXPECT_EQ(message.title, "thirteen: a disk keeps jobs from starting");
  EXPECT_TRUE(message.is_bad);
  EXPECT_NE(message.text.find("mkdir /data: full"), std::string::npos) << message.text;
  EXPECT_EQ(facts_of(notice, message).at("outage"), notice.outage);
  EXPECT_TRUE(facts_of(some_notice(), message).at("outage").is_null());
}

TEST(NoticeText, SaysWhatHappenedWhereAndWhy) {
  const Message message = message_of(some_notice(), {{17, {{"fid", "3.2"}}}});
  EXPECT_EQ(message.title, "thirteen ended: 1 done, 1 failed");
  EXPECT_TRUE(message.is_bad);
  EXPECT_EQ(message.text,
            "on alpha, 2h14m after the submit: 1 done, 1 failed\n"
            "\n"
            "failed: 18 thirteen/01-method=edm/train: exit code 1: cannot log in with token=***\n"
            "  /data/runs/thirteen/01-method=edm/train/log.txt\n"
            "\n" +
                message.table);
  EXPECT_NE(message.table.find("3.2"), std::string::npos) << message.table;
  EXPECT_NE(message.table.find("failed 2m00s"), std::string::npos) << message.table;
}

TEST(NoticeText, TitlesOfEachEvent) {
  Notice notice = some_notice();
  notice.counts = {{"done", 26}};
  EXPECT_EQ(message_of(notice, {}).title, "thirteen is done: 26 jobs");
  notice.events = {"failure"};
  notice.failures = 3;
  EXPECT_EQ(message_of(notice, {}).title, "thirteen: 3 jobs failed");
  notice.events = {"failure", "hold"};
  notice.hold = "held by the breaker: 3 jobs of step train failed the same way";
  notice.counts["held"] = 1;
  EXPECT_EQ(message_of(notice, {}).title, "thirteen: 3 jobs failed, 1 job held");
  notice.events = {"test"};
  EXPECT_NE(message_of(notice, {}).title.find("test"), std::string::npos);
}

TEST(NoticeText, CountsWhatItDoesNotName) {
  Notice notice = some_notice();
  notice.failures = 1000;
  notice.runs_left_out = 960;
  const std::string text = message_of(notice, {}).text;
  EXPECT_NE(text.find("and 999 more failed"), std::string::npos) << text;
  EXPECT_NE(text.find("and 960 more runs"), std::string::npos) << text;
}

TEST(NoticeText, HidesSecretsAndControlCharacters) {
  Notice notice = some_notice();
  notice.sweep.columns = {"api_key"};
  notice.sweep.rows = {{"k1"}, {"k2"}};
  notice.hold = "\x1b]0;title\x07 password: hunter2";
  notice.events.push_back("hold");
  const Message message = message_of(notice, {});
  const std::string facts = facts_of(notice, message).dump();
  for (const char* secret : {"k1", "k2", "hunter2", "abc123"}) {
    EXPECT_EQ(message.text.find(secret), std::string::npos) << message.text;
    EXPECT_EQ(facts.find(secret), std::string::npos) << facts;
  }
  EXPECT_EQ(message.text.find('\x1b'), std::string::npos);
}

TEST(NoticeForms, AWebhookGetsFactsAndTheText) {
  const Notice notice = some_notice();
  const json facts = facts_of(notice, message_of(notice, {}));
  EXPECT_EQ(facts["schema"], 1);
  EXPECT_EQ(facts["events"], json({"failure", "end"}));
  EXPECT_EQ(facts["counts"]["done"], 1);
  EXPECT_EQ(facts["failed"][0]["id"], 18);
  EXPECT_EQ(facts["failed"][0]["class"], "exit");
  EXPECT_EQ(facts["duration_s"], 8040.0);
  EXPECT_EQ(facts["ended_at"].get<std::string>().substr(0, 16), "2026-11-21T15:14");
  EXPECT_TRUE(facts["hold"].is_null());
}

TEST(NoticeForms, SlackGetsATextWithItsMarksEscaped) {
  Notice notice = some_notice();
  notice.failed[0].reason = "a < b && ```c```";
  const json body = json::parse(slack_body(message_of(notice, {})));
  const std::string text = body["text"].get<std::string>();
  EXPECT_TRUE(text.starts_with("*thirteen ended: 1 done, 1 failed*\n```\n")) << text;
  EXPECT_NE(text.find("a &lt; b &amp;&amp; '''c'''"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n```"));
}

TEST(NoticeForms, LongTextsAreCutBetweenLines) {
  Notice notice = some_notice();
  const JobSnapshot one = notice.failed[0];
  notice.failed.assign(100, one);
  const Message message = message_of(notice, {});
  ASSERT_GT(message.text.size(), 8000U);
  EXPECT_LE(ntfy_text(message).size(), 4096U) << "more would be a file, not a message";
  EXPECT_TRUE(ntfy_text(message).ends_with("\n…"));
  EXPECT_LE(slack_body(message).size(), 4500U);
}

TEST(NoticeForms, NtfyGetsATitleAndAPriority) {
  const std::vector<std::string> headers = ntfy_headers(message_of(some_notice(), {}));
  EXPECT_EQ(headers[0], "Title: thirteen ended: 1 done, 1 failed");
  EXPECT_EQ(headers[2], "Priority: high");
}

TEST(NoticeForms, AHookGetsVariables) {
  const Notice notice = some_notice();
  const auto variables = hook_variables(notice, message_of(notice, {}));
  const auto value = [&](const std::string& name) {
    const auto found = std::find_if(variables.begin(), variables.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    return found == variables.end() ? "(none)" : found->second;
  };
  EXPECT_EQ(value("PERGPU_EVENTS"), "failure,end");
  EXPECT_EQ(value("PERGPU_SWEEP"), "thirteen");
  EXPECT_EQ(value("PERGPU_DONE"), "1");
  EXPECT_EQ(value("PERGPU_FAILED"), "1");
  EXPECT_EQ(value("PERGPU_DURATION"), "8040");
  EXPECT_EQ(value("PERGPU_SWEEP_FOLDER"), "/data/runs/thirteen");
}

TEST(NoticeRead, WhatMakesNoSenseIsRefused) {
  EXPECT_FALSE(notice_of(json::array()));
  EXPECT_FALSE(notice_of(json::object()));
  EXPECT_FALSE(notice_of({{"events", 7}}));
}

}  // namespace
}  // namespace pergpu::view
