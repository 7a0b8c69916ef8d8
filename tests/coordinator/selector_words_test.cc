// What a selector may become while it is typed.
#include "state/selector_words.h"

#include "simulation.h"

namespace pergpu::testing {
namespace {

using Words = std::vector<std::string>;

struct SelectorWordsTest : ::testing::Test {
  MemoryStore store;
  SimClock clock;

  static Words offered(const Simulation& sim, const std::string& begin) {
    Words words;
    for (const SelectorWord& one : selector_words(sim.world, begin, 500)) words.push_back(one.word);
    return words;
  }
  /// Jobs 1 to 12, of which two run.
  void submit(Simulation& sim) {
    SweepSpec sweep = sweep_of("sweep", 12);
    sweep.steps.push_back(step_of("train", "10s"));
    ASSERT_TRUE(sim.submit(sweep, {.lanes = 2}));
  }
};

TEST_F(SelectorWordsTest, NothingTypedOffersOfJobsTheLiveOnes) {
  Simulation sim(store, clock);
  submit(sim);
  EXPECT_EQ(offered(sim, ""), (Words{"@", "sweep", "sweep/", "1", "2"}));
}

TEST_F(SelectorWordsTest, RunsThatBeginSo) {
  Simulation sim(store, clock);
  submit(sim);
  const auto folder_of = [&](std::size_t run) {
    return std::string(sim.world.sweep(SweepId{1})->runs[run].folder());
  };
  EXPECT_EQ(offered(sim, "sweep/1"), (Words{"sweep/" + folder_of(10), "sweep/" + folder_of(11)}));
  EXPECT_EQ(offered(sim, "@/11"), (Words{"@/" + folder_of(11), "@/" + folder_of(11) + "/"}));
  EXPECT_TRUE(offered(sim, "sweep/2").empty());
  EXPECT_TRUE(offered(sim, "no/0").empty());
}

TEST_F(SelectorWordsTest, StepsOfARunByFolderOrIndex) {
  Simulation sim(store, clock);
  submit(sim);
  const std::string folder(sim.world.sweep(SweepId{1})->runs[3].folder());
  for (const std::string& run : {folder, std::string("3"), std::string("*")}) {
    const std::string begin = "sweep/" + run + "/";
    EXPECT_EQ(offered(sim, begin), (Words{begin + "train"})) << run;
  }
  for (const char* run : {"12", "3x", "03-no-such", "99999999999999999999", "-1", ""}) {
    EXPECT_TRUE(offered(sim, std::string("sweep/") + run + "/").empty()) << run;
  }
}

}  // namespace
}  // namespace pergpu::testing
