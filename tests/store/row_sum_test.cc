// Changed bytes of a row are noticed, and rows of older releases are taken as they are.
#include "store/row_sum.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace pergpu::store {
namespace {

constexpr Instant kAt{.wall_ns = 1'700'000'000'000'000'000, .boot_ns = 12'345};

RowSum sum() { return sum_of_event(17, kAt, "held"); }

TEST(RowSum, IsTheLastMemberOfTheObject) {
  for (const std::string object : {R"({"reason":"by hand","z":[1,{"a":"}"}]})", "{}"}) {
    const std::string with = sum().put_into(object);
    nlohmann::json parsed = nlohmann::json::parse(with);
    EXPECT_EQ(parsed.at("sum").get<std::string>().size(), 8u);
    parsed.erase("sum");
    EXPECT_EQ(parsed, nlohmann::json::parse(object));
    EXPECT_EQ(without_sum(with), object);
    EXPECT_TRUE(sum().check(with));
  }
}

TEST(RowSum, EachFlippedBitOfTheObjectIsNoticed) {
  const std::string with = sum().put_into(R"({"attempt":3,"exit_code":1,"reason":"loss is NaN"})");
  const std::size_t covered = without_sum(with).size() - 1;
  for (std::size_t at = 0; at < covered; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = with;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      EXPECT_EQ(sum().check(flipped).error().kind, ErrorKind::Corrupt) << at << " " << bit;
    }
  }
}

TEST(RowSum, TheOtherColumnsAreCovered) {
  const std::string with = sum().put_into("{}");
  EXPECT_FALSE(sum_of_event(18, kAt, "held").check(with));
  EXPECT_FALSE(sum_of_event(17, {.wall_ns = kAt.wall_ns, .boot_ns = 12'346}, "held").check(with));
  EXPECT_FALSE(sum_of_event(17, kAt, "hele").check(with));
  const row::Sweep sweep{.id = {3}, .root = "/out", .name = "s", .submit = "{}"};
  const std::string spec = sum_of_sweep(sweep).put_into(R"({"steps":[]})");
  row::Sweep moved = sweep;
  moved.root = "/ou";
  moved.name = "ts";
  EXPECT_TRUE(sum_of_sweep(sweep).check(spec));
  EXPECT_FALSE(sum_of_sweep(moved).check(spec));
}

TEST(RowSum, WhatHasNoneIsTakenAsItIs) {
  for (const std::string old : {"{}", R"({"reason":"x"})", R"({"a":{"sum":"00000000"}})", "new", "",
                                "{", R"({"total":"0","sum":"0"})"}) {
    EXPECT_TRUE(sum().check(old)) << old;
    EXPECT_EQ(without_sum(old), old);
  }
  EXPECT_EQ(sum().put_into("no object"), "no object");
}

}  // namespace
}  // namespace pergpu::store
