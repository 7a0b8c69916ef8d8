// The least is not nothing: among false waiters there may be a true one, which needs a moment.
#include "gpu/yield_patience.h"

#include <algorithm>

namespace pergpu::gpu {

std::chrono::milliseconds YieldPatience::of(const std::string& uuid) const {
  const auto found = patience_.find(uuid);
  return found == patience_.end() ? kMost : found->second;
}

void YieldPatience::in_vain(const std::string& uuid) {
  patience_[uuid] = std::max(kLeast, of(uuid) / 2);
}

}  // namespace pergpu::gpu
