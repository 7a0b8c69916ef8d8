// Sums are kept, because the scheduler asks for them at each GPU.
#include "job/gpu_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace pergpu {

std::string share_text(int thousandths) { return fmt::format("{:g}", thousandths / 1000.0); }

int GpuParts::first_free() const {
  const auto free = std::find_if(parts_.begin(), parts_.end(),
                                 [](const GpuPart& part) { return part.share == 0; });
  return static_cast<int>(free - parts_.begin());
}

std::int64_t GpuParts::free_at_ns() const {
  std::int64_t last = 0;
  for (const GpuPart& part : parts_) {
    if (part.share == 0) continue;
    if (part.until_ns == 0) return 0;
    last = std::max(last, part.until_ns);
  }
  return last;
}

const GpuPart& GpuParts::of(int part) const {
  static const GpuPart kNobody;
  const auto index = static_cast<std::size_t>(part);
  return index < parts_.size() ? parts_[index] : kNobody;
}

void GpuParts::give(int part, const GpuPart& given) {
  assert(part >= 0 && given.share > 0);
  take_back(part);
  const auto index = static_cast<std::size_t>(part);
  if (parts_.size() <= index) parts_.resize(index + 1);
  parts_[index] = given;
  taken_ += given.share;
  bytes_ += given.bytes;
  ++count_;
}

void GpuParts::take_back(int part) {
  const auto index = static_cast<std::size_t>(part);
  if (index >= parts_.size() || parts_[index].share == 0) return;
  taken_ -= parts_[index].share;
  bytes_ -= parts_[index].bytes;
  --count_;
  parts_[index] = {};
}

}  // namespace pergpu
