// The rules of docs/jobs.md, written a second time (history.h).
#include "simulation/history.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "job/gpu_parts.h"
#include "job/not_started.h"
#include "job/retry.h"

namespace pergpu::simulation {
namespace {

constexpr int kMostMoves = 5;

[[noreturn]] void violated(JobId job, const std::string& what) {
  throw Violation(fmt::format("job {} in the journal: {}", job.value, what));
}

void require(bool holds, JobId job, const std::string& what) {
  if (!holds) violated(job, what);
}

/// The slot of a GPU may change from look to look, its UUID does not.
std::string name_of(const Placement& placement) {
  if (placement.share > 0) {
    return fmt::format("{} part {}", placement.gpus.front(), placement.lane.part);
  }
  if (!placement.gpus.empty()) return placement.gpus.front();
  return fmt::format("{} of sweep {}", to_string(placement.lane), placement.lane.sweep.value);
}

}  // namespace

void History::take(const Row& row, int allowed_retries) {
  mix(row.index());
  if (const auto* job = std::get_if<row::NewJob>(&row)) {
    require(!jobs_.contains(job->id), job->id, "it comes into being twice");
    require(job->id.value == static_cast<std::int64_t>(jobs_.size()) + 1, job->id,
            "its number is not the next one");
    jobs_[job->id] = {.sweep = job->sweep};
    mix(static_cast<std::uint64_t>(job->id.value));
  }
  if (const auto* e = std::get_if<row::Event>(&row)) event(*e, allowed_retries);
  if (const auto* archived = std::get_if<row::Archived>(&row)) {
    for (const auto& [id, job] : jobs_) {
      require(job.sweep != archived->sweep || job.state == State::Ended, id,
              "its sweep is archived before it has ended");
    }
  }
  if (const auto* fact = std::get_if<row::Meta>(&row); fact && fact->key.starts_with("gpu ")) {
    const std::string uuid = fact->key.substr(4);
    if (fact->value.find("\"words\"") != std::string::npos) {
      quarantined_.insert(uuid);
    } else {
      quarantined_.erase(uuid);
    }
  }
}

bool History::may_start(AttemptId id) const {
  const auto it = jobs_.find(id.job);
  return it != jobs_.end() && it->second.state == State::Live && it->second.attempts == id.number;
}

void History::event(const row::Event& row, int allowed_retries) {
  ++events_;
  if (shows_) show(row);
  mix(static_cast<std::uint64_t>(row.job.value) << 8 | row.event->index());
  mix(static_cast<std::uint64_t>(row.at.boot_ns));
  require(jobs_.contains(row.job), row.job, "an event of a job that was never submitted");
  Known& job = jobs_.at(row.job);
  const JobId id = row.job;
  std::visit(
      Overloaded{
          [&](const event::Submitted&) { violated(id, "submitted is implied"); },
          [&](const event::Requeued& again) {
            require(job.state == State::Held || job.state == State::Ended, id,
                    "requeued though it is queued or live");
            const bool is_let_go = again.keeps_retries && job.state == State::Held;
            job.state = State::Queued;
            if (is_let_go) return;
            job.retries = 0;
            job.moves = 0;
          },
          [&](const event::Held&) {
            require(job.state == State::Queued, id, "held though it is not queued");
            job.state = State::Held;
          },
          [&](const event::Starting& start) {
            require(job.state == State::Queued, id, "starting though it is not queued");
            require(start.attempt == job.attempts + 1, id, "an attempt's number is left out");
            job.lane = name_of(start.placement);
            for (const std::string& gpu : start.placement.gpus) {
              require(!quarantined_.contains(gpu), id,
                      "starts on " + gpu + ", which is in quarantine");
            }
            take_part(job, start.placement, id);
            const auto [lane, is_free] = lanes_.try_emplace(job.lane, AttemptId{id, start.attempt});
            require(
                is_free, id,
                "starts on " + job.lane + ", which attempt " + to_string(lane->second) + " has");
            job.state = State::Live;
            job.attempts = start.attempt;
            job.started = job.stopping = job.cancelled = job.too_long = false;
          },
          [&](const event::Started&) {
            require(job.state == State::Live && !job.started, id, "started twice or too late");
            job.started = true;
            job.started_wall_ns = row.at.wall_ns;
          },
          [&](const event::Stopping& stop) {
            require(job.state == State::Live, id, "stopping though nothing runs");
            job.stopping = true;
            job.cancelled = job.cancelled || stop.cause == StopCause::Cancel;
            job.too_long = stop.cause == StopCause::Timeout || stop.cause == StopCause::Idle ||
                           stop.cause == StopCause::Stall;
          },
          [&](const event::Ended& end) { ended(row, job, end, allowed_retries); },
          [&](const event::Cancelled&) {
            require(job.state == State::Queued || job.state == State::Held, id,
                    "cancelled though it is neither queued nor held");
            job.state = State::Ended;
          },
          [&](const event::Folded&) { violated(id, "folded by somebody else than the store"); },
          [&](const event::Skipped&) {
            require(job.state == State::Queued || job.state == State::Held, id,
                    "skipped though it is neither queued nor held");
            job.state = State::Ended;
          },
      },
      *row.event);
}

/// Of a GPU: all of it, or so many thousandths as long as all that are given are not more than it.
void History::take_part(Known& job, const Placement& placement, JobId id) {
  job.share = 0;
  if (placement.gpus.empty()) return;
  job.gpu = placement.gpus.front();
  job.share = placement.share > 0 ? placement.share : kWholeGpu;
  int& taken = taken_[job.gpu];
  taken += job.share;
  require(taken <= kWholeGpu, id,
          fmt::format("with it {} thousandths of {} are given", taken, job.gpu));
}

void History::show(const row::Event& row) const {
  std::string more;
  if (const auto* start = std::get_if<event::Starting>(&*row.event)) {
    more = fmt::format("attempt {} on {}", start->attempt, name_of(start->placement));
  } else if (const auto* stop = std::get_if<event::Stopping>(&*row.event)) {
    more = stop->reason;
  } else if (const auto* end = std::get_if<event::Ended>(&*row.event)) {
    more = fmt::format("{}: {}{}", to_string(end->outcome.cls), end->outcome.reason,
                       end->next.kind == Next::Kind::Again ? ", again" : "");
  }
  fmt::print("{:14.6f} job {} {} {}\n", static_cast<double>(row.at.boot_ns) / 1e9, row.job.value,
             event_name(row.event), more);
}

void History::ended(const row::Event& row, Known& job, const event::Ended& end,
                    int allowed_retries) {
  const JobId id = row.job;
  require(job.state == State::Live, id, "an attempt has a second outcome");
  ++outcomes_;
  const Outcome& outcome = end.outcome;
  const Truth& truth = truth_({id, job.attempts});
  mix(static_cast<std::uint64_t>(outcome.cls));

  if (outcome.exit_code) {
    require(truth.exit_code == outcome.exit_code, id,
            fmt::format("exit code {} is recorded, it was {}", *outcome.exit_code,
                        truth.exit_code ? fmt::to_string(*truth.exit_code) : "none"));
  }
  if (outcome.signal) {
    require(truth.signal == outcome.signal, id, "another signal is recorded than ended it");
  }
  const bool was_well = truth.status_known && truth.exit_code == 0 && !truth.output_missing;
  const bool was_told = truth.told_broken_ns >= 0 && truth.told_broken_ns <= row.at.boot_ns;
  switch (outcome.cls) {
    case OutcomeClass::Ok:
      require(was_well && !job.stopping, id, "ok is recorded, and it was not");
      break;
    case OutcomeClass::Lost:
      require(
          truth.keeper_killed || truth.machine_restarted || !truth.received || truth.not_started,
          id, "lost is recorded, though its keeper had its status");
      break;
    case OutcomeClass::Exit:
      require(truth.exit_code.value_or(0) != 0, id, "a failure is recorded, and it was none");
      require(!was_told, id, "it is charged with what its GPU had broken");
      break;
    case OutcomeClass::Hardware:
      require(job.too_long || (truth.status_known && !job.stopping && truth.exit_code != 0), id,
              "a fault of its GPU is recorded, and it had not failed");
      require(truth.gpu_was_ill, id, "a fault of its GPU is recorded, which was well all the time");
      break;
    case OutcomeClass::Signal:
    case OutcomeClass::Stall:
    case OutcomeClass::Timeout:
    case OutcomeClass::UserError:
      require(!was_told, id, "it is charged with what its GPU had broken");
      break;
    case OutcomeClass::Cancelled:
      require(job.cancelled, id, "cancelled is recorded, and nobody cancelled it");
      break;
    default:
      break;
  }
  const bool of_the_machine =
      outcome.cls == OutcomeClass::Lost || outcome.cls == OutcomeClass::Requeue ||
      outcome.cls == OutcomeClass::Driver || outcome.cls == OutcomeClass::Hardware ||
      outcome.cls == OutcomeClass::Neighbour || has_not_begun(outcome);
  lanes_.erase(job.lane);
  if (job.share > 0) taken_[job.gpu] -= job.share;
  switch (end.next.kind) {
    case Next::Kind::Final: {
      const bool is_done = end.next.state == JobState::Done;
      require(is_done == (outcome.cls == OutcomeClass::Ok), id, "done and ok do not agree");
      job.state = State::Ended;
      break;
    }
    case Next::Kind::Again:
      require(!job.cancelled, id, "it was cancelled and is queued again");
      require(outcome.cls != OutcomeClass::Ok && outcome.cls != OutcomeClass::UserError, id,
              "it is queued again, though it is done or a user's mistake");
      require(end.next.charged != of_the_machine, id, "the wrong side is charged for the retry");
      if (end.next.charged) {
        ++job.retries;
        require(job.retries <= allowed_retries, id,
                fmt::format("retry {} of {}", job.retries, allowed_retries));
      } else if (outcome.cls == OutcomeClass::Requeue && job.started &&
                 row.at.wall_ns - job.started_wall_ns >= kProgressNs) {
        job.moves = 0;  // it got on with its work
      } else {
        ++job.moves;
        require(job.moves <= kMostMoves, id, "moved more often than is allowed");
      }
      job.state = State::Queued;
      break;
  }
}

}  // namespace pergpu::simulation
