// The rows of the handover become those of its own small world: the jobs of this task, under
// the numbers that they have, and of their sweep what they need.
#include "daemon/task.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "forecast/telemetry.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/written_file.h"
#include "slurm/array_call.h"
#include "slurm/slurm_client.h"
#include "store/end_request.h"
#include "store/present.h"
#include "store/result_file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongestTaskFile = 512u << 20;
constexpr std::int64_t kTaskPatience = 60 * kSecond;
constexpr int kPauseMs = 500;
constexpr std::int64_t kTaskPresentPause = 10 * kSecond;
/// Between looks for requests: a task is signaled as a rule, a step never.
constexpr std::int64_t kTaskLookPause = 10 * kSecond;
constexpr std::int64_t kStepLookPause = kSecond;

/// nullopt: nothing final is there (yet); another machine may have written it just now.
std::optional<bool> was_done(const store::HandedNeed& need) {
  const Result<std::string> text =
      os::read_written(need.out + "/attempt.json", os::Writer::Keeper, 16u << 20);
  if (!text) return std::nullopt;
  const nlohmann::json record = nlohmann::json::parse(*text, nullptr, false);
  if (!record.is_object() || record.value("job", std::int64_t{0}) != need.job.value) {
    return std::nullopt;
  }
  const std::string state = record.value("state", std::string());
  if (state == "running" || state.empty()) return std::nullopt;
  return state == "done";
}

/// Whether all of them are done; waits for what is not known yet until `deadline_ns`.  nullopt:
/// `cares` has become false.
std::optional<bool> are_done(const std::vector<store::HandedNeed>& needs, std::int64_t deadline_ns,
                             const std::function<bool()>& cares) {
  for (const store::HandedNeed& need : needs) {
    for (;;) {
      const std::optional<bool> done = was_done(need);
      if (done && !*done) return false;
      if (done) break;
      if (os::boot_now_ns() > deadline_ns) return false;
      if (!cares()) return std::nullopt;
      ::poll(nullptr, 0, kPauseMs);
    }
  }
  return true;
}

/// What the task is asked to end, as far as it can be seen from here.
std::vector<store::EndRequest> asked(const TaskOptions& options) {
  const Result<std::string> text =
      os::read_written(options.folder + "/" + store::end_request_name(options.task),
                       os::Writer::Keeper, kLongestTaskFile);
  if (!text) return {};
  Result<store::EndRequests> requests = store::end_requests_of(*text);
  return requests ? std::move(requests->jobs) : std::vector<store::EndRequest>();
}

/// Each of them once: a job must not be sent TERM again as often as the file is read.
void end_asked(Coordinator& core, const std::vector<store::EndRequest>& requests) {
  for (const store::EndRequest& request : requests) {
    const Job* job = core.world().job(request.job);
    if (job == nullptr || is_ended(job->state)) continue;
    if (request.unless_begun && is_live(job->state)) continue;
    const bool ends = job->state == JobState::Stopping && job->last->stop == StopCause::Cancel;
    if (ends && (!request.kill || job->last->stop_at_once)) continue;
    core.cancel({request.job}, request.kill, request.words);
  }
}

/// It is not for another machine, and its lanes are those of this allocation.
row::Sweep sweep_here(row::Sweep sweep, SubmitRecord submit, std::int32_t lanes) {
  submit.context.engine = "local";
  submit.context.shell.reset();  // priorities, cores and hard limits are the cluster's
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  submit.context.devices = visible == nullptr || *visible == '\0' ? "" : visible;
  submit.context.lanes = submit.context.devices.empty() ? lanes : 0;
  sweep.submit = to_text(submit);
  return sweep;
}

}  // namespace

Result<Task> Task::read(TaskOptions options) {
  Task out;
  out.options_ = std::move(options);
  if (os::exists(out.options_.folder + "/" + kWithdrawn)) {
    out.closed_ = true;
    return out;
  }
  const std::string path = out.options_.folder + "/" + store::kHandoverName;
  // It has the commands: another user's would run as this one.
  Result<std::string> text = os::read_written(path, os::Writer::User, kLongestTaskFile);
  if (!text) return std::move(text).error();
  Result<store::Handover> handover = store::handover_of(*text);
  if (!handover) return Error{ErrorKind::Corrupt, 0, path + ", " + handover.error().message};
  out.handover_ = *std::move(handover);
  std::erase_if(out.handover_.jobs,
                [&](const store::HandedJob& job) { return job.task != out.options_.task; });
  if (out.handover_.jobs.empty()) {
    return Error{ErrorKind::NotFound, 0, fmt::format("{} has no task {}", path, out.options_.task)};
  }

  out.began_ns_ = os::boot_now_ns();
  out.life_ = out.options_.restarts + 1;
  Result<std::vector<std::string>> names = os::list_dir(out.options_.folder);
  if (!names) return std::move(names).error();
  for (const store::RecordName& name : store::lives_in(*names)) {
    if (name.task != out.options_.task) continue;
    Result<store::Life> life = store::read_life(out.options_.folder, name);
    if (!life && life.error().kind != ErrorKind::NotFound) return std::move(life).error();
    out.life_ = std::max(out.life_, name.life + 1);
    if (!life) continue;
    std::move(life->file.records.begin(), life->file.records.end(), std::back_inserter(out.told_));
    out.closed_ = out.closed_ || life->file.closed;
  }
  if (out.closed_) return out;
  const auto began_before = [&](JobId id) {
    return std::any_of(out.told_.begin(), out.told_.end(),
                       [&](const store::Record& told) { return told.attempt.job == id; });
  };
  const std::int64_t deadline = os::boot_now_ns() + kTaskPatience;
  std::optional<bool> is_open;  // the barrier
  const auto may_run = [&](const store::HandedJob& job) {
    const auto is_to_run = [&] {
      const std::vector<store::EndRequest> requests = asked(out.options_);
      return std::none_of(requests.begin(), requests.end(), [&](const store::EndRequest& request) {
        return request.job == job.job.id;
      });
    };
    if (!is_open) is_open = are_done(out.handover_.needs, deadline, is_to_run);
    return is_open.value_or(false) && are_done(job.needs, deadline, is_to_run).value_or(false);
  };
  std::erase_if(out.handover_.jobs, [&](const store::HandedJob& job) {
    return !began_before(job.job.id) && !may_run(job);
  });
  return out;
}

Result<std::unique_ptr<RecordStore>> Task::open_store() {
  Batch rows;
  Result<SubmitRecord> submit = submit_record_of(handover_.sweep.submit);
  if (!submit) return std::move(submit).error();
  mode_ = handover_mode(submit->context.umask);
  rows.emplace_back(sweep_here(handover_.sweep, *std::move(submit), handover_.lanes));
  std::int32_t next = 0;
  for (const row::Run& run : handover_.runs) {
    // Runs that are none of its business only keep their places.
    for (; next < run.index; ++next) rows.emplace_back(row::Run{run.sweep, next, "", "{}", ""});
    rows.emplace_back(run);
    next = run.index + 1;
  }
  for (const store::HandedJob& job : handover_.jobs) {
    rows.emplace_back(job.job);
    rows.emplace_back(row::Event{.job = job.job.id, .event = job.state, .at = job.job.at});
  }
  return RecordStore::open({.folder = options_.folder,
                            .task = options_.task,
                            .life = life_,
                            .mode = mode_,
                            .rows = std::move(rows),
                            .told = std::move(told_)});
}

bool Task::should_leave(const Coordinator& core) const {
  if (ended_ || winds_down_) return core.live_count() == 0;
  return core.idle();
}

void Task::begin(Coordinator& core, os::Loop& loop, Errands& errands) const {
  end_asked(core, asked(options_));
  look(core, loop, errands);
}

/// After a pause, and again and again.
void Task::look(Coordinator& core, os::Loop& loop, Errands& errands) const {
  const std::int64_t pause = options_.id.empty() ? kStepLookPause : kTaskLookPause;
  loop.at(os::boot_now_ns() + pause, [this, &core, &loop, &errands] {
    errands.run([this, &core, &loop, &errands]() -> std::function<void()> {
      return [this, &core, &loop, &errands, requests = asked(options_)] {
        end_asked(core, requests);
        look(core, loop, errands);
      };
    });
  });
}

void Task::tell_present(Coordinator& core, os::Loop& loop, Errands& errands) const {
  std::vector<store::Present> present;
  for (const auto& [id, live] : core.live()) {
    store::Present one{.attempt = live.id,
                       .at_wall_ns = core.now().wall_ns,
                       .status = live.status,
                       .progress = live.progress};
    const Telemetry* telemetry = core.telemetry();
    const Rollup* rollup = telemetry == nullptr ? nullptr : telemetry->of(live.id);
    if (rollup != nullptr && rollup->last()) one.reading = *rollup->last();
    present.push_back(std::move(one));
  }
  errands.run([folder = options_.folder, name = store::present_name(options_.task),
               text = to_text(present), mode = mode_] {
    (void)store::write_result_file(folder, name, text, mode, false);
    return [] {};
  });
  loop.at(os::boot_now_ns() + kTaskPresentPause,
          [this, &core, &loop, &errands] { tell_present(core, loop, errands); });
}

void Task::on_signal(int signal, Coordinator& core, RecordStore& store) {
  if (signal == SIGUSR1) end_asked(core, asked(options_));
  if (signal == SIGTERM && !ended_) {
    ended_ = true;
    store.seal();
    core.start_nothing_more();
    core.stop_all(StopCause::Cancel, "the cluster ends the allocation");
  }
  if (signal == SIGUSR2 && !time_is_up_ && !ended_) {
    time_is_up_ = true;
    winds_down_ = true;
    core.start_nothing_more();
    core.stop_all(StopCause::Timeout, "stopped at the time limit of its allocation");
  }
}

void Task::mind_time(Coordinator& core) {
  const std::int64_t last_start_ns = handover_.last_start_ms * kMillisecond;
  const std::int64_t now_ns = core.now().boot_ns;
  if (last_start_ns == 0 || winds_down_ || ended_ || now_ns < began_ns_ + last_start_ns) return;
  // Each life makes at least one attempt, however short the time that a person has asked for.
  const bool has_ended_one =
      std::any_of(handover_.jobs.begin(), handover_.jobs.end(), [&](const store::HandedJob& one) {
        const Job* job = core.world().job(one.job.id);
        return job != nullptr && job->last && job->last->ended_at.boot_ns > began_ns_;
      });
  if (!has_ended_one || !has_queued(core.world())) return;
  winds_down_ = true;  // what runs has the time that it was given
  core.start_nothing_more();
}

bool Task::has_queued(const World& world) const {
  return std::any_of(handover_.jobs.begin(), handover_.jobs.end(),
                     [&](const store::HandedJob& one) {
                       const Job* job = world.job(one.job.id);
                       return job != nullptr && job->state == JobState::Queued;
                     });
}

Result<void> Task::finish(RecordStore& store, const World& world) const {
  const bool goes_on = !ended_ && winds_down_ && has_queued(world);
  Result<void> told = store.finish(!ended_ && !goes_on);
  if (!told || !goes_on) return told;
  if (!slurm::Client().requeue(options_.id)) {
    return store.finish(true);  // what is queued is handed over again
  }
  // Slurm ends it now; a task that had ended by itself would not be put back.
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  const timespec patience{.tv_sec = 60, .tv_nsec = 0};
  ::sigtimedwait(&term, nullptr, &patience);
  return {};
}

int Task::exit_code(const World& world) const {
  if (handover_.jobs_each > 1) return 0;
  for (const store::HandedJob& handed : handover_.jobs) {
    const Job* job = world.job(handed.job.id);
    if (job == nullptr || job->state != JobState::Done) return 1;
  }
  return handover_.jobs.empty() ? 1 : 0;
}

}  // namespace pergpu
