// What ends an attempt before it ends by itself: its limits in time, and people.  Every time is
// computed from an instant in the journal, so a coordinator that was started again waits for the
// same moment.
#include <fmt/format.h>

#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/unheard.h"
#include "job/classify.h"
#include "job/text.h"

namespace pergpu {
namespace {

std::int64_t ns_of(std::chrono::milliseconds time) {
  return std::chrono::nanoseconds(time).count();
}

}  // namespace

/// `due` runs if the attempt has not ended by then.
Timers::Id Coordinator::attempt_timer(AttemptId id, std::int64_t boot_ns,
                                      std::function<void(LiveAttempt&)> due) {
  return parts_.timers->at(boot_ns, [this, id, due = std::move(due)] {
    const auto it = live_.find(id.job);
    if (it == live_.end() || it->second.id != id || it->second.has_ended()) return;
    due(it->second);
  });
}

void Coordinator::arm_timers(LiveAttempt& live) {
  const Job& job = *parts_.world->job(live.id.job);
  const StepSpec& step = parts_.world->step_of(job).spec;
  const std::int64_t started = job.last->started_at.boot_ns;
  if (step.timeout && live.timeout_timer == 0) {
    const std::int64_t limit = ns_of(*step.timeout);
    live.timeout_timer = attempt_timer(live.id, started + limit, [this, limit](LiveAttempt& late) {
      late.timeout_timer = 0;
      stop_attempt(*parts_.world->job(late.id.job), StopCause::Timeout,
                   "stopped after its timeout of " + duration_text(limit), StopHow::TermThenKill);
    });
  }
  if (step.timeout && step.signal && live.signal_timer == 0 && !live.signalled) {
    const std::int64_t at = started + ns_of(*step.timeout) - ns_of(step.signal->ahead);
    live.signal_timer = attempt_timer(live.id, at, [this](LiveAttempt& late) {
      late.signal_timer = 0;
      send_signal(late);
    });
  }
  if (live.starting_up && live.ready_timer == 0) {
    live.ready_timer = attempt_timer(live.id, started + ns_of(step.ready), [this](LiveAttempt& up) {
      up.ready_timer = 0;
      ready(up);
    });
  }
}

/// Once for each attempt; the keeper ensures that over our restarts.
void Coordinator::send_signal(LiveAttempt& live) {
  const std::optional<EarlySignal>& signal =
      parts_.world->step_of(*parts_.world->job(live.id.job)).spec.signal;
  if (!signal || std::exchange(live.signalled, true)) return;
  parts_.journal->then([engine = live.engine, id = live.id, number = signal->number] {
    engine->signal(id, number);
  });
}

void Coordinator::stop_attempt(const Job& job, StopCause cause, const std::string& reason,
                               StopHow how) {
  auto it = live_.find(job.id);
  if (it == live_.end()) {
    if (is_on_cluster(job)) stop_on_cluster(job, cause, reason, how);
    return;
  }
  LiveAttempt& live = it->second;
  const bool already = job.state == JobState::Stopping;
  const bool notice = job.state == JobState::Running && gives_notice(job, cause, how);
  const bool at_once = how == StopHow::Kill;
  const bool outranks = cause == StopCause::Cancel && job.last->stop != StopCause::Cancel;
  if (!already || outranks || (at_once && !job.last->stop_at_once)) {
    record(job.id, event::Stopping{cause, reason, at_once});
  }
  if (is_unheard(live)) {  // its keeper may never answer; if it does, Started sees the state
    return parts_.journal->then(
        [engine = live.engine, id = live.id, how] { engine->stop(id, how); });
  }
  if (!live.sent) return;  // launch() will see the state
  if (live.has_ended()) return;
  if (notice) return give_notice(live);
  // A second cancel does not cut short what the first one granted.
  const bool waits = live.term_timer != 0 && cause == StopCause::Cancel && !leaving_;
  if (waits && how == StopHow::TermThenKill) return;
  stop_now(live, how);
}

/// A limit that was passed needs no warning, the job had its time; a coordinator that ends with all
/// its jobs does not wait for them.
bool Coordinator::gives_notice(const Job& job, StopCause cause, StopHow how) const {
  return how == StopHow::TermThenKill && cause == StopCause::Cancel && !leaving_ &&
         parts_.world->step_of(job).spec.signal.has_value();
}

/// The signal now, TERM when its time is over.
void Coordinator::give_notice(LiveAttempt& live) {
  const Job& job = *parts_.world->job(live.id.job);
  const std::int64_t ahead = ns_of(parts_.world->step_of(job).spec.signal->ahead);
  send_signal(live);
  live.term_timer =
      attempt_timer(live.id, job.last->stop_at.boot_ns + ahead, [this](LiveAttempt& late) {
        late.term_timer = 0;
        stop_now(late, StopHow::TermThenKill);
      });
}

void Coordinator::stop_now(LiveAttempt& live, StopHow how) {
  if (live.term_timer != 0) parts_.timers->cancel(std::exchange(live.term_timer, 0));
  if (parts_.world->job(live.id.job)->last->placement.mps) {
    parts_.journal->then([this, id = live.id, how] {
      const auto it = live_.find(id.job);
      if (it != live_.end() && it->second.id == id) stop_mps_client(it->second, how);
    });
    return;
  }
  parts_.journal->then([engine = live.engine, id = live.id, how] { engine->stop(id, how); });
}

/// It was reported as running while it is to be stopped: it was asked to before it ran, or by the
/// coordinator before this one.
void Coordinator::resume_stop(LiveAttempt& live) {
  const Job& job = *parts_.world->job(live.id.job);
  const Attempt& attempt = *job.last;
  const StopHow how = attempt.stop_at_once ? StopHow::Kill : StopHow::TermThenKill;
  const bool had_begun = attempt.stop_at.boot_ns > attempt.started_at.boot_ns;
  if (had_begun && gives_notice(job, *attempt.stop, how)) return give_notice(live);
  stop_now(live, how);
}

}  // namespace pergpu
