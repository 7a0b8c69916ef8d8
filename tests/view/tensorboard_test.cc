// Event files of TensorBoard, by bytes made here and by a file that tensorboardX wrote.
#include "view/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

namespace pergpu::view {
namespace {

// ---- a writer, by the formats' documents -------------------------------------------------------

std::string little_endian(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// Bit by bit, where the program has a table.
std::uint32_t masked_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(std::uint64_t number, std::uint64_t type) { return varint(number << 3 | type); }
std::string bytes_field(std::uint64_t number, const std::string& bytes) {
  return key(number, 2) + varint(bytes.size()) + bytes;
}
std::string int_field(std::uint64_t number, std::uint64_t value) {
  return key(number, 0) + varint(value);
}
std::string double_field(std::uint64_t number, double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return key(number, 1) + little_endian(bits, 8);
}
std::string float_bytes(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return little_endian(bits, 4);
}
std::string float_field(std::uint64_t number, float value) {
  return key(number, 5) + float_bytes(value);
}

/// Summary.Value
std::string simple(const std::string& tag, float value) {
  return bytes_field(1, tag) + float_field(2, value);
}
std::string tensor(const std::string& tag, const std::string& proto, const std::string& plugin) {
  const std::string metadata = bytes_field(1, bytes_field(1, plugin));
  return bytes_field(1, tag) + bytes_field(9, metadata) + bytes_field(8, proto);
}
/// Event
std::string event(std::int64_t step, const std::vector<std::string>& values) {
  std::string summary;
  for (const std::string& value : values) summary += bytes_field(1, value);
  return double_field(1, 1795266000.5) + int_field(2, static_cast<std::uint64_t>(step)) +
         bytes_field(5, summary);
}
std::string record(const std::string& payload) {
  const std::string length = little_endian(payload.size(), 8);
  return length + little_endian(masked_crc(length), 4) + payload +
         little_endian(masked_crc(payload), 4);
}

Metrics exact_of(const std::string& bytes) {
  NewestScalars newest;
  for (const EventScalar& scalar : scalars_of_events(bytes)) newest.add(scalar);
  return newest.exact_metrics();
}
Metrics exact_of_event(const std::string& payload) { return exact_of(record(payload)); }

// ---- tests -------------------------------------------------------------------------------------

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

TEST(Tensorboard, WhatIsCutOffIsLeftOut) {
  const std::string first = record(event(1, {simple("loss", 3)}));
  const std::string whole = first + record(event(2, {simple("loss", 2)}));
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::size_t expected = size < first.size() ? 0 : size < whole.size() ? 1 : 2;
    ASSERT_EQ(scalars_of_events(whole.substr(0, size)).size(), expected) << size;
  }
}

TEST(Tensorboard, ADamagedPayloadIsPassedOverAndADamagedLengthEndsIt) {
  const std::string first = record(event(1, {simple("a", 1)}));
  std::string bytes = first + record(event(2, {simple("b", 2)}));
  bytes[first.size() - 6] = '~';
  EXPECT_EQ(exact_of(bytes), (Metrics{{"step", "2"}, {"b", "2.0"}}));
  bytes[0] = '~';
  EXPECT_TRUE(exact_of(bytes).empty());
  const std::string length = little_endian(~std::uint64_t{0}, 8);
  EXPECT_TRUE(exact_of(length + little_endian(masked_crc(length), 4) + first).empty());
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
