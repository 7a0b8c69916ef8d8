// Streams: a client that watches gets what changes, one that waits is answered when nothing is open
// any more.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/request.h"
#include "coordinator/describe.h"
#include "server/server.h"
#include "server/server_client.h"
#include "state/selector.h"
#include "state/standstill.h"

namespace pergpu {

using nlohmann::json;

namespace {

// Watchers are people: 20 updates a second are enough, and a job of a few milliseconds is sent
// once.
constexpr std::int64_t kWatchPeriod = 50 * kMillisecond;
// Larger sweeps are described once, at the start: describing one again costs time per run.
constexpr std::size_t kMostRunsRetold = 1'000;
// What should have ended and has not pushes the expected end ahead without any change of a job.
constexpr std::int64_t kEndPeriod = 5 * kSecond;
// A peer that does not read is cut off rather than kept in memory.
constexpr std::size_t kMaxPending = 256u << 20;

}  // namespace

void Server::watch(Client& client, const Request& request) {
  const World& world = coordinator_.world();
  const Sweep* sweep = nullptr;
  std::vector<JobId> jobs;
  if (request.sweep_id) {
    sweep = world.sweep(SweepId{*request.sweep_id});
    if (sweep == nullptr) return fail(client.id, kNothingMatched, "no such sweep");
    for (const Step& step : sweep->steps) {
      for (JobId job : step.current) {
        if (job && world.is_listed(job)) jobs.push_back(job);
      }
    }
  } else {
    Result<Selection> selection = select_jobs(
        world, request.selectors.empty() ? std::vector<std::string>{"@"} : request.selectors);
    if (!selection) return fail(client.id, code_of(selection.error()), selection.error().message);
    jobs = std::move(selection->jobs);
    sweep = &world.sweep_of(*world.job(jobs.front()));
  }
  if (request.most > 0 && std::cmp_greater(jobs.size(), request.most)) {
    return fail(client.id, kUsage,
                fmt::format("the view is limited to {1} jobs, but there are {0}; `pergpu attach`, "
                            "`ps` and `export` have no limit",
                            jobs.size(), request.most));
  }
  std::sort(jobs.begin(), jobs.end());
  coordinator_.when_durable(
      [this, id = client.id, jobs = std::move(jobs), sweep_id = sweep->id, request]() mutable {
        if (Client* c = find(id)) begin_watch(*c, request, sweep_id, std::move(jobs));
      });
}

/// The snapshot, which takes several turns where there are many jobs, and what changes from now on.
void Server::begin_watch(Client& client, const Request& request, SweepId sweep,
                         std::vector<JobId> jobs) {
  client.watching = true;
  client.beginning = true;
  client.watches_all = false;
  client.grows = request.grows;
  client.watched_sweep = sweep;
  client.watched_jobs = std::unordered_set<JobId>(jobs.begin(), jobs.end());
  client.open_jobs.clear();
  for (JobId job : jobs) {
    if (is_open(job)) client.open_jobs.insert(job);
  }
  struct Parts {
    Listing jobs = {};
    SweepSnapshot runs = {};
  };
  const auto parts = std::make_shared<Parts>();
  if (!request.without_jobs) parts->jobs.jobs = std::move(jobs);
  const bool with_runs = !request.without_runs;
  in_turns(client.id, [this, sweep, with_runs, parts](Client& c) {
    if (!describe_jobs(parts->jobs, Request::Op::Watch)) return false;
    const Sweep& s = *coordinator_.world().sweep(sweep);
    if (with_runs) describe_runs(s, kDescribedInATurn, parts->runs);
    if (with_runs && parts->runs.runs.size() < s.runs.size()) return false;
    SweepSnapshot whole = describe_but_runs(coordinator_, s);
    whole.runs = std::move(parts->runs.runs);
    whole.rows = std::move(parts->runs.rows);
    json lanes = json::array();
    for (const LaneSnapshot& lane : coordinator_.lane_snapshots(s)) lanes.push_back(lane);
    answer_text(c, R"({"event":"snapshot","sweep":)" + dump(whole) + R"(,"lanes":)" + dump(lanes) +
                       R"(,"jobs":[)" + parts->jobs.text + "]}");
    c.beginning = false;
    flush(c);
    c.told_end = coordinator_.expected_end(sweep);
    if (!std::exchange(c.end_minded, true)) mind_end(c.id);
    return true;
  });
}

/// As long as there is a client that waits, and something to end.
void Server::mind_end(std::uint64_t id) {
  loop_.at(coordinator_.now().boot_ns + kEndPeriod, [this, id] {
    Client* client = find(id);
    if (client == nullptr) return;
    client->end_minded = client->watching && !client->open_jobs.empty();
    if (!client->end_minded) return;
    if (!client->beginning) tell_end(*client);
    mind_end(id);
  });
}

/// The expected end, where it is not what the watcher knows.
void Server::tell_end(Client& client) {
  const std::optional<std::int64_t> end = coordinator_.expected_end(client.watched_sweep);
  if (end == client.told_end) return;
  client.told_end = end;
  const std::int64_t left = end.value_or(0) - coordinator_.now().boot_ns;
  client.stream->send(
      dump({{"event", "remaining"},
            {"remaining_s", end ? json(static_cast<double>(std::max<std::int64_t>(left, 0)) / 1e9)
                                : json(nullptr)}}));
}

/// A job that came to a sweep that grows is watched from now on.
bool Server::is_watched(Client& client, JobId id) const {
  if (client.watched_jobs.contains(id)) return true;
  const World& world = coordinator_.world();
  const Job& job = *world.job(id);
  const bool is_new = client.grows && job.sweep == client.watched_sweep && world.is_current(job) &&
                      world.is_listed(id);
  if (is_new) client.watched_jobs.insert(id);
  return is_new;
}

bool Server::is_open(JobId id) const {
  const Job& job = *coordinator_.world().job(id);
  return !is_ended(job.state) && !is_held_for_good(job);
}

void Server::changed(const std::vector<JobId>& jobs) {
  overview_.changed(jobs);
  for (const auto& client : clients_) {
    if (client->watches_all) {
      note_change(*client, jobs);
    } else if (client->watching) {
      for (JobId id : jobs) {
        if (!is_watched(*client, id)) continue;
        if (client->unsent_jobs.insert(id).second) client->unsent.push_back(id);
        if (is_open(id)) {
          client->open_jobs.insert(id);
        } else {
          client->open_jobs.erase(id);
        }
      }
      if (client->unsent.empty()) continue;
      const bool is_to_mind = client->grows && !client->beginning && !client->open_jobs.empty();
      if (is_to_mind && !std::exchange(client->end_minded, true)) mind_end(client->id);
      if (client->open_jobs.empty()) {
        flush(*client);
      } else {
        flush_at(*client, coordinator_.now().boot_ns + kWatchPeriod);
      }
    }
    if (!client->waiting_for.empty()) {
      for (JobId id : jobs) {
        if (!client->waited_for.contains(id)) continue;
        if (is_open(id)) {  // it may have been held
          client->waiting_open.insert(id);
        } else {
          client->waiting_open.erase(id);
        }
      }
      answer_wait(*client);
    }
  }
}

void Server::flush_at(Client& client, std::int64_t boot_ns) {
  if (std::exchange(client.flush_armed, true)) return;
  loop_.at(boot_ns, [this, id = client.id] {
    Client* c = find(id);
    if (c == nullptr) return;
    c->flush_armed = false;
    flush(*c);
  });
}

/// Sends a watcher what changed.  Several changes of one job since the last time are one.
void Server::flush(Client& client) {
  if (client.watches_all) return tell_changes(client);
  if (client.beginning) return;
  if (client.stream->pending() > kMaxPending) {
    client.stream->close_when_flushed();
    client.watching = false;
    return;
  }
  for (std::size_t told = 0; told < kDescribedInATurn && !client.unsent.empty(); ++told) {
    const JobId id = client.unsent.front();
    client.unsent.pop_front();
    client.unsent_jobs.erase(id);
    client.stream->send(
        dump({{"event", "job"}, {"job", describe(coordinator_, *coordinator_.world().job(id))}}));
  }
  if (!client.unsent.empty()) return flush_at(client, coordinator_.now().boot_ns);
  // Counts and the expected end; lanes, because others' use of a GPU changes them without a job.
  const Sweep& sweep = *coordinator_.world().sweep(client.watched_sweep);
  const std::int64_t now = coordinator_.now().boot_ns;
  if (now - client.sweep_told_ns >= kSecond) {
    client.sweep_told_ns = now;
    if (sweep.runs.size() > kMostRunsRetold) {
      tell_end(client);
    } else {
      client.told_end = coordinator_.expected_end(sweep.id);
      client.stream->send(dump({{"event", "sweep"}, {"sweep", describe(coordinator_, sweep)}}));
    }
    json lanes = json::array();
    for (const LaneSnapshot& lane : coordinator_.lane_snapshots(sweep)) lanes.push_back(lane);
    client.stream->send(dump({{"event", "lanes"}, {"lanes", std::move(lanes)}}));
  }
  const bool over = client.open_jobs.empty() || stand_still(coordinator_.world(), client.open_jobs);
  if (over && !client.grows) client.stream->send(dump({{"event", "end"}}));
}

/// Answers who waits, once nothing of it is open, or goes on by itself.
void Server::answer_wait(Client& client) {
  if (client.waiting_open.empty() || stand_still(coordinator_.world(), client.waiting_open)) {
    client.waiting_open.clear();
    client.waited_for.clear();
    list(client.id, Request::Op::Wait, std::exchange(client.waiting_for, {}));
  }
}

}  // namespace pergpu
