// Lanes in the order of people.
#include "view/text/natural_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pergpu::view {
namespace {

TEST(NaturalOrder, CountsNumbersWhereverTheyAre) {
  const std::vector<std::string> sorted = {"cpu2",    "cpu10", "gpu0",   "gpu0.1", "gpu0.2",
                                           "gpu0.10", "gpu9",  "gpu9.1", "gpu10",  "gpu10.1"};
  std::vector<std::string> names = sorted;
  std::sort(names.begin(), names.end());
  ASSERT_NE(names, sorted);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return NaturalName{a} < NaturalName{b};
  });
  EXPECT_EQ(names, sorted);
}

TEST(NaturalOrder, OnlyTheSameNameIsEqual) {
  EXPECT_LT(NaturalName{"gpu07"}, NaturalName{"gpu7"});
  EXPECT_LT(NaturalName{"gpu7"}, NaturalName{"gpu08"});
  EXPECT_LT(NaturalName{"gpu99999999999999999999"}, NaturalName{"gpu100000000000000000000"});
  EXPECT_EQ(NaturalName{"gpu7"}, NaturalName{"gpu7"});
  EXPECT_LT(NaturalName{""}, NaturalName{"a"});
}

}  // namespace
}  // namespace pergpu::view
