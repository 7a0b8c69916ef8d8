// Whoever watches a sweep is told when only a person can make it go on.
#include "state/standstill.h"

#include <gtest/gtest.h>

#include "simulation.h"
#include "state/submit.h"

namespace pergpu::testing {
namespace {

struct Standstill : ::testing::Test {
  void submit(int runs, std::vector<StepSpec> steps) {
    SweepSpec sweep = sweep_of("s", runs);
    sweep.steps = std::move(steps);
    Result<SubmitPlan> plan = plan_submit(world, sweep, {}, {1, 1});
    ASSERT_TRUE(plan) << plan.error().message;
    for (const Row& row : plan->rows) ASSERT_TRUE(world.absorb(row));
    for (const std::int64_t job : plan->reply.jobs) jobs.insert(JobId{job});
  }
  static StepSpec after(const char* name, int needed, Need::Scope scope = Need::Scope::SameRun) {
    StepSpec step = step_of(name);
    step.needs = {{needed, scope}};
    return step;
  }
  void happens(std::int64_t job, JobEvent e) {
    ASSERT_TRUE(world.absorb(row::Event{{job}, std::move(e), {2, 2}}));
  }
  bool stands() const {
    std::unordered_set<JobId> open;
    for (const JobId id : jobs) {
      const Job& job = *world.job(id);
      if (!is_ended(job.state) && !is_held_for_good(job)) open.insert(id);
    }
    return stand_still(world, open);
  }

  World world;
  std::unordered_set<JobId> jobs;
};

TEST_F(Standstill, IsWhereTheRestWaitsForWhatIsHeld) {
  submit(2, {step_of("train"), after("evaluate", 0), after("plot", 1)});
  EXPECT_FALSE(stands());
  happens(1, event::Held{"by a person"});
  EXPECT_FALSE(stands()) << "the other run can start";
  happens(2, event::Held{"by a person"});
  EXPECT_TRUE(stands());
  happens(1, event::Requeued{"released"});
  EXPECT_FALSE(stands());
}

TEST_F(Standstill, IsNotWhileSomethingRuns) {
  submit(2, {step_of("train"), after("evaluate", 0)});
  happens(1, event::Starting{.attempt = 1});
  happens(2, event::Held{"by the breaker"});
  EXPECT_FALSE(stands());
  happens(1, event::Ended{{.cls = OutcomeClass::Ok}, {.state = JobState::Done}});
  EXPECT_FALSE(stands()) << "what needed it can start";
}

TEST_F(Standstill, ABarrierWaitsForEveryJobOfItsStep) {
  StepSpec table = after("table", 1, Need::Scope::Ended);
  table.once = true;
  submit(2, {step_of("train"), after("evaluate", 0), table});
  for (const std::int64_t job : {1, 3}) {
    happens(job, event::Starting{.attempt = 1});
    happens(job, event::Ended{{.cls = OutcomeClass::Ok}, {.state = JobState::Done}});
  }
  EXPECT_FALSE(stands());
  happens(2, event::Held{"by a person"});
  EXPECT_TRUE(stands()) << "evaluate of the held run never ends";
}

TEST_F(Standstill, IsNotWhereTheBreakerHoldsUnlessThatWaitsForAPerson) {
  submit(1, {step_of("train"), after("evaluate", 0), after("plot", 1, Need::Scope::Ended)});
  happens(2, event::Held{"by the breaker", HoldCause::Breaker});
  EXPECT_FALSE(stands()) << "the breaker tries it";
  happens(1, event::Held{"by a person"});
  EXPECT_TRUE(stands());
}

TEST_F(Standstill, IsNotWhereNothingIsOpen) {
  submit(1, {step_of("train")});
  happens(1, event::Held{"by a person"});
  EXPECT_FALSE(stands());
}

}  // namespace
}  // namespace pergpu::testing
