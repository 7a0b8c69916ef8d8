// How many looks at disks that hang there can be before they keep others waiting.
#include "coordinator/look_turns.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace pergpu {
namespace {

/// Looks at this many disks, the first of which has number 1, that don't come back.
struct Hanging {
  Hanging(std::uint64_t disks, int looks_at_each) {
    for (int i = 0; i < looks_at_each; ++i) {
      for (std::uint64_t disk = 1; disk <= disks; ++disk) {
        turns.ask(disk, [this](int turn) { begun.push_back(turn); });
      }
    }
  }
  /// Whether a look at a disk that answers comes to an end.
  bool answers(std::uint64_t disk) {
    bool has_begun = false;
    turns.ask(disk, [&](int turn) {
      has_begun = true;
      turns.end(turn);
    });
    return has_begun;
  }
  LookTurns turns;
  std::vector<int> begun;  // of those that hang
};

TEST(LookTurnsOfDisksThatHang, SevenOfThemKeepNoOtherFromBeingLookedAt) {
  Hanging hanging(7, 5);
  EXPECT_EQ(hanging.begun.size(), 7u) << "one on each; those that wait take nobody's place";
  for (std::uint64_t disk = 100; disk < 200; ++disk) {
    EXPECT_TRUE(hanging.answers(disk));
    EXPECT_TRUE(hanging.answers(0)) << "one whose disk isn't known yet";
  }
  EXPECT_EQ(hanging.begun.size(), 7u);
}

TEST(LookTurnsOfDisksThatHang, WithEightOthersWaitUntilOneComesBack) {
  Hanging hanging(8, 1);
  std::vector<std::uint64_t> answered;
  for (const std::uint64_t disk : {100u, 101u, 0u}) {
    hanging.turns.ask(disk, [&, disk](int turn) {
      answered.push_back(disk);
      hanging.turns.end(turn);
    });
  }
  EXPECT_EQ(hanging.begun.size(), 8u);
  EXPECT_TRUE(answered.empty());
  hanging.turns.end(hanging.begun[3]);
  EXPECT_EQ(answered, (std::vector<std::uint64_t>{100, 101, 0}));
}

}  // namespace
}  // namespace pergpu
