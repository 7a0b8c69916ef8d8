// Their ends are looked for: nothing else reports them.
#include "run/foreign_keepers.h"

#include <algorithm>

#include "os/process/proc.h"

namespace pergpu {

bool ForeignKeepers::has_earlier() const {
  return std::any_of(keepers_.begin(), keepers_.end(),
                     [](const auto& entry) { return entry.second.is_earlier; });
}

const ForeignKeepers::Keeper* ForeignKeepers::earlier(KeeperId id) const {
  const auto it = keepers_.find(id);
  return it == keepers_.end() || !it->second.is_earlier ? nullptr : &it->second;
}

bool ForeignKeepers::has_unexpected(const std::function<bool(KeeperId)>& is_expected) const {
  return std::any_of(keepers_.begin(), keepers_.end(), [&](const auto& entry) {
    return entry.second.is_earlier && entry.second.is_busy && !is_expected(entry.first);
  });
}

std::vector<KeeperId> ForeignKeepers::take_ended() {
  std::vector<KeeperId> ended;
  for (const auto& [id, keeper] : keepers_) {
    const LivingKeeper& process = keeper.process;
    if (keeper.is_earlier && !os::is_alive(process.pid, process.start_ticks)) ended.push_back(id);
  }
  for (const KeeperId id : ended) keepers_.erase(id);
  return ended;
}

}  // namespace pergpu
