// A contradiction leaves the job as it was (apply()), so the ones after it are of little worth.
#include "store/replay.h"

#include <fmt/format.h>

namespace pergpu::store {

void Replay::absorb(const Row& row) {
  if (const auto* born = std::get_if<row::NewJob>(&row)) {
    Job job{.id = born->id, .sweep = born->sweep, .run = born->run, .step = born->step};
    const Result<void> applied = apply(job, event::Submitted{}, born->at);
    if (!applied && problem_.empty()) problem_ = applied.error().message;
    jobs_.insert_or_assign(born->id, std::move(job));
  } else if (const auto* e = std::get_if<row::Event>(&row)) {
    const auto job = jobs_.find(e->job);
    if (job == jobs_.end()) {
      if (problem_.empty()) {
        problem_ = fmt::format("an event of job {}, which does not exist", e->job.value);
      }
      return;
    }
    const Result<void> applied = apply(job->second, e->event, e->at);
    if (!applied && problem_.empty()) problem_ = applied.error().message;
  }
}

}  // namespace pergpu::store
