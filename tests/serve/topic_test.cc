#include "serve/topic.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "serve/event_stream.h"

namespace pergpu::serve {
namespace {

using nlohmann::json;

json job(std::int64_t id, const char* state) { return {{"id", id}, {"state", state}}; }

json snapshot_event(const json& jobs) {
  return {{"event", "snapshot"}, {"all", true}, {"jobs", jobs}, {"counts", {{"queued", 1}}}};
}

TEST(Topic, BeforeASnapshotNothingIsKnown) {
  Topic topic("all");
  topic.take({{"event", "changes"}, {"jobs", json::array()}});
  EXPECT_FALSE(topic.is_known());
  EXPECT_EQ(topic.newest(), 0u);
}

TEST(Topic, SnapshotHoldsWhatCameSince) {
  Topic topic("all");
  topic.take(snapshot_event({job(1, "queued"), job(2, "queued")}));
  topic.take({{"event", "changes"},
              {"jobs", {job(2, "running"), job(3, "queued")}},
              {"gone", json::array({1})}});
  topic.take({{"event", "devices"}, {"gpus", json::array({{{"uuid", "GPU-1"}}})}});
  const json state = json::parse(topic.snapshot().data);
  EXPECT_EQ(topic.snapshot().name, "all.snapshot");
  EXPECT_EQ(state["jobs"], json::array({job(2, "running"), job(3, "queued")}));
  EXPECT_EQ(state["gpus"][0]["uuid"], "GPU-1");
  EXPECT_EQ(state["counts"]["queued"], 1);
  EXPECT_FALSE(state.contains("event"));
}

TEST(Topic, ReaderThatComesBackIsToldWhatItMissedAndNoMore) {
  Topic topic("sweep");
  topic.take({{"event", "snapshot"},
              {"jobs", json::array({job(1, "queued")})},
              {"sweep", {{"name", "a"}}}});
  const std::uint64_t seen = topic.newest();
  topic.take({{"event", "job"}, {"job", job(1, "running")}});
  topic.take({{"event", "remaining"}, {"remaining_s", 5.0}});
  const auto missed = topic.since(seen);
  ASSERT_TRUE(missed);
  ASSERT_EQ(missed->size(), 2u);
  EXPECT_EQ((*missed)[0]->name, "sweep.job");
  EXPECT_EQ((*missed)[1]->name, "sweep.remaining");
  EXPECT_EQ(topic.since(topic.newest())->size(), 0u);
  EXPECT_EQ(json::parse(topic.snapshot().data)["sweep"]["remaining_s"], 5.0);
}

TEST(Topic, ANewSnapshotMakesOldNumbersUseless) {
  Topic topic("sweep");
  topic.take(snapshot_event(json::array({job(1, "queued")})));
  topic.take({{"event", "job"}, {"job", job(1, "running")}});
  const std::uint64_t seen = topic.newest();
  topic.gap("gone");
  EXPECT_EQ(topic.trouble(), "gone");
  topic.take(snapshot_event(json::array({job(1, "done")})));
  EXPECT_EQ(topic.trouble(), "");
  EXPECT_FALSE(topic.since(seen));
  EXPECT_FALSE(topic.since(topic.newest() + 1)) << "a number that was never given";
}

TEST(Topic, OneThatIsMadeAnewDoesNotKnowTheNumbersOfTheOneBefore) {
  Topic before("sweep");
  before.take(snapshot_event(json::array({job(1, "queued")})));
  before.take({{"event", "job"}, {"job", job(1, "running")}});
  Topic again("sweep", before.newest());
  again.take(snapshot_event(json::array({job(1, "running")})));
  for (int i = 0; i < 3; ++i) again.take({{"event", "job"}, {"job", job(1, "done")}});
  EXPECT_FALSE(again.since(before.newest()));
  EXPECT_TRUE(again.since(before.newest() + 1)) << "its own snapshot";
}

TEST(Topic, KeepsABoundedNumberOfEvents) {
  Topic topic("sweep");
  topic.take(snapshot_event(json::array({job(1, "queued")})));
  const std::uint64_t first = topic.newest();
  for (std::size_t i = 0; i < Topic::kMostEvents + 10; ++i) {
    topic.take({{"event", "job"}, {"job", job(1, "running")}});
  }
  EXPECT_FALSE(topic.since(first));
  EXPECT_EQ(topic.since(topic.newest() - Topic::kMostEvents)->size(), Topic::kMostEvents);
}

/// Whoever applies the events to a snapshot has what the next snapshot says.
RC_GTEST_PROP(Topic, EventsAfterASnapshotGiveTheNextSnapshot, ()) {
  Topic topic("all");
  topic.take(snapshot_event(json::array({job(1, "queued")})));
  const json before = json::parse(topic.snapshot().data);
  std::map<std::int64_t, json> jobs;
  for (const json& one : before["jobs"]) jobs[one["id"].get<std::int64_t>()] = one;
  const std::uint64_t seen = topic.newest();
  for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 60))) {
    const std::int64_t id = step % 7 + 1;
    if (step < 40) {
      topic.take({{"event", "changes"},
                  {"jobs", json::array({job(id, step % 2 == 0 ? "running" : "done")})}});
    } else {
      topic.take({{"event", "changes"}, {"jobs", json::array()}, {"gone", json::array({id})}});
    }
  }
  const auto missed = topic.since(seen);
  RC_ASSERT(missed.has_value());
  for (const Topic::Event* event : *missed) {
    const json data = json::parse(event->data);
    for (const json& one : data["jobs"]) jobs[one["id"].get<std::int64_t>()] = one;
    for (const json& id : data.value("gone", json::array())) jobs.erase(id.get<std::int64_t>());
  }
  json list = json::array();
  for (const auto& [id, one] : jobs) list.push_back(one);
  RC_ASSERT(json::parse(topic.snapshot().data)["jobs"] == list);
}

TEST(Position, IsReadBackFromItsId) {
  const Position position{.server = "a1b2",
                          .all = 7,
                          .sweep = 12,
                          .sweep_id = 3,
                          .job = 17,
                          .attempt = 2,
                          .offset = 4096};
  EXPECT_EQ(position_of(id_of(position)), position);
}

TEST(Position, WhatIsNoIdOfOursIsNone) {
  for (const char* id : {"", "5", "a.1", ".1.2.3.4.5.6", "a.1.2.3.4.5", "a.1.2.3.4.5.6.7",
                         "a.1.2.3.4.5.x", "a.1.2.3.4.5.99999999999999999999", "a.1.2.3.4.5.-6"}) {
    EXPECT_FALSE(position_of(id)) << id;
  }
}

TEST(UnfinishedUtf8, IsHeldBackUntilTheRestComes) {
  EXPECT_EQ(unfinished_utf8("abc"), 0u);
  EXPECT_EQ(unfinished_utf8("é"), 0u);
  EXPECT_EQ(unfinished_utf8("a\xc3"), 1u);
  EXPECT_EQ(unfinished_utf8("a\xe2\x82"), 2u);
  EXPECT_EQ(unfinished_utf8("a\xf0\x9f\x98"), 3u);
  EXPECT_EQ(unfinished_utf8("\x80\x80\x80\x80"), 0u) << "no begin: it will never be whole";
  EXPECT_EQ(unfinished_utf8(""), 0u);
}

}  // namespace
}  // namespace pergpu::serve
