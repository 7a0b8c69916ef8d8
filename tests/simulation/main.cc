// simulate: stories of the real coordinator over a simulated machine, one after the other.
//
//   simulate [--seed N] [--stories N | --events N] [--twice] [--show]
//
// Story n has the seed N + n.  --twice tells each story a second time and compares; --show prints
// the journal.  Exit status 1:
// a promise was broken; the line before says how, and the command that tells this story alone.
#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "os/fs/file.h"
#include "os/loop.h"
#include "simulation/story.h"

namespace {

using pergpu::simulation::Story;
using pergpu::simulation::Tally;
using pergpu::simulation::Violation;

/// A folder of leases apart from the machine's own.
class Locks {
 public:
  Locks() {
    std::string name = "/dev/shm/pergpu-simulation.XXXXXX";
    path_ = ::mkdtemp(name.data());
    ::setenv("PERGPU_LOCKS", (path_ + "/locks").c_str(), 1);
  }
  ~Locks() { (void)pergpu::os::remove_tree(path_); }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  std::string path_;
};

void print(const Tally& tally, std::int64_t stories, std::uint64_t seed, double seconds) {
  fmt::print(
      "{} stories from seed {}: {} events, {:.0f} simulated days, {} jobs, {} attempts ended, "
      "{} coordinators and {} keepers killed, {} power cuts, {} full disks; 0 violations "
      "({:.1f} s, {:.0f} events/s)\n",
      stories, seed, tally.events, static_cast<double>(tally.simulated_s) / 86400, tally.jobs,
      tally.outcomes, tally.kills, tally.keeper_kills, tally.power_cuts, tally.full_disks, seconds,
      static_cast<double>(tally.events) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The real coordinator over a simulated machine.");
  std::uint64_t seed = 1;
  std::int64_t most_stories = 0;
  std::int64_t most_events = 0;
  bool twice = false;
  bool shows = false;
  app.add_option("--seed", seed);
  app.add_option("--stories", most_stories);
  app.add_option("--events", most_events);
  app.add_flag("--twice", twice);
  app.add_flag("--show", shows);
  CLI11_PARSE(app, argc, argv);
  if (most_stories == 0 && most_events == 0) most_stories = 100;

  const Locks locks;
  auto loop = pergpu::os::Loop::create();
  if (!loop) return 2;
  Tally tally;
  std::int64_t stories = 0;
  const auto begun = pergpu::os::boot_now_ns();
  while ((most_stories == 0 || stories < most_stories) &&
         (most_events == 0 || tally.events < most_events)) {
    const std::uint64_t its_seed = seed + static_cast<std::uint64_t>(stories);
    ++stories;
    try {
      const Tally told = Story(its_seed, **loop, shows).run();
      if (twice && Story(its_seed, **loop, shows).run().fingerprint != told.fingerprint) {
        throw Violation("the same seed has told another story");
      }
      tally += told;
    } catch (const Violation& violation) {
      fmt::print("seed {}: {}\nagain: {} --seed {} --stories 1 --show\n", its_seed,
                 violation.what(), argv[0], its_seed);
      return 1;
    }
  }
  print(tally, stories, seed, static_cast<double>(pergpu::os::boot_now_ns() - begun) / 1e9);
  return 0;
}
