// Threads of one process are told apart by a number in the place of the epoch.
#include "share/gate.h"

#include <utility>

#include "os/clock.h"

namespace pergpu::share {
namespace {

constexpr std::int64_t kGatePatienceNs = 2'000'000'000;
constexpr std::int64_t kGatePauseNs = 1'000'000;

std::atomic<std::uint32_t> entries{0};

}  // namespace

std::optional<Gate> Gate::try_enter(const Layout& layout) {
  std::atomic<std::uint64_t>& word = layout.header().gate;
  std::uint64_t found = word.load();
  if (found != 0 && !has_ended(Owner::unpack(found))) return std::nullopt;
  Owner me = this_process();
  if (me.start == 0) return std::nullopt;
  me.epoch = entries.fetch_add(1);
  std::uint64_t mine = me.pack();
  if (!word.compare_exchange_strong(found, mine)) return std::nullopt;
  return Gate(&word, mine);
}

Result<Gate> Gate::enter(const Layout& layout) {
  std::int64_t patience = os::awake_now_ns() + kGatePatienceNs;
  while (true) {
    if (std::optional<Gate> gate = try_enter(layout)) return std::move(*gate);
    std::int64_t now = os::awake_now_ns();
    if (now >= patience) break;
    sleep_until(now + kGatePauseNs);
  }
  std::uint32_t pid = Owner::unpack(layout.header().gate.load()).pid;
  return Error{ErrorKind::Busy, EBUSY,
               "channel: process " + std::to_string(pid) +
                   " has been attaching or cleaning up for 2 s; check whether it is stopped"};
}

Gate::Gate(Gate&& other) noexcept
    : word_(std::exchange(other.word_, nullptr)), mine_(other.mine_) {}

Gate::~Gate() {
  // Not ours any more where another process wrote over it.
  if (word_ != nullptr) word_->compare_exchange_strong(mine_, 0);
}

}  // namespace pergpu::share
