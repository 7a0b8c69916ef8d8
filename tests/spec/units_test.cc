#include "spec/text/units.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace pergpu {
namespace {

using std::chrono::milliseconds;

TEST(Duration, IsReadInAllItsForms) {
  struct Sample {
    const char* text;
    std::int64_t ms;
  };
  for (const Sample& s :
       {Sample{"90s", 90'000}, Sample{"12h", 43'200'000}, Sample{"1d2h", 93'600'000},
        Sample{"01:30:05", 5'405'000}, Sample{"100:00:00", 360'000'000}, Sample{"2min", 120'000},
        Sample{"2m30s", 150'000}, Sample{"250ms", 250}, Sample{"1.5h", 5'400'000},
        Sample{"1w", 604'800'000}, Sample{"0s", 0}, Sample{"12 h", 43'200'000},
        Sample{"2 hours", 7'200'000}, Sample{"1 hour 30 minutes", 5'400'000},
        Sample{"1day 2hrs", 93'600'000}, Sample{"90 sec", 90'000}, Sample{"1d 2h", 93'600'000}}) {
    Result<milliseconds> d = parse_duration(s.text);
    ASSERT_TRUE(d) << s.text;
    EXPECT_EQ(d->count(), s.ms) << s.text;
  }
}

TEST(Duration, WithoutAUnitOrWithAWrongOneIsRefused) {
  for (const char* text :
       {"",     "90",   "1.5",     "h",        "12 ",      "-5s", "2h1d",          "1h1h",
        "5y",   "1:30", "1:2:3",   "00:60:00", "00:00:60", "::",  "1..5h",         ".5h",
        "5.h",  "1e3s", "999999w", "90s ",     " 90s",     "٣s",  "2 hours 1 day", "2 fortnights",
        "1 2 h"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Size, IsReadInPowersOf1000And1024) {
  struct Sample {
    const char* text;
    std::uint64_t bytes;
  };
  for (const Sample& s :
       {Sample{"64GiB", 64ULL << 30}, Sample{"500MB", 500'000'000}, Sample{"64G", 64ULL << 30},
        Sample{"1.5GiB", 3ULL << 29}, Sample{"10kb", 10'000}, Sample{"7B", 7},
        Sample{"2T", 2ULL << 40}, Sample{"1gib", 1ULL << 30}, Sample{"64 GiB", 64ULL << 30},
        Sample{"16 GB", 16'000'000'000}}) {
    Result<std::uint64_t> bytes = parse_size(s.text);
    ASSERT_TRUE(bytes) << s.text;
    EXPECT_EQ(*bytes, s.bytes) << s.text;
  }
}

TEST(Size, WithoutAUnitOrWithAWrongOneIsRefused) {
  for (const char* text :
       {"", "64", "64 ", "GiB", "64 GiB ", "-1GiB", "1PiB", "1e9B", "64Gi", "999999999TiB"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Units, WhatIsFormattedReadsBackTheSame) {
  EXPECT_TRUE(rc::check([] {
    std::int64_t ms = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 42);
    RC_ASSERT(parse_duration(format_duration(milliseconds(ms)))->count() == ms);
    std::uint64_t bytes = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 53);
    RC_ASSERT(*parse_size(format_size(bytes)) == bytes);
  }));
  EXPECT_EQ(format_duration(milliseconds(93'600'000)), "1d2h");
  EXPECT_EQ(format_size(64ULL << 30), "64GiB");
  EXPECT_EQ(format_size(500'000'000), "500MB");
}

}  // namespace
}  // namespace pergpu
