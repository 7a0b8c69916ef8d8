// Text that is cut, in whole characters.
#include "utf8_bytes.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

TEST(WholeCharacters, AreNotCut) {
  EXPECT_EQ(whole_characters("äöü", 6), "äöü");
  EXPECT_EQ(whole_characters("äöü", 5), "äö");
  EXPECT_EQ(whole_characters("äöü", 4), "äö");
  EXPECT_EQ(whole_characters("a€b", 3), "a");
  EXPECT_EQ(whole_characters("€", 2), "");
  EXPECT_EQ(whole_characters("abc", 0), "");
  EXPECT_EQ(whole_characters("", 3), "");
}

TEST(WholeCharacters, OfBytesThatAreNoTextAreBounded) {
  EXPECT_EQ(whole_characters("\x80\x80\x80", 2), "");
  EXPECT_EQ(whole_characters("a\xff\xff", 2), "a\xff");
}

TEST(Abbreviated, SaysThatSomethingWasLeftOut) {
  EXPECT_EQ(abbreviated("abc", 3), "abc");
  EXPECT_EQ(abbreviated("abcd", 3), "abc…");
  EXPECT_EQ(abbreviated("ab€", 4), "ab…");
}

}  // namespace
}  // namespace pergpu
