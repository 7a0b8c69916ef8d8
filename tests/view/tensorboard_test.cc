// Event files of TensorBoard, by bytes made here and by a file that tensorboardX wrote.
#include "view/model/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "event_records.h"

namespace pergpu::view {
namespace {

Metrics exact_of(const std::string& bytes) {
  NewestScalars newest;
  for (const EventScalar& scalar : scalars_of_events(bytes)) newest.add(scalar);
  return newest.exact_metrics();
}
Metrics exact_of_event(const std::string& payload) { return exact_of(record(payload)); }

TEST(Tensorboard, ScalarsHaveStepTimeTagAndValue) {
  const std::string bytes = record(bytes_field(3, "brain.Event:2")) +
                            record(event(300, {simple("loss", 0.98f), simple("acc", -2)}));
  const std::vector<EventScalar> scalars = scalars_of_events(bytes);
  ASSERT_EQ(scalars.size(), 2u);
  EXPECT_EQ(scalars[0].step, 300);
  EXPECT_EQ(scalars[0].wall_s, 1795266000.5);
  EXPECT_EQ(scalars[0].tag, "loss");
  EXPECT_EQ(scalars[0].value, 0.98);  // not 0.9800000190734863
  EXPECT_EQ(scalars[1].value, -2);
}

TEST(Tensorboard, AFileOfTensorboardXIsRead) {
  std::ifstream file(PERGPU_TEST_DATA "/tensorboard/events.out.tfevents.1795266000.node1",
                     std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(bytes.empty());
  EXPECT_EQ(exact_of(bytes), (Metrics{{"step", "300"},
                                      {"loss", "0.33333334"},
                                      {"acc/top1", "0.98"},
                                      {"nan", "\"nan\""},
                                      {"tf0", "0.5"},
                                      {"tf1", "0.25"},
                                      {"tf2", "0.125"}}));
}

TEST(Tensorboard, OfEachTagTheLastCountsAndTheHighestStep) {
  const std::string bytes = record(event(1, {simple("loss", 3), simple("lr", 0.5)})) +
                            record(event(7, {simple("loss", 2)}));
  NewestScalars newest;
  for (const EventScalar& scalar : scalars_of_events(bytes)) newest.add(scalar);
  EXPECT_EQ(metrics_text(newest.metrics()), "step 7, loss 2, lr 0.5");
  EXPECT_TRUE(NewestScalars{}.metrics().empty());
}

TEST(Tensorboard, ATagCalledStepIsNotToldTwice) {
  EXPECT_EQ(exact_of_event(event(7, {simple("step", 4)})), (Metrics{{"step", "4.0"}}));
}

TEST(Tensorboard, ScalarsAsTensorsCountAndOtherPluginsDoNot) {
  const std::string half = int_field(1, 1) + bytes_field(4, float_bytes(0.5f));
  EXPECT_EQ(exact_of_event(event(1, {tensor("a", half, "scalars")})),
            (Metrics{{"step", "1"}, {"a", "0.5"}}));
  EXPECT_EQ(exact_of_event(event(1, {tensor("a", int_field(1, 1) + float_field(5, 2), "")})),
            (Metrics{{"step", "1"}, {"a", "2.0"}}));
  EXPECT_EQ(exact_of_event(event(1, {tensor("a", int_field(1, 2) + double_field(6, 0.1), "")})),
            (Metrics{{"step", "1"}, {"a", "0.1"}}));
  for (const char* plugin : {"histograms", "images", "text", "hparams"}) {
    EXPECT_TRUE(exact_of_event(event(1, {tensor("a", half, plugin)})).empty()) << plugin;
  }
}

TEST(Tensorboard, ATensorOfSeveralNumbersOrOfOtherTypesIsNoScalar) {
  const std::string two = float_bytes(1) + float_bytes(2);
  for (const std::string& proto :
       {int_field(1, 1) + bytes_field(4, two), int_field(1, 1) + bytes_field(5, two),
        int_field(1, 1) + float_field(5, 1) + float_field(5, 2), int_field(1, 1),
        int_field(1, 7) + bytes_field(8, "text"), int_field(1, 3) + bytes_field(4, float_bytes(1)),
        bytes_field(4, float_bytes(1))}) {
    EXPECT_TRUE(exact_of_event(event(1, {tensor("a", proto, "scalars")})).empty());
  }
}

TEST(Tensorboard, WhatDivergedIsShown) {
  const float inf = INFINITY;
  EXPECT_EQ(exact_of_event(event(1, {simple("a", NAN), simple("b", inf), simple("c", -inf)})),
            (Metrics{{"step", "1"}, {"a", "\"nan\""}, {"b", "\"inf\""}, {"c", "\"-inf\""}}));
}

TEST(Tensorboard, UnknownFieldsArePassedOverAndMalformedMessagesEnd) {
  const std::string odd = int_field(77, 5) + double_field(78, 1) + float_field(79, 1);
  EXPECT_EQ(exact_of_event(odd + event(1, {odd + simple("a", 1)})),
            (Metrics{{"step", "1"}, {"a", "1.0"}}));
  for (const std::string& bad :
       {std::string("\xff"), key(1, 3), key(1, 7), key(5, 2) + varint(1000), key(2, 0),
        std::string(20, '\xff'), key(1, 1) + "123"}) {
    EXPECT_TRUE(exact_of_event(bad + event(1, {simple("a", 1)})).size() <= 2);
    EXPECT_EQ(exact_of_event(event(1, {simple("a", 1)}) + bad).size(), 2u);
  }
}

TEST(Tensorboard, TagsAreBounded) {
  NewestScalars newest;
  for (int i = 0; i < 1000; ++i) newest.add({.tag = "t" + std::to_string(i), .value = 1});
  EXPECT_EQ(newest.metrics().size(), NewestScalars::kMostTags + 1);
  EXPECT_TRUE(exact_of_event(event(1, {simple(std::string(257, 'x'), 1)})).empty());
  EXPECT_TRUE(exact_of_event(event(1, {simple("", 1)})).empty());
}

}  // namespace
}  // namespace pergpu::view
