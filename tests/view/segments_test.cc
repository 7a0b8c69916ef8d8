// Shared memory as people and scripts see it.
#include "view/commands/segments.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pergpu::view {
namespace {

constexpr std::int64_t kNow = 1'795'266'000'000'000'000;  // 2026-11-21 13:00:00 UTC
constexpr std::int64_t kSecond = 1'000'000'000;

/// Held for a sweep, kept, and of processes alone.
std::vector<Segment> some() {
  return {{.name = "data-1",
           .kind = "data",
           .key = "tokens",
           .bytes = 3u << 20,
           .made_at = kNow - 125 * kSecond,
           .processes = 5,
           .jobs = {17, 18, 19, 21, 22},
           .held = true,
           .sweeps = {{3, "thirteen"}}},
          {.name = "data-2",
           .kind = "data",
           .key = "im\x1b[2Jages",
           .bytes = 1u << 20,
           .made_at = kNow + 5 * kSecond,
           .processes = 0,
           .held = true,
           .keep = true},
          {.name = "channel-3", .kind = "channel", .bytes = 512, .processes = 1, .jobs = {17}}};
}

TEST(SegmentsText, ALineEachAndTheirSum) {
  const std::string expected =
      "KEY        KIND        SIZE    AGE  PROCESSES  JOBS           STAYS\n"
      "tokens     data     3.0 MiB  2m05s          5  17-19, 21, 22  until thirteen ends\n"
      "images     data     1.0 MiB   0.0s          0  -              until it is dropped\n"
      "channel-3  channel    512 B      -          1  17             while a process uses it\n"
      "3 segments, 4.0 MiB\n";
  EXPECT_EQ(segments_text(some(), kNow, Style{}), expected);
  EXPECT_EQ(segments_text({}, kNow, Style{}), "");
}

TEST(SegmentsText, OneInALine) {
  const std::vector<Segment> all = some();
  EXPECT_EQ(
      segment_line(all[0], kNow),
      "tokens: 3.0 MiB, 2m05s old, 5 processes (jobs 17-19, 21, 22), stays until thirteen ends");
  EXPECT_EQ(segment_line(all[2], kNow),
            "channel-3: 512 B, 1 process (job 17), stays while a process uses it");
}

TEST(SegmentsJson, IsReadAgainAsItWas) {
  for (const Segment& one : some()) {
    const nlohmann::json told = segment_json(one);
    EXPECT_EQ(told["key"].is_null(), one.key.empty());
    EXPECT_EQ(told["made_at"].is_null(), one.made_at == 0);
    EXPECT_EQ(segment_json(segment_in(told)), told);
    EXPECT_EQ(segment_in(told).sweeps, one.sweeps);
  }
  EXPECT_EQ(segments_json(some()).size(), 3u);
}

}  // namespace
}  // namespace pergpu::view
