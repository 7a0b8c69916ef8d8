// Which code the jobs of a step ran: the files among their arguments, by hash.  A warning is due
// while the newest attempts of the step's jobs ran different versions of a file, and is given once:
// with the job that was the first to run the newest one.
//
// What is kept of a file is when each version was started first: which one an attempt ran follows
// from when it was started, so nothing is kept for each job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "state/world.h"

namespace pergpu {

class CodeVersions {
 public:
  /// Takes a fact that has to outlive this process.
  using Record = std::function<void(row::Meta fact)>;
  /// Whether the file is among the job's arguments.
  using Uses = std::function<bool(const Job& job, const std::string& path)>;
  CodeVersions(const World& world, Record record, Uses uses);

  /// The attempt that is being started runs these: path as in argv, hash.  REQUIRES: job.last.
  void saw(const Job& job, const std::vector<std::pair<std::string, std::string>>& files);
  /// "train.py changed since the first start of step train"
  std::vector<std::string> warnings_of(const Job& job);

 private:
  struct Version {
    std::string hash = {};
    std::int64_t since_wall_ns = 0;
    JobId first = {};  // that ran it
  };
  using Files = std::map<std::string, std::vector<Version>>;  // path as in argv -> oldest first

  struct Known {
    Files files = {};
    /// The files of which it was the first to run the newest version, after another one.  A job is
    /// described often, and a step may have a file for each of its runs: only these are walked.
    std::map<JobId, std::set<std::string>> changed_by = {};
  };

  Known& of_step(const Job& job);
  bool differs(const Step& step, const Job& job, const std::string& path,
               const std::vector<Version>& versions) const;
  static std::string to_text(const Files& files);
  static Known known_of(const std::string& text);

  const World& world_;
  Record record_;
  Uses uses_;
  std::map<std::pair<SweepId, std::int16_t>, Known> steps_;
};

}  // namespace pergpu
