// Kept in memory only: after a restart a few more programs have to fail, which is soon the case.
#include "job/schedule/gpu_record.h"

#include <algorithm>
#include <set>

namespace pergpu {
namespace {

constexpr std::size_t kMostEnds = 1024;

bool may_be_the_gpu(OutcomeClass cls) {
  return cls == OutcomeClass::Exit || cls == OutcomeClass::Signal || cls == OutcomeClass::Stall;
}

}  // namespace

void GpuRecord::ended(const std::vector<std::string>& gpus, JobId job, StepKey step,
                      OutcomeClass cls) {
  const bool counts =
      cls == OutcomeClass::Ok || cls == OutcomeClass::Hardware || may_be_the_gpu(cls);
  if (gpus.size() != 1 || !counts) return;
  ends_.push_back({gpus.front(), job, step, cls});
  if (ends_.size() > kMostEnds) ends_.pop_front();
}

std::vector<std::string> GpuRecord::gpus_of(JobId job) const {
  std::vector<std::string> uuids;
  for (const End& end : ends_) {
    const bool is_new = std::find(uuids.begin(), uuids.end(), end.uuid) == uuids.end();
    if (end.job == job && is_new) uuids.push_back(end.uuid);
  }
  return uuids;
}

/// Where the ends begin that no success on it came after.
GpuRecord::Ends::const_iterator GpuRecord::row_on(const std::string& uuid) const {
  const auto is_success = [&](const End& end) {
    return end.uuid == uuid && end.cls == OutcomeClass::Ok;
  };
  return std::find_if(ends_.rbegin(), ends_.rend(), is_success).base();
}

bool GpuRecord::is_lemon(const std::string& uuid) const {
  std::set<StepKey> suspicious;
  std::set<StepKey> failed_elsewhere;
  std::set<JobId> failed_here;
  for (auto end = row_on(uuid); end != ends_.end(); ++end) {
    if (end->uuid == uuid) {
      if (may_be_the_gpu(end->cls)) failed_here.insert(end->job);
    } else if (may_be_the_gpu(end->cls)) {
      failed_elsewhere.insert(end->step);
    } else if (end->cls == OutcomeClass::Ok && failed_here.contains(end->job)) {
      suspicious.insert(end->step);
    }
  }
  for (const StepKey& step : failed_elsewhere) suspicious.erase(step);
  return suspicious.size() >= kLemonSteps;
}

bool GpuRecord::is_broken_by_word(const std::string& uuid) const {
  std::set<JobId> jobs;
  for (auto end = row_on(uuid); end != ends_.end(); ++end) {
    if (end->uuid == uuid && end->cls == OutcomeClass::Hardware) jobs.insert(end->job);
  }
  return jobs.size() >= kWordsOfJobs;
}

void GpuRecord::forget(const std::string& uuid) {
  std::erase_if(ends_, [&](const End& end) { return end.uuid == uuid; });
}

}  // namespace pergpu
