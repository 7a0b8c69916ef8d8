// Adding in one step: nothing is lost between processes, and no row leads outside.
#include "share/atomic_add.h"

#include <rapidcheck.h>

#include <algorithm>
#include <thread>

#include "share/rig.h"

namespace pergpu::share {
namespace {

template <typename T>
constexpr Number kNumber = Number::Float32;
template <>
constexpr Number kNumber<double> = Number::Float64;
template <>
constexpr Number kNumber<std::int32_t> = Number::Int32;
template <>
constexpr Number kNumber<std::int64_t> = Number::Int64;

template <typename T>
class AtomicAdd : public testing::Test {};
using Numbers = testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(AtomicAdd, Numbers);

template <typename T>
std::byte* bytes(std::vector<T>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}

TYPED_TEST(AtomicAdd, ThreadsLoseNothing) {
  constexpr int kTurns = 20000;
  std::vector<TypeParam> into(8), ones(8, 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        atomic_add(kNumber<TypeParam>, bytes(into), bytes(ones), ones.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(into, std::vector<TypeParam>(8, TypeParam{4 * kTurns}));
}

TYPED_TEST(AtomicAdd, RowsAreThoseThatAPlainLoopAddsTo) {
  EXPECT_TRUE(rc::check([] {
    auto height = *rc::gen::inRange<std::size_t>(0, 6),
         width = *rc::gen::inRange<std::size_t>(0, 5);
    auto rows =
        *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(-1, 7));
    std::vector<TypeParam> into(height * width + 1, TypeParam{5}), values(rows.size() * width);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<TypeParam>(i);
    std::vector<TypeParam> expected = into;
    bool all_there = std::all_of(rows.begin(), rows.end(), [&](std::int64_t row) {
      return row >= 0 && row < static_cast<std::int64_t>(height);
    });
    for (std::size_t i = 0; all_there && i < values.size(); ++i) {
      expected[static_cast<std::size_t>(rows[i / width]) * width + i % width] += values[i];
    }
    RC_ASSERT(atomic_add_rows(kNumber<TypeParam>, bytes(into), height, width, rows,
                              bytes(values)) == all_there);
    RC_ASSERT(into == expected);
  }));
}

}  // namespace
}  // namespace pergpu::share
