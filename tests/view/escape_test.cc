// Nothing of a job's text reaches a terminal raw.
#include "view/text/escape.h"

#include <gtest/gtest.h>

#include <string>

#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

TEST(SafeLine, PlainAndUnicodeTextStaysAsItIs) {
  EXPECT_EQ(safe_line("loss 0.41"), "loss 0.41");
  EXPECT_EQ(safe_line("größe 大 🙂"), "größe 大 🙂");
}

TEST(SafeLine, ColoursAndCursorMovesAreLeftOut) {
  EXPECT_EQ(safe_line("\x1b[1;31mred\x1b[0m"), "red");
  EXPECT_EQ(safe_line("a\x1b[2J\x1b[10;20Hb"), "ab");
}

TEST(SafeLine, OtherControlCharactersBecomeVisible) {
  EXPECT_EQ(safe_line("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(safe_line("\x1bPq"), "\\x1bPq");
  EXPECT_EQ(safe_line(std::string_view("a\0b\x08\x7f", 5)), "a\\x00b\\x08\\x7f");
  EXPECT_EQ(safe_line("\x1b"), "\\x1b");
  EXPECT_EQ(safe_line("\x1b["), "\\x1b[");
}

TEST(SafeLine, EightBitControlsAreNoWayAround) {
  EXPECT_EQ(safe_line("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // CSI as one code point
  EXPECT_EQ(safe_line("\x9b"
                      "31m"),
            "\\x9b31m");                           // and as one byte
  EXPECT_EQ(safe_line("\xc0\x9b"), "\\xc0\\x9b");  // overlong
}

TEST(SafeLine, MarksThatReorderTextBecomeVisible) {
  EXPECT_EQ(safe_line("a\xe2\x80\xae"
                      "b"),
            "a\\u202eb");
  EXPECT_EQ(safe_line("a\xe2\x81\xa6"
                      "b"),
            "a\\u2066b");
}

TEST(SafeLine, IsOneLine) { EXPECT_EQ(safe_line("a\nb\tc\rd"), "a b c d"); }

TEST(LogFilter, LinesTabsAndReturnsStay) {
  LogFilter filter;
  EXPECT_EQ(filter.feed("a\tb\r 50%\r100%\n"), "a\tb\r 50%\r100%\n");
  EXPECT_EQ(filter.finish(), "");
}

TEST(LogFilter, SplittingTheStreamAnywhereChangesNothing) {
  const std::string text = "x\x1b[31mred\x1b[0m \x1b]0;t\x07 größe 大 🙂 \xff\xe2\x82 end\x1b";
  LogFilter whole;
  std::string expected = whole.feed(text);
  expected += whole.finish();
  for (std::size_t at = 0; at <= text.size(); ++at) {
    LogFilter filter;
    std::string got = filter.feed(std::string_view(text).substr(0, at));
    got += filter.feed(std::string_view(text).substr(at));
    got += filter.finish();
    ASSERT_EQ(got, expected) << "split at " << at;
  }
  LogFilter bytewise;
  std::string got;
  for (const char c : text) got += bytewise.feed(std::string_view(&c, 1));
  EXPECT_EQ(got + bytewise.finish(), expected);
}

TEST(LogFilter, AnEndlessSequenceDoesNotHoldBackOutput) {
  LogFilter filter;
  const std::string shown = filter.feed("\x1b[" + std::string(1000, '1') + "visible\n");
  EXPECT_NE(shown.find("visible\n"), std::string::npos);
}

TEST(AfterCarriageReturn, IsWhatATerminalWouldShow) {
  EXPECT_EQ(after_carriage_return(" 10%\r 50%\r100%"), "100%");
  EXPECT_EQ(after_carriage_return(" 10%\r 50%\r"), " 50%");
  EXPECT_EQ(after_carriage_return("plain"), "plain");
}

TEST(Utf8, CutCountsColumnsNotBytes) {
  EXPECT_EQ(cut("größe", 5), "größe");
  EXPECT_EQ(cut("größe", 4), "grö…");
  EXPECT_EQ(cut("大大大", 4), "大…");
  EXPECT_EQ(cut("大大", 4), "大大");
  EXPECT_EQ(cut("e\xcc\x81tude", 5), "e\xcc\x81tude");
  EXPECT_EQ(cut("abc", 0), "");
  EXPECT_EQ(cut("abcdef", 1, ".."), ".");
}

TEST(Utf8, ColumnsOfWideAndCombining) {
  EXPECT_EQ(columns_of("abc"), 3);
  EXPECT_EQ(columns_of("大🙂"), 4);
  EXPECT_EQ(columns_of("e\xcc\x81"), 1);
  EXPECT_EQ(columns_of("\xff"), 1);
}

}  // namespace
}  // namespace pergpu::view
