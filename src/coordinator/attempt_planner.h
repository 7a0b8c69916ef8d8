// From a job to what the engine executes: rendered command, environment, folder, records.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/code_versions.h"
#include "job/schedule/queue.h"
#include "os/fs/file.h"
#include "run/engine.h"
#include "run/environment.h"
#include "run/record.h"
#include "spec/templates/placeholders.h"
#include "state/world.h"

namespace pergpu {

/// Absolute path of the job's metrics file, which may not exist.
std::string metrics_of(const World& world, const Job& job);

class AttemptPlanner {
 public:
  /// Reads the environment that was captured with a sweep: NAME=value entries, each ended by a NUL.
  using ReadEnvironment = std::function<Result<std::string>(SweepId sweep)>;
  /// Takes a fact that has to outlive this process.
  using Record = std::function<void(row::Meta fact)>;
  /// `share`: the socket where its attempts meet about shared memory; "": nowhere.  `tells_home`:
  /// pergpu in a job asks this home.
  AttemptPlanner(const World& world, std::string home, std::string share,
                 ReadEnvironment read_environment, Record record, bool tells_home);

  /// As at construction, for the attempts to come.
  void use_share(std::string share) { share_ = std::move(share); }

  /// REQUIRES: the job is Starting.  An error is the user's: a file that is gone, a text that
  /// cannot be rendered.
  Result<AttemptPlan> plan(const Job& job, const Demand& demand,
                           std::optional<MpsClient> mps = std::nullopt);
  /// The folder part alone, for the attempt that would come next.
  Result<FolderPlan> folder(const Job& job) const;
  /// The record of the attempt that has just ended (job.last), to be rendered when there is time.
  /// Forgets the attempt.
  std::shared_ptr<const AttemptRecord> final_record(const Job& job);
  /// "train.py changed since the first start of step train"
  std::vector<std::string> warnings_of(const Job& job);
  /// A sweep was submitted again: its environment and templates may differ.
  void forget(SweepId sweep);
  /// Whatever folder its output root is at its next start is the one from then on.
  void forget_root(const Sweep& sweep) const;

 private:
  struct Hashed {
    os::FileIdentity identity;
    std::string hash;
  };
  using Environment = std::shared_ptr<const std::vector<std::string>>;

  struct Rendered {
    RenderScope scope = {};
    std::vector<std::string> argv = {};
    std::vector<std::pair<std::string, std::string>> env = {};  // the step's own
    std::string cwd = {};                                       // absolute
    Environment captured = {};
  };

  Result<Environment> environment(SweepId sweep);
  Result<Rendered> rendered(const Job& job);
  JobEnvironment environment_of(const Job& job, const Rendered& rendered, LaneId::Pool pool,
                                std::optional<MpsClient> mps) const;
  AttemptRecord record_of(const Job& job, const Rendered& rendered,
                          const JobEnvironment& environment);
  AttemptRecord rendered_record(const Job& job);
  /// (path as in argv, hash) of the regular files among argv.
  std::vector<std::pair<std::string, std::string>> hash_files(const Job& job,
                                                              const std::vector<std::string>& argv,
                                                              const std::string& cwd);

  bool uses(const Job& job, const std::string& path) const;

  const World& world_;
  std::string home_;
  std::string share_;
  std::string user_;
  bool tells_home_;
  ReadEnvironment read_environment_;
  std::unordered_map<SweepId, Environment> environments_;
  std::unordered_map<std::string, Hashed> hashes_;
  CodeVersions code_;
  std::unordered_map<JobId, std::shared_ptr<AttemptRecord>> live_;
};

}  // namespace pergpu
