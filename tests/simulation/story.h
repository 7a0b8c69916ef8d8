// One story: people, faults, restarts, and at the end peace, in which everything must come to an
// end.  The same seed is the same story.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "simulation/life.h"
#include "simulation/people.h"

namespace pergpu::simulation {

struct Tally {
  std::int64_t events = 0;  // steps of simulated time
  std::int64_t jobs = 0;
  std::int64_t journal_events = 0;
  std::int64_t outcomes = 0;
  std::int64_t kills = 0;
  std::int64_t power_cuts = 0;
  std::int64_t keeper_kills = 0;
  std::int64_t full_disks = 0;
  std::int64_t simulated_s = 0;
  std::uint64_t fingerprint = 0;
  Tally& operator+=(const Tally& other);
};

class Story {
 public:
  Story(std::uint64_t seed, os::Loop& loop, bool shows);
  /// Throws a Violation when a promise is broken.
  Tally run();

 private:
  void step();
  void begin_life();
  void kill(bool with_power);
  void person();
  void trouble();
  void trouble_strikes();
  void bring_peace();
  void check_end();
  bool is_over();
  std::string what_waits() const;

  Dice dice_;
  Clock clock_;
  Agenda agenda_;
  Faults faults_;
  Machine machine_;
  History history_;
  Disk disk_;
  Surroundings around_;
  People people_;
  Tally tally_;
  std::shared_ptr<const World> before_;
  std::unique_ptr<Life> life_;
  int boots_ = 1;
  bool is_peace_ = false;
};

}  // namespace pergpu::simulation
