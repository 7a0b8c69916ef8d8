// What happens to a job is counted at once and marks its step; decide() then takes one step of the
// state's way at a time. Whatever it records marks the step again, until nothing changes any more.
#include "coordinator/circuit_breaker.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "forecast/learnt.h"
#include "job/failures.h"
#include "job/retry_wait.h"
#include "plural.h"
#include "state/earlier_success.h"
#include "state/readiness.h"
#include "state/standstill.h"

namespace pergpu {
namespace {

constexpr std::size_t kJobsOfATurn = 512;
constexpr std::size_t kMostCandidates = 512;
constexpr std::size_t kMostSignatures = 1000;  // of a step that fails in many ways at once
/// A probe that the machine fails so often in a row is one of many again.
constexpr int kMostMoves = 3;
/// How long a job whose folder is in use is passed over.
constexpr std::int64_t kFolderWait = 5 * kSecond;
/// A job that ran for this long, and twice as long as any that failed, is not one of them.
constexpr std::int64_t kSurvivalTime = 60 * kSecond;
/// After a first failure a free lane waits this long, at most, for what started at the same time.
constexpr std::int64_t kShortestPatience = kSecond;
constexpr std::int64_t kLongestPatience = 10 * kSecond;
/// As many times `breaker` jobs of a step start at once before one has run for kFirstLook.
constexpr int kSlowStartFactor = 2;
constexpr std::int64_t kFirstLook = kSecond;
constexpr std::int64_t kSlowStartTime = 2 * kSecond;  // with what it takes to start them

std::int64_t wait_after(int failed_probes) {
  if (failed_probes == 0) return 0;
  if (failed_probes > 9) return kLongestProbeWait;
  return std::min(kSecond << (failed_probes - 1), kLongestProbeWait);
}

std::int64_t survival_time(std::int64_t longest_failure_ns) {
  if (longest_failure_ns > std::numeric_limits<std::int64_t>::max() / 2) return longest_failure_ns;
  return std::max(kSurvivalTime, 2 * longest_failure_ns);
}

std::int64_t duration_of(const Attempt& attempt) {
  const bool is_known =
      attempt.started_at.boot_ns > 0 && attempt.ended_at.boot_ns > attempt.started_at.boot_ns;
  return is_known ? attempt.ended_at.boot_ns - attempt.started_at.boot_ns : 0;
}

}  // namespace

bool CircuitBreaker::has_failed_by_mistake(const Job& job) {
  return job.state == JobState::Failed && job.last && job.last->outcome &&
         job.last->outcome->cls == OutcomeClass::UserError;
}

CircuitBreaker::~CircuitBreaker() {
  for (const auto& [key, state] : states_) {
    if (state.timer != 0) parts_.timers->cancel(state.timer);
  }
}

const Step& CircuitBreaker::step_of(StepKey key) const {
  return parts_.world->sweep(key.sweep)->steps[static_cast<std::size_t>(key.step)];
}

std::vector<ParameterMark> CircuitBreaker::marks(const Job& job) const {
  const std::optional<RunSpec> run = parts_.world->parameters_of(job);
  return run ? marks_of(*run) : std::vector<ParameterMark>{};
}

// ---- what happens to jobs ---------------------------------------------------------------------

void CircuitBreaker::on_event(const Job& job, Change change) {
  const bool has_ended = change != Change::Other;
  if (states_.empty() && !has_ended && !is_held_by_breaker(job)) return;
  const StepKey key{job.sweep, job.step};
  const bool counts = parts_.world->is_current(job) && parts_.world->is_listed(job.id);
  if (counts && has_ended) on_ended(key, job, change);
  if (counts && is_held_by_breaker(job) && states_[key].reason.empty()) {
    states_[key].reason = job.reason;  // a node of a cluster holds it
  }
  // What it needs may decide whether a held job can be tried.
  for (auto it = states_.lower_bound({job.sweep, std::numeric_limits<std::int16_t>::min()});
       it != states_.end() && it->first.sweep == job.sweep; ++it) {
    const bool may_concern = it->first == key || has_ended || is_ended(job.state);
    if (may_concern) dirty_.insert(it->first);
  }
}

void CircuitBreaker::on_start(StepKey key) {
  if (!needs_slow_start(key)) return;
  State& state = states_[key];
  const std::int64_t now = parts_.clock->now().boot_ns;
  if (state.phase != Phase::Closed) return;
  if (state.slow_start_until_ns == 0) state.slow_start_until_ns = now + kSlowStartTime;
  if (now >= state.slow_start_until_ns) return;  // once
  set_pause(key, state, true);
  wake_at(key, state, state.slow_start_until_ns);
  dirty_.insert(key);
}

/// Nothing shows yet that the step works, and enough of it runs to find out.
bool CircuitBreaker::needs_slow_start(StepKey key) const {
  const Step& step = step_of(key);
  const int breaker = step.spec.breaker;
  if (breaker <= 0 ||
      static_cast<int>(step.live) + parts_.starting(key) < kSlowStartFactor * breaker) {
    return false;
  }
  if (has_succeeded(*parts_.world, key)) return false;
  const std::int64_t now = parts_.clock->now().boot_ns;
  bool has_run = false;
  parts_.world->live_jobs().for_each([&](JobId id) {
    const Job& job = *parts_.world->job(id);
    if (job.sweep != key.sweep || job.step != key.step) return;
    const std::int64_t since = job.last->started_at.boot_ns;
    has_run = has_run || (since > 0 && now - since >= kFirstLook);
  });
  return !has_run;
}

void CircuitBreaker::on_ended(StepKey key, const Job& job, Change change) {
  const Step& step = step_of(key);
  if (has_failed_by_mistake(job)) {
    const bool is_known = states_.contains(key);
    if (step.spec.breaker > 0 && (is_known || !has_succeeded(*parts_.world, key))) {
      count_failure(key, job);
    }
    return;
  }
  const auto found = states_.find(key);
  if (found == states_.end()) return;
  State& state = found->second;
  state.survivors.erase(job.id);
  if (job.state == JobState::Done) {
    state.has_success = true;
    count_success(state, job);
  }
  // A fault of the machine says nothing of the step: the probe is moved, and is one as before.
  const bool is_probe = job.id == state.probe;
  const bool stays = is_probe && change == Change::Moved && ++state.probe_moves < kMostMoves;
  if (is_probe && !stays) state.probe = {};
  if (job.state == JobState::Queued && job.id != state.probe) state.to_hold.push_back(job.id);
}

void CircuitBreaker::on_brought_back(const Job& job) {
  const auto it = states_.find({job.sweep, job.step});
  if (it == states_.end() || it->second.phase == Phase::Closed) return;
  it->second.to_hold.push_back(job.id);
  dirty_.insert(it->first);
}

void CircuitBreaker::on_added(const std::vector<JobId>& jobs) {
  for (const JobId id : jobs) on_brought_back(*parts_.world->job(id));
}

/// `counts`: towards a trip.
void CircuitBreaker::count_failure(StepKey key, const Job& job, bool counts) {
  State& state = states_[key];
  const Outcome& outcome = *job.last->outcome;
  std::string signature = signature_of(outcome);
  if (state.kinds.size() >= kMostSignatures && !state.kinds.contains(signature)) {
    std::erase_if(state.kinds, [](const auto& entry) { return !entry.second.is_tripped; });
  }
  Kind& kind = state.kinds[std::move(signature)];
  const std::set<ParameterMark> blamed = kind.pattern.blamed();
  if (counts) ++kind.recent;
  kind.pattern.add_failure(marks(job));
  kind.example = job.id;
  state.longest_ns = std::max(state.longest_ns, duration_of(*job.last));
  state.last_failure_ns = parts_.clock->now().boot_ns;
  state.survivors.erase(job.id);
  state.next.reset();
  state.releases = state.releases || kind.pattern.blamed() != blamed;
  const bool is_open = state.phase == Phase::Open;
  if (is_open && kind.recent >= step_of(key).spec.breaker) kind.is_tripped = true;
  if (job.id != state.probe) return;
  state.probe = {};
  if (!is_open || !kind.is_tripped) return;
  ++state.failed_probes;
  const Instant now = parts_.clock->now();
  const std::int64_t wait = wait_after(state.failed_probes);
  state.due = {.wall_ns = now.wall_ns + wait, .boot_ns = now.boot_ns + wait};
}

void CircuitBreaker::count_success(State& state, const Job& job) {
  const std::vector<ParameterMark> run = marks(job);
  for (auto& [signature, kind] : state.kinds) {
    const std::set<ParameterMark> blamed = kind.pattern.blamed();
    kind.pattern.add_success(run);
    if (kind.pattern.blamed() == blamed) continue;
    state.next.reset();
    state.releases = true;
  }
}

void CircuitBreaker::reset(StepKey key) {
  note_reset(key);
  const auto it = states_.find(key);
  if (it == states_.end()) return;
  State& state = it->second;
  if (state.phase == Phase::Closed) return end(key);
  state.releases = state.releases || state.phase == Phase::Last;  // it may have been cut short
  if (state.scan != 0) --scans_;
  state.scan = 0;
  set_pause(key, state, false);
  if (state.phase == Phase::Holding) state.phase = Phase::Open;
  for (auto& [signature, kind] : state.kinds) kind.recent = 0;
  state.to_hold.clear();
  state.failed_probes = 0;
  state.due = {};
  dirty_.insert(key);
}

void CircuitBreaker::reset(SweepId sweep) {
  const std::size_t steps = parts_.world->sweep(sweep)->steps.size();
  for (std::size_t slot = 0; slot < steps; ++slot) {
    reset(StepKey{sweep, static_cast<std::int16_t>(slot)});
  }
}

void CircuitBreaker::forget(SweepId sweep) {
  for (auto it = states_.lower_bound({sweep, std::numeric_limits<std::int16_t>::min()});
       it != states_.end() && it->first.sweep == sweep;) {
    end((it++)->first);
  }
}

// ---- once a turn ------------------------------------------------------------------------------

void CircuitBreaker::settle() {
  std::set<StepKey> frozen;
  while (!dirty_.empty()) {
    const StepKey key = *dirty_.begin();
    dirty_.erase(dirty_.begin());
    if (parts_.is_frozen(key.sweep)) {
      frozen.insert(key);
      continue;
    }
    const auto it = states_.find(key);
    if (it == states_.end() || it->second.scan != 0) continue;  // a scan marks it when it is over
    decide(key, it->second);
    if (const auto left = states_.find(key); left != states_.end()) note(key, left->second);
  }
  dirty_ = std::move(frozen);
}

void CircuitBreaker::decide(StepKey key, State& state) {
  if (state.phase == Phase::Closed) return decide_closed(key, state);
  if (state.phase == Phase::Holding) state.phase = Phase::Open;  // all are held now
  if (!hold_some(key, state)) return;
  check_probe(key, state);
  std::int64_t wake_ns = 0;
  watch_live(key, state, wake_ns);
  if (state.phase == Phase::Last && trip(key, state)) return;
  if (state.phase == Phase::Open && state.has_success) {
    state.phase = Phase::Last;
    state.failed_probes = 0;
    state.due = {};
    for (auto& [signature, kind] : state.kinds) kind.recent = 0;
    state.releases = true;
  }
  if (state.phase == Phase::Last && std::exchange(state.releases, false)) {
    return release_others(key, state);
  }
  try_next(key, state, wake_ns);
}

/// Of what waits for that.  False: the rest follows in the next turn, and nothing starts until
/// then.
bool CircuitBreaker::hold_some(StepKey key, State& state) {
  for (std::size_t held = 0; held < kJobsOfATurn && !state.to_hold.empty(); ++held) {
    const JobId id = state.to_hold.back();
    state.to_hold.pop_back();
    const Job& job = *parts_.world->job(id);
    if (job.state != JobState::Queued || id == state.probe) continue;
    const bool may_go = state.phase == Phase::Last && !is_suspect(state, marks(job));
    if (may_go) continue;
    parts_.record(id, event::Held{state.reason, HoldCause::Breaker});
    parts_.refresh(id);
  }
  const bool is_done = state.to_hold.empty();
  set_pause(key, state, !is_done);
  if (!is_done) wake_at(key, state, parts_.clock->now().boot_ns);
  return is_done;
}

void CircuitBreaker::check_probe(StepKey key, State& state) {
  const JobId id = state.probe;
  if (!id) return;
  const Job* job = parts_.world->job(id);
  const bool is_one = job != nullptr && parts_.world->is_current(*job) &&
                      (job->state == JobState::Queued || is_live(job->state));
  if (!is_one) {  // a user has held or cancelled it
    state.probe = {};
  } else if (job->state == JobState::Queued && parts_.waits_for_folder(id)) {
    state.probe = {};
    parts_.record(id, event::Held{state.reason, HoldCause::Breaker});
    parts_.refresh(id);
    dirty_.insert(key);
  }
}

/// Not tripped: does it, or do the first jobs, or others that started at the same time, have to be
/// waited for?
void CircuitBreaker::decide_closed(StepKey key, State& state) {
  const Step& step = step_of(key);
  const bool works = has_succeeded(*parts_.world, key);
  if (!state.reason.empty() && step.held_by_breaker > 0) {  // on a node of a cluster
    if (!works) return hold_rest(key, state);
    state.phase = Phase::Open;
    state.has_success = true;
    state.since_wall_ns = parts_.clock->now().wall_ns;
    dirty_.insert(key);
    return;
  }
  if (works || parts_.world->sweep(key.sweep)->open == 0) return end(key);
  if (trip(key, state)) return;
  state.to_hold.clear();
  int most = 0;
  for (const auto& [signature, kind] : state.kinds) most = std::max(most, kind.recent);
  const std::int64_t now = parts_.clock->now().boot_ns;
  std::int64_t until = 0;
  if (needs_slow_start(key)) {
    if (state.slow_start_until_ns == 0) state.slow_start_until_ns = now + kSlowStartTime;
    until = state.slow_start_until_ns;
  }
  if (most > 0 && step.live > 0 && most + step.live >= step.spec.breaker) {
    const std::int64_t patience = std::clamp(2 * std::min(state.longest_ns, kLongestPatience),
                                             kShortestPatience, kLongestPatience);
    until = std::max(until, state.last_failure_ns + patience);
  }
  const bool waits = now < until;
  if (!waits && most == 0 && state.slow_start_until_ns == 0) return end(key);
  set_pause(key, state, waits);
  if (waits) wake_at(key, state, until);
}

/// True: enough jobs have failed in one way, and none has succeeded.
bool CircuitBreaker::trip(StepKey key, State& state) {
  const Step& step = step_of(key);
  if (step.spec.breaker <= 0 || has_succeeded(*parts_.world, key)) return false;
  const auto tripped = std::find_if(state.kinds.begin(), state.kinds.end(), [&](const auto& entry) {
    return entry.second.recent >= step.spec.breaker;
  });
  if (tripped == state.kinds.end()) return false;
  tripped->second.is_tripped = true;
  const Job* example = parts_.world->job(tripped->second.example);
  const bool is_known = example != nullptr && example->last && example->last->outcome;
  const std::size_t failed = tripped->second.pattern.failures();
  state.reason = fmt::format(
      "held by the breaker: {} of step {} failed the same way before any "
      "succeeded ({})",
      counted(failed, "job"), step.spec.name,
      is_known ? example->last->outcome->reason : tripped->first);
  hold_rest(key, state);
  return true;
}

void CircuitBreaker::hold_rest(StepKey key, State& state) {
  state.phase = Phase::Holding;
  state.has_success = false;
  state.survivors.clear();
  state.next.reset();
  if (state.since_wall_ns == 0) state.since_wall_ns = parts_.clock->now().wall_ns;
  for (auto& [signature, kind] : state.kinds) {
    kind.is_tripped = kind.is_tripped || kind.recent >= step_of(key).spec.breaker;
    kind.recent = 0;
  }
  note(key, state);
  scan_step(key, [this, key, reason = state.reason](const Job& other) {
    const auto it = states_.find(key);
    const bool is_probe = it != states_.end() && it->second.probe == other.id;
    if (other.state != JobState::Queued || is_probe) return;
    parts_.record(other.id, event::Held{reason, HoldCause::Breaker});
    parts_.refresh(other.id);
  });
}

/// All but those that have what the failed ones have in common.
void CircuitBreaker::release_others(StepKey key, State& state) {
  state.next.reset();
  scan_step(key, [this, key](const Job& other) {
    const auto it = states_.find(key);
    if (it == states_.end() || !is_held_by_breaker(other)) return;
    if (is_suspect(it->second, marks(other))) return;
    parts_.record(other.id, event::Requeued{"other jobs of its step succeeded", true});
    parts_.refresh(other.id);
  });
}

bool CircuitBreaker::is_suspect(const State& state, const std::vector<ParameterMark>& run) const {
  return std::any_of(state.kinds.begin(), state.kinds.end(), [&](const auto& entry) {
    return entry.second.is_tripped && entry.second.pattern.is_suspect(run);
  });
}

/// What runs for longer than any that failed shows that the step works, long before it is done.
/// `wake_ns`: when the next one will have; 0: none runs.
void CircuitBreaker::watch_live(StepKey key, State& state, std::int64_t& wake_ns) {
  const std::int64_t now = parts_.clock->now().boot_ns;
  const std::int64_t time = survival_time(state.longest_ns);
  if (step_of(key).live == 0) return;
  parts_.world->live_jobs().for_each([&](JobId id) {
    const Job& job = *parts_.world->job(id);
    const bool is_one = job.sweep == key.sweep && job.step == key.step &&
                        job.state == JobState::Running && job.last->started_at.boot_ns > 0;
    if (!is_one || state.survivors.contains(id)) return;
    const std::int64_t since = std::min(job.last->started_at.boot_ns, now);
    if (now - since < time) {
      wake_ns = wake_ns == 0 ? since + time : std::min(wake_ns, since + time);
      return;
    }
    state.survivors.insert(id);
    if (id == state.probe) state.probe = {};
    state.has_success = true;
    count_success(state, job);
  });
}

/// Starts the next probe, or sees to it that this is looked at again.
void CircuitBreaker::try_next(StepKey key, State& state, std::int64_t wake_ns) {
  if (state.next) {
    const Job* job = parts_.world->job(state.next->job);
    if (job == nullptr || !is_held_by_breaker(*job)) state.next.reset();
  }
  if (!state.next && !choose(key, state)) return end(key);
  const std::int64_t now = parts_.clock->now().boot_ns;
  const bool must_wait = state.probe || !state.next || !parts_.probes ||
                         (state.phase == Phase::Last && state.next->is_alike && others_go_on(key));
  if (!must_wait && now >= state.due.boot_ns) {
    state.probe = std::exchange(state.next, std::nullopt)->job;
    state.probe_moves = 0;
    parts_.record(state.probe, event::Requeued{"tried by the circuit breaker", true});
    parts_.refresh(state.probe);
    return;  // that marks the step
  }
  if (!must_wait) wake_ns = wake_ns == 0 ? state.due.boot_ns : std::min(wake_ns, state.due.boot_ns);
  if (!state.next && state.choose_at_ns != 0) {
    wake_ns = wake_ns == 0 ? state.choose_at_ns : std::min(wake_ns, state.choose_at_ns);
  }
  if (wake_ns != 0) wake_at(key, state, wake_ns);
}

/// The held job that differs most from those that failed, of a sample where there are many; what
/// can't start yet is none. False: nothing is held any more.
bool CircuitBreaker::choose(StepKey key, State& state) {
  const std::vector<JobId>& jobs = step_of(key).current;
  const std::size_t stride = std::max<std::size_t>(1, jobs.size() / kMostCandidates);
  const Instant now = parts_.clock->now();
  bool holds = false;
  std::vector<JobId> doomed;
  state.choose_at_ns = 0;
  const auto passes_over = [&](std::int64_t wait_ns) {
    const std::int64_t at = now.boot_ns + wait_ns;
    state.choose_at_ns = state.choose_at_ns == 0 ? at : std::min(state.choose_at_ns, at);
  };
  const std::size_t first = state.choices++;
  for (std::size_t offset = 0; offset < stride && !state.next; ++offset) {
    for (std::size_t i = (first + offset) % stride; i < jobs.size(); i += stride) {
      const Job* job = parts_.world->job(jobs[i]);
      if (job == nullptr || !is_held_by_breaker(*job)) continue;
      holds = true;
      const Readiness readiness = pergpu::readiness(*parts_.world, *job).readiness;
      if (readiness == Readiness::Doomed) doomed.push_back(job->id);
      if (readiness != Readiness::Ready) continue;
      if (const std::int64_t wait = retry_wait_ns(*job, now, now.boot_ns); wait > 0) {
        passes_over(wait);
        continue;
      }
      if (parts_.waits_for_folder(job->id)) {
        passes_over(kFolderWait);
        continue;
      }
      const std::vector<ParameterMark> run = marks(*job);
      // Of two that are equally far, the one that has not run yet.
      Candidate candidate{.job = job->id, .likeness = job->attempts > 0 ? 1u : 0u};
      for (const auto& [signature, kind] : state.kinds) {
        if (!kind.is_tripped) continue;
        candidate.shared += kind.pattern.shared(run);
        candidate.likeness += kind.pattern.likeness(run);
        candidate.is_alike = candidate.is_alike || kind.pattern.is_alike(run);
      }
      const auto rank = [](const Candidate& one) {
        return std::tuple(one.is_alike, one.shared, one.likeness, one.job);
      };
      if (!state.next || rank(candidate) < rank(*state.next)) state.next = candidate;
    }
  }
  for (const JobId id : doomed) {  // refresh() skips it
    parts_.record(id, event::Requeued{"a job it needs has failed", true});
    parts_.refresh(id);
  }
  return holds;
}

/// Other jobs of the step run, or will without anybody's help.
bool CircuitBreaker::others_go_on(StepKey key) const {
  const Step& step = step_of(key);
  if (step.live > 0) return true;
  if (queued_of(step) == 0) return false;
  return std::any_of(step.current.begin(), step.current.end(), [this](JobId id) {
    const Job* job = parts_.world->job(id);
    return job != nullptr && job->state == JobState::Queued && !waits_for_held(*parts_.world, *job);
  });
}

/// Nothing is held, nothing counts.
void CircuitBreaker::end(StepKey key) {
  const auto it = states_.find(key);
  State& state = it->second;
  if (state.scan != 0) --scans_;
  if (state.timer != 0) parts_.timers->cancel(state.timer);
  set_pause(key, state, false);
  state.phase = Phase::Closed;
  note(key, state);
  states_.erase(it);
}

bool CircuitBreaker::idle() const {
  if (scans_ > 0) return false;
  return !parts_.probes || std::none_of(states_.begin(), states_.end(), [](const auto& entry) {
    return entry.second.phase != Phase::Closed;
  });
}

void CircuitBreaker::wake_at(StepKey key, State& state, std::int64_t boot_ns) {
  if (state.timer != 0 && state.timer_ns == boot_ns) return;
  if (state.timer != 0) parts_.timers->cancel(state.timer);
  state.timer_ns = boot_ns;
  state.timer = parts_.timers->at(boot_ns, [this, key] {
    const auto it = states_.find(key);
    if (it == states_.end()) return;
    it->second.timer = 0;
    dirty_.insert(key);
  });
}

void CircuitBreaker::set_pause(StepKey key, State& state, bool pauses) {
  if (std::exchange(state.pauses, pauses) != pauses) parts_.pause(key, pauses);
}

// ---- scans ------------------------------------------------------------------------------------

/// `visit` for the step's current jobs: some now, the others in the next turns.  A later scan of
/// the same step takes the place of an earlier one.
void CircuitBreaker::scan_step(StepKey key, Visit visit) {
  State& state = states_[key];
  if (state.scan != 0) --scans_;
  state.scan = ++last_scan_;
  ++scans_;
  set_pause(key, state, true);
  continue_scan(key, state.scan, 0, std::move(visit));
}

void CircuitBreaker::continue_scan(StepKey key, std::uint64_t scan, std::size_t from, Visit visit) {
  const auto it = states_.find(key);
  if (it == states_.end() || it->second.scan != scan) return;
  const bool must_wait = parts_.is_frozen(key.sweep);
  const std::vector<JobId>& jobs = step_of(key).current;
  const std::size_t end = must_wait ? from : std::min(from + kJobsOfATurn, jobs.size());
  for (std::size_t i = from; i < end; ++i) {
    if (const Job* job = parts_.world->job(jobs[i])) visit(*job);
  }
  if (!must_wait && end == jobs.size()) {
    it->second.scan = 0;
    --scans_;
    set_pause(key, it->second, false);
    dirty_.insert(key);
    return;
  }
  const std::int64_t now = parts_.clock->now().boot_ns;
  parts_.timers->at(must_wait ? now + kMillisecond : now,
                    [this, key, scan, end, visit = std::move(visit)]() mutable {
                      continue_scan(key, scan, end, std::move(visit));
                    });
}

}  // namespace pergpu
