// A checksum for each row whose main column is a JSON object: the object has it as its last member,
// "sum".  Bytes that changed on the disk are noticed although the row still makes sense.
//
// Rows of older releases have none, and older releases ignore the member.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ids.h"
#include "result.h"
#include "store/store.h"

namespace pergpu::store {

class RowSum {
 public:
  /// What else the row holds, always in the same order.
  RowSum& add(std::int64_t number);
  RowSum& add(std::string_view text);

  /// `object` is covered, too.  What is no object stays as it is.
  std::string put_into(std::string object) const;
  /// ErrorKind::Corrupt: `object` has a checksum, and it isn't that of this row.
  Result<void> check(std::string_view object) const;

 private:
  std::uint32_t of(std::string_view object) const;

  std::uint64_t state_ = 0x9e3779b97f4a7c15u;
};

/// As it was before put_into().
std::string without_sum(std::string_view object);

/// Of a row of `events` or `folded` ("folded" as its kind), but for the body.
RowSum sum_of_event(std::int64_t job, Instant at, std::string_view kind);
/// Of a row of `sweeps`, but for the spec.
RowSum sum_of_sweep(const row::Sweep& r);

}  // namespace pergpu::store
