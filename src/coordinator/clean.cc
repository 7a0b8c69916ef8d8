// `pergpu clean`: ended sweeps that nobody is told of any more, and their results put aside.
//
// What is forgotten is one row, durable before the answer, and nothing of the history is rewritten:
// a restart skips those sweeps, the numbers of their jobs are never given again, and the same file
// submitted again is a new sweep.  The client removes the results, because that takes long and may
// hang: until it says that it has, or leaves, no sweep may begin in the same folder.  A client that
// dies leaves what it put aside under a name of its own; the next `clean` finds it in that row.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/coordinator.h"

namespace pergpu {

std::string Coordinator::why_not_cleaned(const Sweep& sweep, bool results) const {
  const World& world = *parts_.world;
  if (sweep.open > 0) {
    return fmt::format("{} of its jobs {} not ended", sweep.open, sweep.open == 1 ? "has" : "have");
  }
  for (const auto& [id, live] : live_) {
    if (world.job(id)->sweep == sweep.id) {
      return fmt::format("what job {} has left behind is not gone yet", id.value);
    }
  }
  if (notices_->owes(sweep.id)) return "a message that tells of it is not delivered yet";
  if (!results) return "";
  const std::string inside = sweep.folder() + "/";
  for (const auto& [id, other] : world.sweeps()) {
    if (id != sweep.id && !world.is_forgotten(id) && other.folder().starts_with(inside)) {
      return fmt::format("the results of sweep {} lie in its folder", other.name);
    }
  }
  for (const auto& [id, other] : world.archived()) {
    if ((other.root + "/" + other.name).starts_with(inside)) {
      return fmt::format("the results of sweep {} lie in its folder", other.name);
    }
  }
  return "";
}

void Coordinator::forget(const std::vector<SweepId>& sweeps, bool results) {
  for (const SweepId id : sweeps) {
    const Sweep& sweep = *parts_.world->sweep(id);
    if (results) cleaning_[id] = {.root = sweep.root, .name = sweep.name};
    parts_.journal->record(World::cleaned_row(id, results ? World::aside_of(sweep) : ""));
    forget_breakers(id);
    ++changes_;
  }
}

void Coordinator::end_cleaning(SweepId id, bool removed) {
  cleaning_.erase(id);
  const auto known = parts_.world->put_aside().find(id);
  if (!removed || known == parts_.world->put_aside().end()) return;
  parts_.journal->record(World::cleaned_row(id, ""));
}

bool Coordinator::is_cleaned_now(const SweepSpec& file, const SubmitContext& context) const {
  const std::string root = output_root(file);
  return std::any_of(cleaning_.begin(), cleaning_.end(), [&](const auto& one) {
    return one.second.root == root && (context.unique_name || one.second.name == file.name);
  });
}

}  // namespace pergpu
