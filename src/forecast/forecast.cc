// The loop is the coordinator's: an end makes room and lets others go, then choose() is asked until
// it has nothing more.
#include "forecast/forecast.h"

#include <algorithm>
#include <utility>

#include "job/schedule/cpu_share.h"

namespace pergpu {

ForecastLinks::ForecastLinks(const ForecastJobs& jobs)
    : waits(jobs.jobs.size()),
      followers(jobs.jobs.size()),
      member_of(jobs.jobs.size()),
      behind(jobs.barriers.size()) {
  for (std::uint32_t i = 0; i < jobs.jobs.size(); ++i) {
    const ForecastJob& job = jobs.jobs[i];
    if (job.kind == ForecastJob::Kind::Live) continue;  // whatever it needed, it runs
    for (const std::uint32_t need : job.needs) followers[need].push_back(i);
    waits[i] = static_cast<std::uint32_t>(job.needs.size());
    for (const std::uint32_t barrier : job.barriers) {
      if (jobs.barriers[barrier].empty()) continue;
      behind[barrier].push_back(i);
      ++waits[i];
    }
  }
  for (std::uint32_t b = 0; b < jobs.barriers.size(); ++b) {
    for (const std::uint32_t member : jobs.barriers[b]) member_of[member].push_back(b);
  }
}

Forecast::Forecast(const ForecastJobs& jobs, const ForecastLinks& links, ForecastMachine machine)
    : jobs_(jobs),
      links_(links),
      machine_(std::move(machine)),
      waits_(links.waits),
      spans_(jobs.jobs.size()),
      starting_up_(jobs.jobs.size(), false) {
  for (const auto& barrier : jobs.barriers) {
    left_behind_.push_back(static_cast<std::uint32_t>(barrier.size()));
  }
}

/// Its number is its place: the queue asks for no more than that it tells jobs apart.
ReadyJob Forecast::entry(std::uint32_t job) const {
  const ForecastJob& of = jobs_.jobs[job];
  return {.id = {static_cast<std::int64_t>(job) + 1},
          .step = of.step,
          .run = of.run,
          .expected_ns = of.order_ns,
          .growths = of.growths};
}

void Forecast::push(std::int64_t at_ns, What what, std::uint32_t job, std::uint32_t version) {
  due_.push(
      {.at_ns = at_ns, .number = ++last_event_, .what = what, .job = job, .version = version});
}

void Forecast::begin() {
  begun_ = true;
  for (const auto& [key, step] : machine_.steps) queue_.declare(key, step.demand);
  std::map<StepKey, std::int64_t> left;
  for (const ForecastJob& job : jobs_.jobs) left[job.step] += job.kind == ForecastJob::Kind::Queued;
  for (const auto& [step, jobs] : left) queue_.set_left(step, jobs);
  for (std::uint32_t i = 0; i < jobs_.jobs.size(); ++i) {
    const ForecastJob& job = jobs_.jobs[i];
    if (job.kind != ForecastJob::Kind::Live || !job.hold) continue;
    const ForecastJob::Hold& hold = *job.hold;
    const bool is_known = job.duration_ns != ForecastJob::kForever;
    machine_.capacity.occupy(job.step, hold.demand, hold.lane, hold.gpus, "in use",
                             is_known ? expected_end_ns(now_ns_, job.duration_ns) : 0);
    if (!hold.starting_up) machine_.capacity.started_up(job.step);
    spans_[i] = {.start_ns = 0, .lane = hold.lane, .gpus = hold.gpus, .share = hold.demand.share};
    foresee(i, job.step, hold.starting_up);
  }
  for (std::uint32_t i = 0; i < jobs_.jobs.size(); ++i) {
    if (jobs_.jobs[i].kind == ForecastJob::Kind::Queued && waits_[i] == 0) let_go(i);
  }
  start_what_fits();
}

/// Its needs are done.
void Forecast::let_go(std::uint32_t job) {
  if (jobs_.jobs[job].kind != ForecastJob::Kind::Queued) return;
  const std::int64_t not_before = std::min(jobs_.jobs[job].not_before_ns, kFarthest);
  if (not_before > now_ns_) return push(not_before, What::Due, job);
  queue_.insert(entry(job));
}

void Forecast::start_what_fits() {
  while (std::optional<Choice> choice = choose(queue_, machine_.capacity)) {
    const auto job = static_cast<std::uint32_t>(choice->job.id.value - 1);
    queue_.take(choice->job, choice->overtaken);
    const Demand& demand = *queue_.demand(choice->job.key());
    machine_.capacity.occupy(choice->job.step, demand, choice->lane, choice->gpus, "in use",
                             expected_end_ns(now_ns_, choice->job.expected_ns));
    spans_[job] = {.start_ns = now_ns_,
                   .lane = choice->lane,
                   .gpus = std::move(choice->gpus),
                   .share = demand.share};
    foresee(job, choice->job.step, true);
  }
}

/// The end, and before it that of its start-up, of one that runs from now on.
void Forecast::foresee(std::uint32_t job, const StepKey& step, bool starting_up) {
  starting_up_[job] = starting_up;
  const std::int64_t duration = jobs_.jobs[job].duration_ns;
  const bool is_known = duration != ForecastJob::kForever;
  const bool shares =
      is_known && jobs_.jobs[job].cores > 0 && machine_.cores > 0 && sharing_.size() < kMostSharing;
  if (shares) {
    sharing_[job] = {
        .left_ns = static_cast<double>(std::clamp<std::int64_t>(duration, 0, kFarthest)),
        .looked_at_ns = now_ns_};
    shares_anew_ = true;
  } else if (is_known) {
    spans_[job].end_ns = later_by(now_ns_, std::max<std::int64_t>(duration, 0));
    push(spans_[job].end_ns, What::End, job);
  }
  if (!starting_up) return;
  const auto declared = machine_.steps.find(step);
  const std::int64_t ready = declared == machine_.steps.end() ? 0 : declared->second.ready_ns;
  const std::int64_t at = later_by(now_ns_, ready);
  const bool ends_before = !shares && (ready >= duration || at >= spans_[job].end_ns);
  if (!ends_before) push(at, What::StartedUp, job);
}

/// Who runs has changed.  What it costs, in events.
std::size_t Forecast::share_cores() {
  shares_anew_ = false;
  std::vector<double> wanted;
  for (const auto& [job, sharing] : sharing_) wanted.push_back(jobs_.jobs[job].cores);
  const std::vector<double> all = speeds(wanted, machine_.cores);
  std::size_t i = 0;
  for (auto& [job, sharing] : sharing_) set_speed(job, sharing, all[i++]);
  return 1 + i / 4;
}

void Forecast::set_speed(std::uint32_t job, Sharing& sharing, double speed) {
  if (sharing.speed == speed) return;
  sharing.left_ns -= static_cast<double>(now_ns_ - sharing.looked_at_ns) * sharing.speed;
  sharing.left_ns = std::max(sharing.left_ns, 0.0);
  sharing.looked_at_ns = now_ns_;
  sharing.speed = speed;
  const double left = std::min(sharing.left_ns / speed, static_cast<double>(kFarthest));
  spans_[job].end_ns = later_by(now_ns_, static_cast<std::int64_t>(left));
  push(spans_[job].end_ns, What::End, job, ++sharing.version);
}

/// Its end has moved since it was predicted.
bool Forecast::is_stale(const Event& event) const {
  if (event.version == 0) return false;
  const auto sharing = sharing_.find(event.job);
  return sharing == sharing_.end() || sharing->second.version != event.version;
}

void Forecast::end(std::uint32_t job) {
  if (sharing_.erase(job) > 0) shares_anew_ = true;
  const ForecastJob& of = jobs_.jobs[job];
  const Span& span = spans_[job];
  const Demand& demand = of.hold ? of.hold->demand : *queue_.demand(ClassKey(of.step, of.growths));
  machine_.capacity.vacate(of.step, demand, span.lane, span.gpus, starting_up_[job]);
  starting_up_[job] = false;
  for (GpuLane& gpu : machine_.capacity.gpus) {
    const bool was_its = std::find(span.gpus.begin(), span.gpus.end(), gpu.uuid) != span.gpus.end();
    const std::vector<std::string>& leaving = machine_.leaving;
    if (was_its && std::find(leaving.begin(), leaving.end(), gpu.uuid) != leaving.end()) {
      gpu.busy = "is gone";
    }
  }
  for (const std::uint32_t follower : links_.followers[job]) {
    if (--waits_[follower] == 0) let_go(follower);
  }
  for (const std::uint32_t barrier : links_.member_of[job]) {
    if (--left_behind_[barrier] > 0) continue;
    for (const std::uint32_t follower : links_.behind[barrier]) {
      if (--waits_[follower] == 0) let_go(follower);
    }
  }
}

bool Forecast::advance(std::size_t events) {
  if (!begun_) begin();
  for (; events > 0; --events) {
    // Once for all that happens at one instant.
    if (shares_anew_ && (due_.empty() || due_.top().at_ns > now_ns_)) {
      events -= std::min(events - 1, share_cores());
    }
    if (due_.empty()) break;
    const Event next = due_.top();
    due_.pop();
    if (is_stale(next)) continue;
    now_ns_ = machine_.capacity.now_ns = next.at_ns;
    switch (next.what) {
      case What::End:
        end(next.job);
        break;
      case What::StartedUp:
        if (!starting_up_[next.job]) break;  // it has ended
        starting_up_[next.job] = false;
        machine_.capacity.started_up(jobs_.jobs[next.job].step);
        break;
      case What::Due:
        queue_.insert(entry(next.job));
        break;
    }
    start_what_fits();
  }
  return due_.empty() && !shares_anew_;
}

std::string Forecast::why_not(std::uint32_t job) const {
  const ForecastJob& of = jobs_.jobs[job];
  if (of.kind != ForecastJob::Kind::Queued || spans_[job].start_ns >= 0 || waits_[job] > 0)
    return "";
  return pergpu::why_not(queue_, ClassKey(of.step, of.growths), machine_.capacity);
}

}  // namespace pergpu
