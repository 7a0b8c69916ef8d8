// What the scheduler will do if every job takes as long as it is expected to and none fails: a
// discrete-event simulation with its own clock that starts what choose() (job/schedule/schedule.h)
// would start.  For `pergpu plan` and the expected end.
//
// Pure, and cut into slices: advance() handles a given number of events and no more, for callers
// that must not be held up.  Jobs that want more cores together than there are slow each other
// down, where it is known how many they want.  Instants are nanoseconds since the begin of the
// forecast.  Of equal instants the one that was predicted first comes first, and after each of them
// is started what then fits, as the coordinator does at each end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "ids.h"
#include "job/schedule/queue.h"
#include "job/schedule/schedule.h"

namespace pergpu {

/// No forecast looks further: 126 years.  Sums of nanoseconds end there.
inline constexpr std::int64_t kFarthest = 4'000'000'000'000'000'000;
/// REQUIRES: at_ns <= kFarthest.
inline std::int64_t later_by(std::int64_t at_ns, std::int64_t duration_ns) {
  return std::min(at_ns + std::min(duration_ns, kFarthest), kFarthest);
}

/// A job as far as a forecast is concerned.
struct ForecastJob {
  enum class Kind : std::uint8_t {
    Queued,
    Live,
    Held,  // never starts; what needs it never does
  };
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
  /// What a live one has.
  struct Hold {
    Demand demand = {};  // of its start
    LaneId lane = {};
    std::vector<std::string> gpus = {};  // UUIDs
    bool starting_up = false;
  };

  Kind kind = Kind::Queued;
  StepKey step = {};
  std::int32_t run = -1;
  Growths growths = {};
  std::int64_t order_ns = 0;  // as ReadyJob::expected_ns: what the scheduler knows
  /// What is expected, of a live one what is left; kForever: not known.  Where `cores` are known
  /// what it takes when it has them.
  std::int64_t duration_ns = 0;
  double cores = 0;  // that it wants; 0: not known
  std::int64_t not_before_ns = 0;
  std::vector<std::uint32_t> needs = {};     // places in ForecastJobs::jobs: have not ended
  std::vector<std::uint32_t> barriers = {};  // places in ForecastJobs::barriers
  std::optional<Hold> hold = std::nullopt;   // Live only
};

struct ForecastJobs {
  std::vector<ForecastJob> jobs = {};
  /// Jobs that must all have ended ("train:all"): once a step, not once for each job behind it.
  std::vector<std::vector<std::uint32_t>> barriers = {};
};

/// Jobs whose company is looked at; when more run at once the others are taken not to be slowed.
inline constexpr std::size_t kMostSharing = 128;

/// Where they run.
struct ForecastMachine {
  struct Step {
    Demand demand = {};
    std::int64_t ready_ns = 0;  // how long start-up takes
  };
  Capacity capacity = {};                 // nothing booked
  double cores = 0;                       // that all jobs share; 0: not known
  std::map<StepKey, Step> steps = {};     // of every queued job
  std::vector<std::string> leaving = {};  // GPUs that are gone when their live job ends
};

/// Who waits for whom, the other way round than in ForecastJob.
struct ForecastLinks {
  explicit ForecastLinks(const ForecastJobs& jobs);
  /// By job: how many needs and closed barriers it waits for.
  std::vector<std::uint32_t> waits;
  std::vector<std::vector<std::uint32_t>> followers;  // by job
  std::vector<std::vector<std::uint32_t>> member_of;  // by job: barriers
  std::vector<std::vector<std::uint32_t>> behind;     // by barrier
};

class Forecast {
 public:
  /// `jobs` and `links` outlive it.
  Forecast(const ForecastJobs& jobs, const ForecastLinks& links, ForecastMachine machine);

  /// Handles up to `events` events.  True: nothing is left to happen.
  bool advance(std::size_t events);

  struct Span {
    std::int64_t start_ns = -1;  // -1: it never starts; live ones started at 0
    std::int64_t end_ns = ForecastJob::kForever;
    LaneId lane = {};
    std::vector<std::string> gpus = {};
    int share = 0;  // thousandths of its only GPU; 0: all of each
    bool ends() const { return end_ns != ForecastJob::kForever; }
  };
  /// By job.  Whole when advance() has said true.
  const std::vector<Span>& spans() const { return spans_; }
  /// What keeps a job that never started from it, in the scheduler's words: "all 8 GPUs are in
  /// use", …; empty when it waits for other jobs.  REQUIRES: advance() has said true.
  std::string why_not(std::uint32_t job) const;

 private:
  enum class What : std::uint8_t { End, StartedUp, Due };
  struct Event {
    std::int64_t at_ns = 0;
    std::uint64_t number = 0;
    What what = What::End;
    std::uint32_t job = 0;
    std::uint32_t version = 0;                  // of an end that may move
    bool operator<(const Event& other) const {  // the earliest is on top
      return other.at_ns != at_ns ? other.at_ns < at_ns : other.number < number;
    }
  };

  /// One whose end moves with the company it has.
  struct Sharing {
    double left_ns = 0;  // when it was looked at
    std::int64_t looked_at_ns = 0;
    double speed = 0;
    std::uint32_t version = 0;
  };

  void begin();
  void start_what_fits();
  std::size_t share_cores();
  void set_speed(std::uint32_t job, Sharing& sharing, double speed);
  bool is_stale(const Event& event) const;
  void foresee(std::uint32_t job, const StepKey& step, bool starting_up);
  void push(std::int64_t at_ns, What what, std::uint32_t job, std::uint32_t version = 0);
  void let_go(std::uint32_t job);
  void end(std::uint32_t job);
  ReadyJob entry(std::uint32_t job) const;

  const ForecastJobs& jobs_;
  const ForecastLinks& links_;
  ForecastMachine machine_;
  ReadyQueue queue_;
  std::vector<std::uint32_t> waits_;        // by job
  std::vector<std::uint32_t> left_behind_;  // by barrier: members that have not ended
  std::vector<Span> spans_;
  std::vector<bool> starting_up_;
  std::map<std::uint32_t, Sharing> sharing_;  // jobs that run and whose `cores` are known
  bool shares_anew_ = false;                  // others run than when cores were shared
  std::priority_queue<Event> due_;
  std::uint64_t last_event_ = 0;
  std::int64_t now_ns_ = 0;
  bool begun_ = false;
};

}  // namespace pergpu
