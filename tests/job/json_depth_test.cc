// How deep a JSON text nests.
#include "job/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace pergpu {
namespace {

TEST(JsonDepth, CountsListsAndObjectsAtOnce) {
  EXPECT_FALSE(nests_deeper_than("[{\"a\":[]},[[]]]", 3));
  EXPECT_TRUE(nests_deeper_than("[{\"a\":[[]]}]", 3));
  EXPECT_FALSE(nests_deeper_than("", 0));
}

TEST(JsonDepth, BracketsInStringsDoNotCount) {
  EXPECT_FALSE(nests_deeper_than(R"(["[[[[", "\"[[", "\\"])", 1));
  EXPECT_TRUE(nests_deeper_than(R"(["\\", [2]])", 1));
}

TEST(JsonDepth, AMillionBracketsAreFound) {
  EXPECT_TRUE(nests_deeper_than(std::string(1'000'000, '['), kMostNestedJson));
}

}  // namespace
}  // namespace pergpu
