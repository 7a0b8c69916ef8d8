// A job's number and its home show whose results they are.  What is finished is never run again
// without a word of the user's.
#include "coordinator/found_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plural.h"

namespace pergpu {
namespace {

std::string others_words(const std::vector<FoundResult>& results) {
  std::set<std::string> homes;
  for (const FoundResult& result : results) {
    if (result.home.empty()) continue;
    homes.insert(result.home);
  }
  if (homes.empty()) return "another sweep";
  return fmt::format("another sweep (of home {}{})", *homes.begin(),
                     homes.size() > 1 ? " and others" : "");
}

}  // namespace

std::vector<SweepId> sweeps_of(const World& world, const std::string& home,
                               const std::vector<FoundResult>& results) {
  std::set<SweepId> found;
  for (const FoundResult& result : results) {
    if (result.home != home) continue;
    if (const Job* job = world.job(result.id.job)) {
      found.insert(job->sweep);
      continue;
    }
    for (const SweepId id : world.archived_with(result.id.job)) found.insert(id);
  }
  std::erase_if(found, [&](SweepId id) { return world.is_forgotten(id); });
  return {found.begin(), found.end()};
}

FoundVerdict judge_results(const World& world, const std::vector<FoundResult>& results,
                           const std::vector<KnownRoot>& roots, const std::string& folder,
                           const std::string& name, bool is_whole) {
  for (const KnownRoot& root : roots) {
    const Sweep* sweep = world.sweep(root.sweep);
    if (sweep == nullptr || root.is_there || sweep->name != name) continue;
    if (!world.live_of(sweep->id).empty()) {  // of older versions, too
      return {.why =
                  fmt::format("{} was moved here from {} while its jobs are running in the old "
                              "folder; wait for them, or run `pergpu cancel {}`, then submit again",
                              folder, sweep->folder(), name)};
    }
    return {.moved = root.sweep,
            .note = fmt::format("sweep {} was moved from {} to {} and continues there", name,
                                sweep->folder(), folder)};
  }
  const auto done = std::count_if(results.begin(), results.end(),
                                  [](const FoundResult& one) { return one.state == "done"; });
  const std::string whose = others_words(results);
  if (done > 0) {
    return {.why = fmt::format(
                "{} contains results of {}: {} of the {}{} there have finished. Nothing was "
                "submitted. To run all of them again and overwrite the results, pass --rerun. To "
                "keep the results, use another folder (--out DIR) or another name",
                folder, whose, done, is_whole ? "" : "first ", counted(results.size(), "job"))};
  }
  return {.note = fmt::format("{} contains unfinished results of {}; existing logs are kept as "
                              "log.old.txt, and jobs wait for folders that are in use",
                              folder, whose)};
}

}  // namespace pergpu
