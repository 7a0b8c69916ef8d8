// What a submit has to know of its folder before it is planned: by which spelling it is known, and
// whose results lie there.  What cannot be known because a disk does not answer is no "nothing is
// there": the submit is refused.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/found_results.h"
#include "coordinator/patient_look.h"
#include "os/clock.h"
#include "result.h"
#include "spec/sweep/sweep.h"
#include "state/submit.h"
#include "state/world.h"
#include "timers.h"

namespace pergpu {

class SubmitFolders {
 public:
  struct Parts {
    const World* world = nullptr;
    const Timers* timers = nullptr;
    os::Clock* clock = nullptr;
    Aside aside = {};  // empty: no folder is looked at
    std::string home = {};
    /// As Coordinator::fetch().
    std::function<void(std::vector<SweepId>, std::function<void(Result<void>)>)> fetch = {};
  };
  explicit SubmitFolders(Parts parts) : parts_(std::move(parts)) {}

  using Rooted = std::function<void(Result<SweepSpec>)>;
  using Judged = std::function<void(FoundVerdict)>;

  /// The file as it is, or with the spelling of its output root under which a sweep of its name is
  /// known.  `then` runs once, at once where there is none to compare with.
  void find_root(SweepSpec file, bool has_unique_name, Rooted then) const;
  /// What becomes of a new sweep of that name below `root`.  `then` runs once, maybe at once.
  void judge(const std::string& root, const std::string& name, Judged then) const;

 private:
  struct Search;
  PatientLook look() const { return {&parts_.aside, parts_.timers, parts_.clock}; }
  std::int64_t now() const { return parts_.clock->now().boot_ns; }
  void search(const std::shared_ptr<Search>& search) const;
  void take(const std::shared_ptr<Search>& search, const std::vector<FoundResult>& found) const;
  void compare(const std::shared_ptr<Search>& search) const;
  void compare_roots(const std::shared_ptr<Search>& search,
                     const std::vector<SweepId>& known) const;

  Parts parts_;
};

}  // namespace pergpu
