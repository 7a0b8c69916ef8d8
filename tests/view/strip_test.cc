// Strips below the bars of a report: what is not known is a gap, never the colour of nothing.
#include "view/charts/strip.h"

#include <gtest/gtest.h>

namespace pergpu::view {
namespace {

using Pieces = std::vector<StripPiece>;

TEST(Strip, LevelsAreFifthsAndOneForTooMuch) {
  EXPECT_EQ(level_of(0), 0);
  EXPECT_EQ(level_of(-1), 0);
  EXPECT_EQ(level_of(0.19), 0);
  EXPECT_EQ(level_of(0.2), 1);
  EXPECT_EQ(level_of(0.99), 4);
  EXPECT_EQ(level_of(1.05), 4);
  EXPECT_EQ(level_of(1.2), kOverLevel);
  EXPECT_EQ(level_of(1e300), kOverLevel);
}

TEST(Strip, IsOnePieceWhereTheLevelStaysAndAGapWhereNothingIsKnown) {
  const std::vector<StripStretch> stretches = {{.begin_ns = 0, .end_ns = 100, .share = 0.9},
                                               {.begin_ns = 100, .end_ns = 200, .share = 0.95},
                                               {.begin_ns = 300, .end_ns = 400, .share = 0}};
  EXPECT_EQ(strip_pieces(stretches, 0, 400, 4),
            (Pieces{{.from = 0, .to = 0.5, .level = 4}, {.from = 0.75, .to = 1, .level = 0}}));
}

TEST(Strip, ACellIsTheMeanOfWhatIsKnownOfIt) {
  const std::vector<StripStretch> stretches = {{.begin_ns = 0, .end_ns = 100, .share = 1},
                                               {.begin_ns = 100, .end_ns = 200, .share = 0}};
  EXPECT_EQ(strip_pieces(stretches, 0, 200, 1), (Pieces{{.from = 0, .to = 1, .level = 2}}));
  EXPECT_EQ(strip_pieces(stretches, 0, 400, 1), (Pieces{{.from = 0, .to = 1, .level = 2}}));
}

TEST(Strip, EndsWithItsBar) {
  const std::vector<StripStretch> stretches = {{.begin_ns = -60, .end_ns = 60, .share = 0.5},
                                               {.begin_ns = 60, .end_ns = 120, .share = 0.5},
                                               {.begin_ns = 500, .end_ns = 600, .share = 1}};
  EXPECT_EQ(strip_pieces(stretches, 0, 100, 10), (Pieces{{.from = 0, .to = 1, .level = 2}}));
  EXPECT_EQ(strip_pieces(stretches, 0, 0, 10), Pieces{});
  EXPECT_EQ(strip_pieces({}, 0, 100, 10), Pieces{});
  EXPECT_EQ(strip_pieces(stretches, 0, 100, 0), Pieces{});
}

}  // namespace
}  // namespace pergpu::view
