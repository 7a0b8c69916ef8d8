// Who has to go when too many are connected: others before the owner, many before few.
#include "serve/crowd.h"

#include <gtest/gtest.h>

#include <vector>

namespace pergpu::serve {
namespace {

constexpr uid_t kOwner = 1000;
constexpr uid_t kOther = 1001;
constexpr uid_t kThird = 1002;

using Indexes = std::vector<std::size_t>;

TEST(Crowd, OfOthersTheOlderHalfOfTheUserWithTheMostGoes) {
  const std::vector<Guest> guests = {{.uid = kOwner}, {.uid = kThird}, {.uid = kOther},
                                     {.uid = kOther}, {.uid = kOwner}, {.uid = kOther}};
  EXPECT_EQ(to_close(guests, kOwner), (Indexes{2, 3}));
}

TEST(Crowd, WhoWasLetInStays) {
  const std::vector<Guest> guests = {{.uid = kOther, .is_let_in = true},
                                     {.uid = kOwner, .is_let_in = true},
                                     {.uid = kOther},
                                     {.is_let_in = true}};
  EXPECT_EQ(to_close(guests, kOwner), (Indexes{2}));
}

TEST(Crowd, TheOwnerGoesOnlyWhereNobodyElseCan) {
  EXPECT_EQ(to_close({{.uid = kOwner}, {.uid = kOwner}, {.uid = kOther}}, kOwner), (Indexes{2}));
  EXPECT_EQ(
      to_close({{.uid = kOwner, .is_let_in = true}, {.uid = kOwner}, {.uid = kOwner}}, kOwner),
      (Indexes{1}));
}

TEST(Crowd, UnknownUsersCountAsOne) {
  const std::vector<Guest> guests = {{.uid = kOther}, {}, {}, {}, {.uid = kOther}};
  EXPECT_EQ(to_close(guests, kOwner), (Indexes{1, 2}));
}

TEST(Crowd, WhereAllWereLetInNobodyGoes) {
  EXPECT_EQ(to_close({}, kOwner), Indexes{});
  EXPECT_EQ(
      to_close({{.uid = kOther, .is_let_in = true}, {.uid = kOwner, .is_let_in = true}}, kOwner),
      Indexes{});
}

}  // namespace
}  // namespace pergpu::serve
