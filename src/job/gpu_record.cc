// Kept in memory only: after a restart three more programs have to fail, which is soon told.
#include "job/gpu_record.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace pergpu {
namespace {

constexpr std::size_t kMostEnds = 1024;

bool may_be_the_gpu(OutcomeClass cls) {
  return cls == OutcomeClass::Exit || cls == OutcomeClass::Signal || cls == OutcomeClass::Stall;
}

}  // namespace

void GpuRecord::ended(const std::vector<std::string>& gpus, StepKey step, OutcomeClass cls) {
  const bool ok = cls == OutcomeClass::Ok;
  if (gpus.size() != 1 || (!ok && !may_be_the_gpu(cls))) return;
  ends_.push_back({gpus.front(), step, ok});
  if (ends_.size() > kMostEnds) ends_.pop_front();
}

bool GpuRecord::is_lemon(const std::string& uuid) const {
  // The row of failures on it that no success there ended.
  const auto is_success = [&](const End& end) { return end.uuid == uuid && end.ok; };
  const auto row = std::find_if(ends_.rbegin(), ends_.rend(), is_success).base();
  const auto first =
      std::find_if(row, ends_.end(), [&](const End& end) { return end.uuid == uuid; });
  std::set<StepKey> failed_here;
  std::set<StepKey> failed_elsewhere;
  bool any_succeeded = false;
  for (auto end = first; end != ends_.end(); ++end) {
    if (end->uuid == uuid) {
      failed_here.insert(end->step);
    } else if (end->ok) {
      any_succeeded = true;
    } else {
      failed_elsewhere.insert(end->step);
    }
  }
  for (const StepKey& step : failed_elsewhere) failed_here.erase(step);
  return any_succeeded && std::ssize(failed_here) >= kLemonSteps;
}

void GpuRecord::forget(const std::string& uuid) {
  std::erase_if(ends_, [&](const End& end) { return end.uuid == uuid; });
}

}  // namespace pergpu
