// Values of any length in tables and lines.
#include "view/text/long_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "view/text/escape.h"
#include "view/text/table.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

TEST(LongText, NeverMakesATableWiderThanTwoHundredColumnsWithoutATerminal) {
  const std::string text(200'000, 'a');
  const std::vector<Column> columns = {
      {.title = "RUN"}, {.title = "VALUE", .least = 6}, {.title = "LAST"}};
  std::istringstream lines(render_table(columns, {{Cell{"00"}, Cell{text}, Cell{"end"}}}, Style{}));
  std::string last;
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_LE(columns_of(line), 200);
    last = line;
  }
  EXPECT_EQ(count, 2U);
  EXPECT_TRUE(last.ends_with("end")) << "what stands behind it is not pushed out";
}

TEST(LongText, IsShortenedToItsBeginning) {
  EXPECT_EQ(shortened("short"), "short");
  const std::string text = shortened(std::string(200'000, 'a'));
  EXPECT_LT(text.size(), 300U);
  EXPECT_TRUE(text.ends_with("... (200000 bytes)")) << text;
  EXPECT_LE(columns_of(short_value(std::string(200'000, 'a'), Style{})), 60);
  EXPECT_EQ(short_value("a\nb", Style{.width = 80}).find('\n'), std::string::npos);
}

TEST(LongText, OfAReasonKeepsWhatIsSaidAtItsEnd) {
  EXPECT_EQ(short_reason("exit code 1"), "exit code 1");
  const std::string reason =
      short_reason("output " + std::string(200'000, 'a') + ": does not exist");
  EXPECT_LT(reason.size(), 400U);
  EXPECT_TRUE(reason.starts_with("output aaa")) << reason;
  EXPECT_NE(reason.find("(200023 bytes)"), std::string::npos) << reason;
  EXPECT_TRUE(reason.ends_with("aaa: does not exist")) << reason;
}

TEST(LongText, OfAMessageKeepsBothEnds) {
  const std::string usual = std::string(4'096, 'a') + " and " + std::string(4'096, 'b');
  EXPECT_EQ(short_line(usual), usual) << "two paths";
  const std::string line =
      short_line("no job is named \"" + std::string(100'000, 'a') + "\"; see ps");
  EXPECT_LT(line.size(), 3'000U);
  EXPECT_TRUE(line.starts_with("no job is named \"aaa")) << line;
  EXPECT_TRUE(line.ends_with("aaa\"; see ps")) << line;
  EXPECT_NE(line.find(" ... (97526 bytes left out) ... "), std::string::npos) << line;
}

TEST(LongText, OfAMessageHalvesNoLetter) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    while (text.size() < 20'000) text += "\U0001f600";
    EXPECT_EQ(short_line(text).find("\xf0\x9f\x98 "), std::string::npos);
    EXPECT_TRUE(safe_line(short_line(text)).find("\\x") == std::string::npos) << shift;
  }
  EXPECT_LT(short_line(std::string(50'000, '\x80')).size(), 60'000U) << "no text at all";
}

}  // namespace
}  // namespace pergpu::view
