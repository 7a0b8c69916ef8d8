// Forecasts beside the best schedule there is, found by trying all.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>
#include <set>

#include "forecast/forecast_case.h"

namespace pergpu::testing_forecast {
namespace {

/// When the jobs have ended if each is placed, in this order, as early as it fits (what is placed
/// already stays).  Of all orders one gives the optimum.
class Placing {
 public:
  Placing(const Case& c, int lanes) : case_(c), lanes_(lanes) {}

  std::int64_t end(const std::vector<std::uint32_t>& order) {
    placed_.clear();
    ends_.assign(case_.jobs.jobs.size(), -1);
    std::int64_t last = 0;
    for (const std::uint32_t job : order) last = std::max(last, place(job));
    return last;
  }
  bool may_come(std::uint32_t job, const std::vector<bool>& taken) const {
    const std::vector<std::uint32_t>& needs = case_.jobs.jobs[job].needs;
    return std::all_of(needs.begin(), needs.end(), [&](std::uint32_t n) { return taken[n]; });
  }

 private:
  struct Placed {
    std::int64_t start;
    std::int64_t end;
    StepKey step;
  };

  std::int64_t place(std::uint32_t job) {
    const ForecastJob& of = case_.jobs.jobs[job];
    std::int64_t earliest = 0;
    for (const std::uint32_t need : of.needs) earliest = std::max(earliest, ends_[need]);
    std::set<std::int64_t> instants{earliest};
    for (const Placed& other : placed_) {
      if (other.end > earliest) instants.insert(other.end);
    }
    for (const std::int64_t at : instants) {
      if (!fits(of, at, at + of.duration_ns)) continue;
      ends_[job] = at + of.duration_ns;
      placed_.push_back({at, ends_[job], of.step});
      return ends_[job];
    }
    return -1;
  }
  bool fits(const ForecastJob& job, std::int64_t from, std::int64_t to) const {
    if (!fits_at(job, from)) return false;
    return std::all_of(placed_.begin(), placed_.end(), [&](const Placed& other) {
      return other.start <= from || other.start >= to || fits_at(job, other.start);
    });
  }
  bool fits_at(const ForecastJob& job, std::int64_t at) const {
    int all = 0;
    int same = 0;
    for (const Placed& other : placed_) {
      if (other.start > at || other.end <= at) continue;
      ++all;
      same += other.step == job.step ? 1 : 0;
    }
    const auto most = case_.machine.steps.at(job.step).demand.max_parallel;
    return all < lanes_ && (!most || same < *most);
  }

  const Case& case_;
  int lanes_;
  std::vector<Placed> placed_;
  std::vector<std::int64_t> ends_;
};

/// Tries every order in which needs come first.  Of jobs that are `alike` the order is the given.
class Optimum {
 public:
  Optimum(const Case& c, int lanes) : case_(c), placing_(c, lanes) {}

  std::int64_t find(bool alike) {
    alike_ = alike;
    taken_.assign(case_.jobs.jobs.size(), false);
    order_.clear();
    best_ = std::numeric_limits<std::int64_t>::max();
    search();
    return best_;
  }

 private:
  void search() {
    const std::size_t count = case_.jobs.jobs.size();
    if (order_.size() == count) {
      best_ = std::min(best_, placing_.end(order_));
      return;
    }
    std::set<StepKey> tried;
    for (std::uint32_t job = 0; job < count; ++job) {
      if (taken_[job] || !placing_.may_come(job, taken_)) continue;
      if (alike_ && !tried.insert(case_.jobs.jobs[job].step).second) continue;
      taken_[job] = true;
      order_.push_back(job);
      search();
      order_.pop_back();
      taken_[job] = false;
    }
  }

  const Case& case_;
  Placing placing_;
  bool alike_ = false;
  std::vector<bool> taken_;
  std::vector<std::uint32_t> order_;
  std::int64_t best_ = 0;
};

TEST(ForecastProperty, IndependentJobsEndWithinFourThirdsOfTheOptimum) {
  EXPECT_TRUE(rc::check([] {
    const int lanes = *rc::gen::inRange(1, 4);
    Case c(lanes);
    const int count = *rc::gen::inRange(1, 7);
    for (int i = 0; i < count; ++i) c.add(0, *rc::gen::inRange(1, 21) * kMinute);
    const std::int64_t best = Optimum(c, lanes).find(false);
    const std::int64_t total = c.outcome().total_ns;
    RC_ASSERT(total >= best);
    RC_ASSERT(3 * total <= 4 * best);
    RC_ASSERT(c.bound().ns <= best);
  }));
}

void expect_four_thirds(std::optional<int> evaluations_at_a_time) {
  for (int runs = 1; runs <= 5; ++runs) {
    for (int lanes = 1; lanes <= 4; ++lanes) {
      for (int train = 1; train <= 6; ++train) {
        for (int evaluate = 1; evaluate <= 6; ++evaluate) {
          Case c(lanes);
          c.declare(0, {.step_name = "train"});
          c.declare(1, {.step_name = "evaluate", .max_parallel = evaluations_at_a_time});
          for (int run = 0; run < runs; ++run) {
            const std::uint32_t trained = c.add(0, train * kMinute, {}, run);
            c.add(1, evaluate * kMinute, {trained}, run);
          }
          const std::int64_t best = Optimum(c, lanes).find(true);
          const std::int64_t total = c.outcome().total_ns;
          const std::string words = "runs " + std::to_string(runs) + " lanes " +
                                    std::to_string(lanes) + " train " + std::to_string(train) +
                                    " evaluate " + std::to_string(evaluate);
          ASSERT_GE(total, best) << words;
          ASSERT_LE(3 * total, 4 * best) << words;
          ASSERT_LE(c.bound().ns, best) << words;
        }
      }
    }
  }
}

TEST(ForecastProperty, RunsOfTwoStepsEndWithinFourThirdsOfTheOptimum) {
  expect_four_thirds(std::nullopt);
}

TEST(ForecastProperty, RunsWithASerialStepEndWithinFourThirdsOfTheOptimum) {
  expect_four_thirds(1);
  expect_four_thirds(2);
}

TEST(ForecastProperty, NoScheduleIsShorterThanTheLowerBound) {
  EXPECT_TRUE(rc::check([] {
    const int lanes = *rc::gen::inRange(1, 4);
    Case c(lanes);
    for (int step = 0; step < 2; ++step) {
      const bool is_limited = *rc::gen::arbitrary<bool>();
      c.declare(step, {.step_name = "step",
                       .max_parallel = is_limited ? std::optional<int>(*rc::gen::inRange(1, 3))
                                                  : std::nullopt});
    }
    const int count = *rc::gen::inRange(1, 7);
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i) {
      std::vector<std::uint32_t> needs;
      if (i > 0 && *rc::gen::arbitrary<bool>())
        needs.push_back(*rc::gen::inRange<std::uint32_t>(0, i));
      c.add(*rc::gen::inRange(0, 2), *rc::gen::inRange(1, 11) * kMinute, needs);
    }
    const std::int64_t best = Optimum(c, lanes).find(false);
    RC_ASSERT(c.bound().ns <= best);
    RC_ASSERT(c.outcome().total_ns >= best);
  }));
}

TEST(ForecastProperty, NoCoreDoesMoreThanItCan) {
  EXPECT_TRUE(rc::check([] {
    const int lanes = *rc::gen::inRange(1, 6);
    Case c(lanes);
    c.machine.cores = *rc::gen::inRange(1, 4);
    const int count = *rc::gen::inRange(1, 12);
    double work = 0;
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i) {
      std::vector<std::uint32_t> needs;
      if (i > 0 && *rc::gen::arbitrary<bool>())
        needs.push_back(*rc::gen::inRange<std::uint32_t>(0, i));
      c.add(0, *rc::gen::inRange(1, 11) * kMinute, needs);
      ForecastJob& job = c.jobs.jobs.back();
      job.cores = *rc::gen::inRange(0, 9) / 4.0;
      work += static_cast<double>(job.duration_ns) * job.cores;
    }
    Case without = c;
    without.machine.cores = 0;
    const Outcome out = c.outcome();
    RC_ASSERT(static_cast<double>(out.total_ns) * c.machine.cores > work - 1e3 * count);
    for (std::size_t i = 0; i < out.spans.size(); ++i) {
      const Forecast::Span& span = out.spans[i];
      RC_ASSERT(span.ends());
      RC_ASSERT(span.end_ns - span.start_ns >= c.jobs.jobs[i].duration_ns - 1'000);
    }
    double all_at_once = 0;
    for (const ForecastJob& job : c.jobs.jobs) all_at_once += job.cores;
    if (all_at_once <= c.machine.cores) RC_ASSERT(out.total_ns == without.outcome().total_ns);
  }));
}

}  // namespace
}  // namespace pergpu::testing_forecast
