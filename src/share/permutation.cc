// A generalized Feistel network (Black and Rogaway 2002): the numbers are the fields of a table of
// rows × columns, a little more than `size` of them.  Each round adds to the row something that
// depends on the column, or the other way round, which can be undone, so the whole is one to one.
// Who lands beyond `size` goes on from there until it is back ("cycle walking"), which keeps it so.
#include "share/permutation.h"

#include <cmath>

namespace pergpu::share {
namespace {

/// Of 0 … limit-1, by the upper bits.
std::uint64_t below(std::uint64_t limit, std::uint64_t x) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(x) * limit) >> 64);
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b, std::uint64_t limit) {
  return a >= limit - b ? a - (limit - b) : a + b;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size),
      rows_(static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(size))))),
      columns_((size + rows_ - 1) / rows_) {
  std::uint64_t key = mixed(mixed(seed) ^ epoch);
  for (std::uint64_t& one : keys_) one = key = mixed(key);
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  do {
    std::uint64_t row = i / columns_;
    std::uint64_t column = i % columns_;
    for (std::size_t round = 0; round < keys_.size(); round += 2) {
      column = sum(column, below(columns_, mixed(keys_[round] ^ row)), columns_);
      row = sum(row, below(rows_, mixed(keys_[round + 1] ^ column)), rows_);
    }
    i = row * columns_ + column;
  } while (i >= size_);
  return i;
}

void Permutation::all(std::span<std::uint64_t> places) const {
  constexpr std::size_t kLanes = 8;
  const std::uint64_t rows = rows_;
  const std::uint64_t columns = columns_;
  std::size_t done = 0;
  for (; done + kLanes <= places.size(); done += kLanes) {
    std::uint64_t row[kLanes];
    std::uint64_t column[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      row[lane] = places[done + lane] / columns;
      column[lane] = places[done + lane] % columns;
    }
    for (std::size_t round = 0; round < keys_.size(); round += 2) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        std::uint64_t more = below(columns, mixed(keys_[round] ^ row[lane]));
        column[lane] = sum(column[lane], more, columns);
      }
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        std::uint64_t more = below(rows, mixed(keys_[round + 1] ^ column[lane]));
        row[lane] = sum(row[lane], more, rows);
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::uint64_t at = row[lane] * columns + column[lane];
      places[done + lane] = at < size_ ? at : (*this)(at);
    }
  }
  for (; done < places.size(); ++done) places[done] = (*this)(places[done]);
}

}  // namespace pergpu::share
