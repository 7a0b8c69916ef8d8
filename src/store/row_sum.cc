// Eight bytes at a time are taken up by steps that can be undone: a change of one of them, however
// many of its bits it is in, always changes what comes out, but for the last step, which halves it.
#include "store/row_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace pergpu::store {
namespace {

constexpr std::string_view kMember = "\"sum\":\"";
constexpr std::size_t kDigits = 8;
constexpr std::string_view kEnd = "\"}";
constexpr std::size_t kSumSize = kMember.size() + kDigits + kEnd.size();

std::uint64_t mixed(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * 0xff51afd7ed558ccdu;
  return state ^ (state >> 32);
}

/// Where the member begins; npos: there is none.
std::size_t begin_of_sum(std::string_view object) {
  if (object.size() <= kSumSize || !object.ends_with(kEnd)) return object.npos;
  const std::size_t begin = object.size() - kSumSize;
  const bool follows = object[begin - 1] == ',' || object.substr(0, begin) == "{";
  return follows && object.substr(begin).starts_with(kMember) ? begin : object.npos;
}

/// The object without its sum and its last brace: "{" or "{…".
std::string_view before_sum(std::string_view object, std::size_t begin) {
  return object.substr(0, object[begin - 1] == ',' ? begin - 1 : begin);
}

}  // namespace

RowSum& RowSum::add(std::int64_t number) {
  state_ = mixed(state_, static_cast<std::uint64_t>(number));
  return *this;
}

RowSum& RowSum::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    state_ = mixed(state_, word);
  }
  return *this;
}

std::uint32_t RowSum::of(std::string_view object) const {
  RowSum all = *this;
  all.add(object);
  return static_cast<std::uint32_t>(all.state_ ^ (all.state_ >> 32));
}

std::string RowSum::put_into(std::string object) const {
  if (!object.starts_with('{') || !object.ends_with('}') || object.size() < 2) return object;
  object.pop_back();
  const std::uint32_t sum = of(object);
  object += fmt::format("{}{}{:08x}{}", object == "{" ? "" : ",", kMember, sum, kEnd);
  return object;
}

Result<void> RowSum::check(std::string_view object) const {
  const std::size_t begin = begin_of_sum(object);
  if (begin == object.npos) return {};
  const std::string expected = fmt::format("{:08x}", of(before_sum(object, begin)));
  if (object.substr(begin + kMember.size(), kDigits) == expected) return {};
  return Error{ErrorKind::Corrupt, 0,
               "its checksum doesn't match: it has changed since it was written"};
}

std::string without_sum(std::string_view object) {
  const std::size_t begin = begin_of_sum(object);
  if (begin == object.npos) return std::string(object);
  return std::string(before_sum(object, begin)) + "}";
}

RowSum sum_of_event(std::int64_t job, Instant at, std::string_view kind) {
  RowSum sum;
  sum.add(job).add(at.wall_ns).add(at.boot_ns).add(kind);
  return sum;
}

RowSum sum_of_sweep(const row::Sweep& r) {
  RowSum sum;
  sum.add(r.id.value).add(r.root).add(r.name).add(r.submit).add(r.at.wall_ns).add(r.at.boot_ns);
  return sum;
}

}  // namespace pergpu::store
