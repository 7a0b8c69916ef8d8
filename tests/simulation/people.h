// The people of a story: they submit sweeps, change them and submit again, cancel, hold, retry,
// press Ctrl-C.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulation/dice.h"
#include "simulation/life.h"
#include "spec/sweep/sweep.h"

namespace pergpu::simulation {

class People {
 public:
  People(Dice& dice, History& history, std::size_t gpus)
      : dice_(dice), history_(history), gpus_(gpus) {}

  /// Asks for one thing.  Answers come later, or never, if the coordinator is killed.
  void act(Life& life);
  /// A submit whose answer was lost is sent again, with the same key.
  void insist(Life& life);
  bool waits_for_answer() const { return asked_.has_value(); }
  void release_all(Life& life);
  /// What no look can show: that a GPU is no lemon although jobs have failed on it by chance, and
  /// that one which has said only once that it is broken was mended.  All else ends by itself.
  void release_gpus(Life& life, Machine& machine);

 private:
  struct File {
    SweepSpec sweep;
    std::int64_t lanes = 0;
    bool accepted = false;  // as it is now
  };
  struct Asked {
    std::size_t file = 0;
    SubmitContext context = {};
    bool repeats = false;
  };
  File new_file();
  StepSpec new_step(std::size_t number);
  void change(File& file);
  void submit(Life& life);
  void send(Life& life);
  std::vector<JobId> choose_jobs(const World& world);
  void ask(Life& life, const std::vector<JobId>& jobs);

  Dice& dice_;
  History& history_;
  std::size_t gpus_;
  std::vector<File> files_;
  std::optional<Asked> asked_;
  std::int64_t keys_ = 0;
};

}  // namespace pergpu::simulation
