// The answer to `pergpu plan`: the forecast of what is asked about, its lower bound, the
// bottleneck, and the same with other numbers of lanes.  Pure, and cut into slices like the
// forecasts it is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "forecast/forecast_input.h"
#include "forecast/lower_bound.h"
#include "result.h"

namespace pergpu {

/// More jobs are not planned one by one: the answer is written in one turn of the loop.
inline constexpr std::size_t kMostPlanned = 5'000;

class Planning {
 public:
  struct Facts {
    GivenDurations given = {};            // with --expect
    int on = 0;                           // as if there were this many GPUs (or lanes); 0: as it is
    std::vector<std::string> steps = {};  // that `given` may name beside those of the jobs
    std::vector<std::string> notes = {};
  };

  /// Steps of jobs that are asked about whose durations are not known: of() cannot plan these.
  struct Missing {
    std::string sweep = {};
    std::string step = {};
    std::size_t jobs = 0;
  };
  static std::vector<Missing> missing(const ForecastInput& input);
  /// Durations are given for steps that there are.
  static Result<void> check_given(const ForecastInput& input, const Facts& facts);

  /// Invalid: `given` names a step that is not asked about, or `on` has no meaning.
  /// REQUIRES: nothing is missing().
  static Result<std::unique_ptr<Planning>> of(ForecastInput input, Facts facts);

  /// Handles up to `events` events.  True: it is finished.
  bool advance(std::size_t events);
  /// As docs/plan.md describes it.  REQUIRES: advance() has said true.
  nlohmann::json answer() const;

 private:
  /// The lanes that most depends on.
  struct MainLanes {
    LaneId::Pool pool = LaneId::Pool::Cpu;
    SweepId sweep = {};  // Pool::Sweep: whose
    int count = 0;
    bool scales = true;  // they are of one kind, so that "with N" has a meaning
    bool any = true;     // something is left that needs one
  };
  /// One question after the other, each a forecast.
  struct Question {
    enum class Kind : std::uint8_t { AsItIs, WithExpect, WithLanes };
    Kind kind = Kind::AsItIs;
    int lanes = 0;
    std::optional<std::int64_t> total_ns =
        std::nullopt;  // of what is asked about; null: not all ends
  };

  Planning(ForecastInput input, Facts facts);
  Result<void> check() const;
  MainLanes main_lanes() const;
  std::vector<std::string> usable_gpus(const ForecastMachine& machine) const;
  ForecastMachine with_lanes(int count) const;
  void ask_questions();
  void begin(const Question& question);
  std::optional<std::int64_t> total_of(const Forecast& forecast) const;

  bool is_of_main(const Forecast::Span& span) const;
  std::string lane_name(const LaneId& lane) const;
  std::vector<std::string> lane_names(const Forecast::Span& span) const;
  std::string lanes_word(std::uint64_t count, LaneId::Pool pool) const;
  std::string bound_words() const;
  nlohmann::json jobs_json() const;
  nlohmann::json others_json() const;
  nlohmann::json lanes_json() const;
  nlohmann::json durations_json() const;
  nlohmann::json stuck_json() const;
  std::optional<double> idle_share(std::int64_t total_ns) const;

  ForecastInput input_;
  Facts facts_;
  ForecastLinks links_;
  ForecastJobs with_expect_;  // in the order that known durations would give
  MainLanes main_;
  LowerBound bound_;
  std::vector<Question> questions_;
  std::size_t asking_ = 0;
  std::unique_ptr<Forecast> forecast_;
  std::unique_ptr<Forecast> as_it_is_;  // kept for the answer
};

}  // namespace pergpu
