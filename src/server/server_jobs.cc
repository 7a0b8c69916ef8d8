// What is asked of jobs: shown, waited for, changed, submitted.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/request.h"
#include "coordinator/describe.h"
#include "coordinator/describe_usage.h"
#include "server/server.h"
#include "server/server_client.h"
#include "state/earlier_runs.h"
#include "state/selector.h"
#include "state/selector_words.h"

namespace pergpu {

using nlohmann::json;

namespace {

/// Both of its names, so that the number of a run is not taken for that of a job.
json named(const World& world, std::int64_t job) {
  return {{"id", job}, {"name", selector_of(world, *world.job(JobId{job}))}};
}

json change_answer(const World& world, const Coordinator::Changed& changed) {
  constexpr std::size_t kMostNamed = 10;
  json first = json::array();
  for (const std::int64_t job : changed.changed) {
    if (first.size() < kMostNamed) first.push_back(named(world, job));
  }
  json left = json::array();
  std::map<std::pair<JobState, bool>, std::size_t> of_state;  // a client shows them by state
  for (const std::int64_t job : changed.unchanged) {
    const Job& as_it_is = *world.job(JobId{job});
    const bool is_current = world.is_current(as_it_is);
    json one = {{"id", job}, {"state", to_string(as_it_is.state)}, {"replaced", !is_current}};
    if (++of_state[{as_it_is.state, is_current}] <= kMostNamed)
      one["name"] = selector_of(world, as_it_is);
    left.push_back(std::move(one));
  }
  json settings = json::array();
  for (const Coordinator::Setting& one : changed.settings) {
    settings.push_back({{"of", one.of}, {"key", one.key}, {"from", one.from}, {"to", one.to}});
  }
  return {{"schema", 1},
          {"changed", changed.changed},
          {"unchanged", changed.unchanged},
          {"left", std::move(left)},
          {"named", std::move(first)},
          {"settings", std::move(settings)}};
}

/// The sweeps of these jobs, by what selects them.
json sweeps_of(const World& world, const std::vector<std::int64_t>& jobs) {
  std::set<SweepId> sweeps;
  for (const std::int64_t job : jobs) sweeps.insert(world.job(JobId{job})->sweep);
  json names = json::array();
  for (const SweepId id : sweeps) names.push_back(selector_of(world, *world.sweep(id)));
  return names;
}

/// The sweep files of these jobs.  The client looks at them: their file system may hang.
json files_of(const World& world, const std::vector<std::int64_t>& jobs) {
  std::set<SweepId> sweeps;
  for (const std::int64_t job : jobs) sweeps.insert(world.job(JobId{job})->sweep);
  json files = json::array();
  for (const SweepId id : sweeps) {
    const Sweep& sweep = *world.sweep(id);
    if (sweep.spec.file.empty()) continue;
    files.push_back(
        {{"file", sweep.spec.file}, {"submitted_at", rfc3339(sweep.submitted_at.wall_ns)}});
  }
  return files;
}

}  // namespace

/// What it names and is archived.
std::vector<SweepId> Server::to_fetch(const Request& request) const {
  const World& world = coordinator_.world();
  if (request.op == Request::Op::Watch && request.all) return {};
  if (request.op == Request::Op::Usage) return world.archived_with(JobId{request.job});
  const bool asks_for_all = (request.op == Request::Op::Ps && request.all) ||
                            (request.op == Request::Op::Clean && request.clean.older_s > 0);
  if (asks_for_all && request.selectors.empty()) {
    std::vector<SweepId> all;
    for (const auto& [id, archived] : world.archived()) all.push_back(id);
    return all;
  }
  if (request.op == Request::Op::Watch && request.sweep_id) {
    const SweepId id{*request.sweep_id};
    return world.archived().contains(id) ? std::vector{id} : std::vector<SweepId>{};
  }
  const bool is_last = request.op == Request::Op::Watch || request.failed;  // by default
  return archived_by(world, request.selectors.empty() && is_last ? std::vector<std::string>{"@"}
                                                                 : request.selectors);
}

void Server::tell_gpus(std::uint64_t id, const std::string& release) {
  if (!release.empty()) {
    Result<std::vector<std::string>> done = coordinator_.release_gpus(release);
    if (!done) return fail(id, code_of(done.error()), done.error().message);
    return coordinator_.when_durable([this, id, uuids = *std::move(done)] {
      reply(id, {{"schema", 1}, {"released", uuids}});
    });
  }
  reply(id, describe_gpus(coordinator_));
}

/// Of a live attempt from here, of another from the store.
void Server::tell_usage(std::uint64_t id, const Request& request) {
  const Job* job = coordinator_.world().job(JobId{request.job});
  if (job == nullptr || coordinator_.world().is_forgotten(job->sweep)) {
    return fail(id, kNothingMatched, fmt::format("there is no job {}", request.job));
  }
  const std::int64_t number = request.attempt == 0 ? job->attempts : request.attempt;
  if (number < 1 || number > job->attempts) {
    return fail(id, kNothingMatched, fmt::format("job {} has no attempt {}", request.job, number));
  }
  const AttemptId attempt{job->id, static_cast<std::int32_t>(number)};
  if (std::optional<json> live = describe_series(coordinator_, attempt, request)) {
    return reply(id, *live);
  }
  options_.read_usage(attempt.job, attempt.number,
                      [this, id, attempt, request](const Result<std::vector<row::Usage>>& rows) {
                        if (!rows) return fail(id, kUnreachable, rows.error().message);
                        const Result<json> series = describe_series(attempt, *rows, request);
                        if (!series) return fail(id, kUnreachable, series.error().message);
                        reply(id, *series);
                      });
}

void Server::tell_words(std::uint64_t id, const std::vector<std::string>& begins) {
  constexpr std::size_t kMostWords = 500;
  json words = json::array();
  for (const std::string& begin : begins) {
    for (const SelectorWord& one : selector_words(coordinator_.world(), begin, kMostWords)) {
      words.push_back({{"word", one.word}, {"meaning", one.meaning}});
    }
  }
  reply(id, {{"schema", 1}, {"words", std::move(words)}});
}

void Server::interrupt(std::uint64_t id, SweepId sweep, int level) {
  coordinator_.interrupt(sweep, level);
  const Sweep* s = coordinator_.world().sweep(sweep);
  const auto running = static_cast<std::int64_t>(coordinator_.world().live_of(sweep).size());
  std::int64_t held = 0;
  if (s != nullptr) {
    for (const Step& step : s->steps) {
      for (JobId job : step.current) {
        held += job && coordinator_.world().job(job)->state == JobState::Held ? 1 : 0;
      }
    }
  }
  coordinator_.when_durable([this, id, running, held] {
    reply(id, {{"running", running}, {"held", held}});
  });
}

/// What is asked of jobs and changes nothing.
void Server::query(Client& client, const Request& request) {
  const std::uint64_t id = client.id;
  const Request::Op op = request.op;
  const std::vector<std::string>& selectors = request.selectors;
  Selection selection;
  if (!selectors.empty()) {
    Result<Selection> selected = select_jobs(coordinator_.world(), selectors);
    if (!selected) return fail(id, code_of(selected.error()), selected.error().message);
    selection = std::move(*selected);
  } else if (op != Request::Op::Ps && op != Request::Op::Why) {
    return fail(id, kUsage, "name the jobs: JOB, SWEEP, SWEEP/RUN, SWEEP/RUN/STEP or @");
  }
  if (request.older) selection.jobs = selection.all();
  std::vector<JobId>& jobs = selection.jobs;
  if (op == Request::Op::Ps && selectors.empty() && request.all) {
    for (const Job& job : coordinator_.world().jobs()) {
      if (!coordinator_.world().is_forgotten(job.sweep)) jobs.push_back(job.id);
    }
  } else if (op == Request::Op::Ps && selectors.empty()) {
    coordinator_.world().open_jobs().for_each([&](JobId open) { jobs.push_back(open); });
  } else if (op == Request::Op::Why && selectors.empty()) {
    coordinator_.world().open_jobs().for_each([&](JobId open) {
      const JobState state = coordinator_.world().job(open)->state;
      if (state == JobState::Queued || state == JobState::Held) jobs.push_back(open);
    });
  } else if (op == Request::Op::Wait) {
    if (Result<void> live = check_attempts(coordinator_.world(), selection); !live) {
      return fail(id, code_of(live.error()), live.error().message);
    }
    return wait(id, std::move(selection));
  }
  list(id, op, std::move(jobs));
}

/// What became of older versions, and of rows that were taken out of the file, is no part of how
/// the sweep fares: their end is waited for, and nothing is sent about it.  Jobs of such rows alone
/// were asked for by name.
void Server::wait(std::uint64_t id, Selection selection) {
  std::vector<JobId> awaited = selection.all();
  std::vector<JobId> told = std::move(selection.jobs);
  const auto unlisted = [this](JobId job) { return !coordinator_.world().is_listed(job); };
  if (!std::all_of(told.begin(), told.end(), unlisted)) {
    std::erase_if(told, unlisted);
    std::erase_if(awaited, [&](JobId job) {
      return unlisted(job) && !is_live(coordinator_.world().job(job)->state);
    });
  }
  coordinator_.when_durable([this, id, told = std::move(told), awaited = std::move(awaited)] {
    Client* waiting = find(id);
    if (waiting == nullptr) return;
    waiting->waiting_for = told;
    waiting->waited_for = {awaited.begin(), awaited.end()};
    for (JobId job : awaited) {
      if (is_open(job)) waiting->waiting_open.insert(job);
    }
    answer_wait(*waiting);
  });
}

void Server::submit(Client& client) {
  client.submitting = false;
  const std::uint64_t id = client.id;
  SweepSpec sweep = std::exchange(client.sweep, {});
  SubmitContext context = std::exchange(client.context, {});
  if (client.wants.op == Request::Op::DryRun || client.wants.op == Request::Op::Plan) {
    auto request = std::make_shared<Request>(std::exchange(client.wants, {}));
    request->context = std::move(context);
    return coordinator_.find_root(
        std::move(sweep), request->context, [this, id, request](Result<SweepSpec> file) {
          if (!file) return fail(id, code_of(file.error()), file.error().message);
          if (request->op == Request::Op::DryRun) {
            return preview(id, *std::move(file), std::move(request->context));
          }
          request->sweep = *std::move(file);
          plan(id, std::move(*request));
        });
  }
  coordinator_.submit(std::move(sweep), std::move(context), [this, id](Result<SubmitReply> result) {
    if (!result) return fail(id, code_of(result.error()), result.error().message);
    reply(id, json(*result));
  });
}

void Server::preview(std::uint64_t id, SweepSpec sweep, SubmitContext context) {
  const auto wanted = std::make_shared<Previewed>(Previewed{std::move(sweep), std::move(context)});
  when_discovered([this, id, wanted] {
    coordinator_.fetch(coordinator_.archived_for(wanted->sweep, wanted->context),
                       [this, id, wanted](const Result<void>& there) {
                         if (!there) return fail(id, code_of(there.error()), there.error().message);
                         look_for_preview(id, wanted);
                       });
  });
}

void Server::look_for_preview(std::uint64_t id, const std::shared_ptr<Previewed>& wanted) {
  coordinator_.judge_for_preview(
      wanted->sweep, wanted->context, [this, id, wanted](FoundVerdict found) {
        wanted->found = std::move(found);
        recognize_earlier_runs(coordinator_.world(), wanted->context, wanted->sweep);
        coordinator_.survey_outputs(
            wanted->sweep, wanted->context,
            [this, id, wanted](const LostOutputs& lost) { tell_preview(id, *wanted, lost); });
      });
}

void Server::tell_preview(std::uint64_t id, const Previewed& wanted, const LostOutputs& lost) {
  const Result<SubmitPreview> preview =
      coordinator_.preview(wanted.sweep, wanted.context, lost, wanted.found);
  if (!preview) return fail(id, code_of(preview.error()), preview.error().message);
  reply(id, json(*preview));
}

/// Of a sweep's file, of what selectors name, or of all that is open.
void Server::plan(std::uint64_t id, Request request) {
  auto asked = std::make_shared<Coordinator::PlanRequest>();
  for (const auto& [step, ms] : request.expect) asked->given[step] = ms * kMillisecond;
  asked->on = request.on;
  if (request.has_sweep) {
    asked->file = std::move(request.sweep);
    asked->context = std::move(request.context);
  } else if (!request.selectors.empty()) {
    Result<Selection> selected = select_jobs(coordinator_.world(), request.selectors);
    if (!selected) return fail(id, code_of(selected.error()), selected.error().message);
    asked->jobs = std::move(selected->jobs);
  }
  when_discovered([this, id, asked] {
    if (!asked->file) return tell_plan(id, *asked);
    coordinator_.fetch(coordinator_.archived_for(*asked->file, asked->context),
                       [this, id, asked](const Result<void>& there) {
                         if (!there) return fail(id, kUnreachable, there.error().message);
                         recognize_earlier_runs(coordinator_.world(), asked->context, *asked->file);
                         coordinator_.survey_outputs(*asked->file, asked->context,
                                                     [this, id, asked](LostOutputs lost) {
                                                       asked->lost = std::move(lost);
                                                       tell_plan(id, *asked);
                                                     });
                       });
  });
}

void Server::tell_plan(std::uint64_t id, const Coordinator::PlanRequest& asked) {
  coordinator_.plan(asked, [this, id](const Result<json>& planned) {
    if (!planned) return fail(id, code_of(planned.error()), planned.error().message);
    reply(id, *planned);
  });
}

/// Waits for what it needs, and is done then, whether or not who asked is still there.
void Server::change(std::uint64_t id, const Request& request) {
  if (coordinator_.frozen()) {
    frozen_requests_.emplace_back([this, id, request] { change(id, request); });
    return;
  }
  if (std::vector<SweepId> archived = to_fetch(request); !archived.empty()) {
    return coordinator_.fetch(std::move(archived), [this, id, request](const Result<void>& there) {
      there ? change(id, request) : fail(id, kUnreachable, there.error().message);
    });
  }
  if (request.op == Request::Op::Interrupt) {
    return interrupt(id, SweepId{*request.sweep_id}, request.level);
  }
  if (request.op == Request::Op::Clean) return clean(id, request);
  if (request.op == Request::Op::Moving || request.op == Request::Op::Moved) {
    return move(id, SweepId{*request.sweep_id}, request.op == Request::Op::Moved);
  }
  if (request.op == Request::Op::Cleaned) return end_cleaning(id, SweepId{*request.sweep_id});
  control(id, request);
}

void Server::control(std::uint64_t id, const Request& request) {
  const Request::Op op = request.op;
  Result<Selection> selection =
      select_jobs(coordinator_.world(), request.selectors.empty() && request.failed
                                            ? std::vector<std::string>{"@"}
                                            : request.selectors);
  if (!selection) return fail(id, code_of(selection.error()), selection.error().message);
  if (Result<void> live = check_attempts(coordinator_.world(), *selection); !live) {
    return fail(id, code_of(live.error()), live.error().message);
  }
  // What runs of an older version of the file is meant where something is to be kept from running.
  const bool wants_older = op == Request::Op::Cancel || op == Request::Op::Hold;
  std::vector<JobId> jobs = wants_older ? selection->all() : std::move(selection->jobs);
  if (jobs.empty()) {
    return fail(id, kUsage,
                fmt::format("{}: name the jobs, or @ for the last sweep", to_string(op)));
  }
  if (request.failed) {
    std::erase_if(jobs, [&](JobId job) {
      const JobState state = coordinator_.world().job(job)->state;
      return state != JobState::Failed && state != JobState::Timeout && state != JobState::Lost;
    });
    if (jobs.empty()) return fail(id, kNothingMatched, "none of these jobs has failed");
  }
  Coordinator::Changed changed;
  if (op == Request::Op::Cancel && request.queued) {
    changed = coordinator_.cancel_queued(jobs, "cancelled by hand");
  } else if (op == Request::Op::Cancel) {
    changed = coordinator_.cancel(jobs, request.kill, "cancelled by hand");
  }
  if (op == Request::Op::Hold) changed = coordinator_.hold(jobs, "held by hand");
  if (op == Request::Op::Release) changed = coordinator_.release(jobs);
  if (op == Request::Op::Retry) changed = coordinator_.retry(jobs);
  if (op == Request::Op::Set) {
    Result<Coordinator::Changed> set = coordinator_.set(jobs, request.set);
    if (!set) return fail(id, code_of(set.error()), set.error().message);
    changed = *std::move(set);
  }
  json answer = change_answer(coordinator_.world(), changed);
  answer["sweeps"] = sweeps_of(coordinator_.world(), changed.changed);
  if (op == Request::Op::Retry) answer["files"] = files_of(coordinator_.world(), changed.changed);
  coordinator_.when_durable([this, id, answer = std::move(answer)] { reply(id, answer); });
}

}  // namespace pergpu
