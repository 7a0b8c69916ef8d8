// The file system of a folder is known only after a first look, so that those of unknown ones are
// limited by their number alone.
#include "coordinator/look_turns.h"

#include <algorithm>
#include <utility>

namespace pergpu {
namespace {

constexpr std::size_t kLooksAtOnce = 8;  // of all: half of the threads

}  // namespace

void LookTurns::ask(std::uint64_t device, std::function<void(int turn)> begin_it) {
  Waiting next{.device = device, .begin = std::move(begin_it)};
  if (!may_begin(device)) return waiting_.push_back(std::move(next));
  begin(std::move(next));
}

void LookTurns::end(int turn) {
  under_way_.erase(turn);
  const auto next =
      std::ranges::find_if(waiting_, [this](const Waiting& one) { return may_begin(one.device); });
  if (next == waiting_.end()) return;
  Waiting its = std::move(*next);
  waiting_.erase(next);
  begin(std::move(its));
}

bool LookTurns::may_begin(std::uint64_t device) const {
  const bool is_free = device == 0 || std::ranges::none_of(under_way_, [device](const auto& one) {
                         return one.second == device;
                       });
  return is_free && under_way_.size() < kLooksAtOnce;
}

void LookTurns::begin(Waiting next) {
  const int turn = ++last_;
  under_way_[turn] = next.device;
  next.begin(turn);
}

}  // namespace pergpu
