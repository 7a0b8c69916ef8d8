// Cells of a screen: what is written where, and what never gets into one.
#include "view/top/grid.h"

#include <gtest/gtest.h>

#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

TEST(Grid, WritesWithinItselfOnly) {
  Grid grid(5, 2, true);
  EXPECT_EQ(grid.put(0, 3, "abc"), 2);
  EXPECT_EQ(grid.put(2, 0, "abc"), 0);
  EXPECT_EQ(grid.put(-1, 0, "abc"), 0);
  EXPECT_EQ(grid.put(0, 5, "abc"), 0);
  grid.put_right(1, 0, "xy", {}, 5);
  EXPECT_EQ(grid.lines(), (std::vector<std::string>{"   a…", "   xy"}));
}

TEST(Grid, OfNoSizeIsEmpty) {
  Grid grid(0, -3, true);
  EXPECT_EQ(grid.put(0, 0, "a"), 0);
  EXPECT_TRUE(grid.lines().empty());
}

TEST(Grid, AWideCharacterTakesTwoCellsAndIsNeverHalved) {
  Grid grid(6, 1, true);
  EXPECT_EQ(grid.put(0, 0, "日本"), 4);
  EXPECT_EQ(grid.at(0, 0).text, "日");
  EXPECT_EQ(grid.at(0, 1).text, "");
  grid.put(0, 1, "x");  // over the second half of the first one
  EXPECT_EQ(grid.lines()[0], " x本");
  grid.put(0, 2, "y");  // over the first half of the second one
  EXPECT_EQ(grid.lines()[0], " xy");
  Grid narrow(3, 1, true);
  narrow.put(0, 0, "日本語");
  EXPECT_EQ(columns_of(narrow.lines()[0]), 3);
}

TEST(Grid, MarksStayWithTheirCharacter) {
  Grid grid(4, 1, true);
  EXPECT_EQ(grid.put(0, 0, "e\u0301a"), 2);
  EXPECT_EQ(grid.at(0, 0).text, "e\u0301");
  EXPECT_EQ(grid.at(0, 1).text, "a");
}

TEST(Grid, ControlCharactersAndBytesThatAreNoTextBecomeVisible) {
  Grid grid(60, 1, true);
  grid.put(0, 0, "a\x1b]0;title\x07\x1b[31mred\x1b[0m\r\n\xff\u202e");
  EXPECT_EQ(grid.lines()[0], "a\\x1b]0;title\\x07red  \\xff\\u202e");
}

TEST(Grid, WithoutUnicodeEverythingIsAscii) {
  Grid grid(12, 1, false);
  grid.put(0, 0, "é日 and much more");
  EXPECT_EQ(grid.lines()[0], "??? and mu..");
}

TEST(Palette, WithoutColourNoCellHasOne) {
  for (const Tone tone :
       {Tone::Plain, Tone::Good, Tone::Bad, Tone::Warn, Tone::Busy, Tone::Dim, Tone::Bold}) {
    EXPECT_EQ(look_of(tone, Palette::None).colour, Colour::Default);
  }
}

TEST(Palette, ForTheColourBlindHasNeitherRedNorGreen) {
  for (const Tone tone : {Tone::Good, Tone::Bad, Tone::Warn, Tone::Busy}) {
    const Colour colour = look_of(tone, Palette::ColourBlind).colour;
    EXPECT_NE(colour, Colour::Red);
    EXPECT_NE(colour, Colour::Green);
  }
  EXPECT_NE(look_of(Tone::Good, Palette::ColourBlind).colour,
            look_of(Tone::Bad, Palette::ColourBlind).colour);
}

TEST(Wrap, BreaksAtBlanksAndLosesNothing) {
  EXPECT_EQ(wrap("waits for a GPU with 40 GiB", 20),
            (std::vector<std::string>{"waits for a GPU with", "    40 GiB"}));
  EXPECT_EQ(wrap("short", 20), std::vector<std::string>{"short"});
  EXPECT_EQ(wrap("", 20), std::vector<std::string>{""});
  std::string together;
  for (const std::string& line : wrap(std::string(50, 'x'), 20)) {
    EXPECT_LE(columns_of(line), 20);
    together += line.substr(std::min(line.find_first_not_of(' '), line.size()));
  }
  EXPECT_EQ(together, std::string(50, 'x'));
  for (int columns = -1; columns < 12; ++columns) {
    for (const std::string& line : wrap("ein 日本語 text", columns)) {
      EXPECT_LE(columns_of(line), std::max(columns, 2));
    }
  }
}

}  // namespace
}  // namespace pergpu::view
