// One Client per connection.  Lines are handled as they come; while a submit's run lines arrive
// they are parsed one by one, so that a sweep of a million runs never holds the loop for long.
#include "coordinator/server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>

#include "coordinator/describe.h"
#include "coordinator/request.h"
#include "coordinator/selector.h"
#include "os/file.h"
#include "spec/wire.h"

namespace pergpu {

using nlohmann::json;

namespace {

constexpr int kProtocol = 1;
// Watchers are people: 20 updates a second are enough, and a job of a few milliseconds is told
// once.
constexpr std::int64_t kWatchPeriod = 50 * kMillisecond;
// Larger sweeps are described once, at the start: describing one again costs time per run.
constexpr std::size_t kMostRunsRetold = 10'000;
// A peer that does not read is cut off rather than kept in memory, and so is one that asks on and
// on without waiting for answers.
constexpr std::size_t kMaxPending = 256u << 20;
constexpr std::size_t kMostUnanswered = 1'000;
/// Who asks more before it has read this much of the answers does not want them.
constexpr std::size_t kMostUnread = 16u << 20;
constexpr int kMostAcceptedAtOnce = 16;
// Ten million runs of 400 bytes.
constexpr std::size_t kMostSubmitBytes = std::size_t{4} << 30;

// Exit codes (docs/commands.md) that a refusal leads to.
constexpr int kUsage = 2;
constexpr int kUnreachable = 3;
constexpr int kNothingMatched = 4;

int code_of(const Error& error) {
  if (error.kind == ErrorKind::NotFound) return kNothingMatched;
  if (error.kind == ErrorKind::Invalid) return kUsage;
  return kUnreachable;
}

/// Its run is a row of the file and its step is in it.
bool is_listed(const World& world, JobId id) {
  const Job& job = *world.job(id);
  if (!world.step_of(job).listed) return false;
  return job.run < 0 || world.sweep_of(job).runs[static_cast<std::size_t>(job.run)].listed;
}

std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

struct Server::Client {
  std::uint64_t id = 0;
  std::unique_ptr<os::LineStream> stream;
  bool greeted = false;
  bool gone = false;
  std::size_t unanswered = 0;  // requests

  // A submit whose run lines are arriving.
  bool submitting = false;
  bool dry_run = false;
  SweepSpec sweep;
  SubmitContext context;
  std::size_t runs_expected = 0;
  std::size_t run_bytes = 0;

  // A stream of changes.
  bool watching = false;
  SweepId watched_sweep;
  std::unordered_set<JobId> watched_jobs;
  std::unordered_set<JobId> open_jobs;  // of these: neither ended nor held
  std::vector<JobId> unsent;            // changed since the last flush, in order, each once
  std::unordered_set<JobId> unsent_jobs;
  std::int64_t sweep_told_ns = 0;
  bool flush_armed = false;

  // wait: answered when none of these is open any more.
  std::vector<JobId> waiting_for;
  std::unordered_set<JobId> waiting_open;
};

Server::Server(os::Loop& loop, Coordinator& coordinator, Options options)
    : loop_(loop), coordinator_(coordinator), options_(std::move(options)) {}

Server::~Server() {
  if (listener_) loop_.unwatch(listener_.get());
}

Result<std::unique_ptr<Server>> Server::open(os::Loop& loop, Coordinator& coordinator,
                                             Options options) {
  std::unique_ptr<Server> server(new Server(loop, coordinator, std::move(options)));
  Result<os::UniqueFd> listener = os::listen_unix(coordinator_socket(server->options_.run_dir));
  if (!listener) return std::move(listener).error();
  server->listener_ = std::move(*listener);
  Result<void> watched = loop.watch(server->listener_.get(), EPOLLIN,
                                    [raw = server.get()](std::uint32_t) { raw->accept(); });
  if (!watched) return std::move(watched).error();
  loop.on_turn([raw = server.get()] {
    raw->dropped_.clear();
    if (!raw->coordinator_.frozen()) {
      for (auto& request : std::exchange(raw->frozen_requests_, {})) request();
    }
    if (raw->coordinator_.gpu_lanes().discovered()) {
      for (auto& request : std::exchange(raw->early_requests_, {})) request();
    }
  });
  return server;
}

void Server::accept() {
  for (int i = 0; i < kMostAcceptedAtOnce; ++i) {  // the others are still there in the next turn
    Result<os::UniqueFd> fd = os::accept_unix(listener_.get());
    if (!fd) return;
    Result<os::PeerCredentials> peer = os::peer_of(fd->get());
    if (!peer || peer->uid != getuid()) continue;  // closed: not of this user
    if (clients_.size() >= options_.most_clients && !make_room()) continue;
    auto client = std::make_unique<Client>();
    Client* raw = client.get();
    raw->id = next_client_++;
    Result<std::unique_ptr<os::LineStream>> stream = os::LineStream::open(
        loop_, std::move(*fd),
        {.on_line = [this, raw](std::string_view line) { on_line(*raw, line); },
         .on_close = [this, raw](const Error&) { drop(*raw); }});
    if (!stream) continue;
    raw->stream = std::move(*stream);
    clients_.push_back(std::move(client));
  }
}

/// Connections that somebody forgot to close must not keep others out, nor take the descriptors
/// that keepers need: the oldest one that nobody waits at makes room.  False: there is none.
bool Server::make_room() {
  const auto oldest = [&](const auto& may_go) {
    const auto it = std::find_if(clients_.begin(), clients_.end(),
                                 [&](const std::unique_ptr<Client>& c) { return may_go(*c); });
    if (it == clients_.end()) return false;
    drop(**it);
    return true;
  };
  return oldest([](const Client& c) { return !c.greeted; }) ||
         oldest([](const Client& c) { return !c.watching && c.unanswered == 0; });
}

void Server::drop(Client& client) {
  if (client.gone) return;
  client.gone = true;
  auto it = std::find_if(clients_.begin(), clients_.end(),
                         [&](const auto& c) { return c.get() == &client; });
  dropped_.splice(dropped_.end(), clients_, it);
}

Server::Client* Server::find(std::uint64_t id) {
  for (const auto& client : clients_) {
    if (client->id == id) return client.get();
  }
  return nullptr;
}

void Server::answer(Client& client, const json& line) {
  if (client.unanswered > 0) --client.unanswered;
  client.stream->send(dump(line));
}

void Server::reply(std::uint64_t id, const json& data) {
  if (Client* client = find(id)) answer(*client, {{"ok", true}, {"data", data}});
}

void Server::fail(std::uint64_t id, int code, const std::string& error) {
  if (Client* client = find(id)) {
    answer(*client, {{"ok", false}, {"code", code}, {"error", error}});
  }
}

void Server::on_line(Client& client, std::string_view line) {
  if (client.gone) return;
  if (client.submitting) {
    Result<RunSpec> run = run_from_wire(line);
    client.run_bytes += line.size();
    if (run && client.run_bytes > kMostSubmitBytes) {
      run = Error{ErrorKind::Invalid, 0,
                  fmt::format("more than {} bytes of runs; split the sweep", kMostSubmitBytes)};
    }
    if (!run) {
      fail(client.id, kUsage, "submit: " + run.error().message);
      client.stream->close_when_flushed();
      return;
    }
    client.sweep.runs.push_back(std::move(*run));
    if (client.sweep.runs.size() == client.runs_expected) submit(client);
    return;
  }
  if (client.unanswered >= kMostUnanswered || client.stream->pending() > kMostUnread) {
    return drop(client);
  }
  ++client.unanswered;
  Result<Request> request = request_of(line);
  if (!client.greeted && (!request || request->op != Request::Op::Hello)) {
    return fail(client.id, kUsage, "the first line must be {\"hello\":1,\"version\":…}");
  }
  if (!request) return fail(client.id, kUsage, request.error().message);
  handle(client, *std::move(request));
}

/// What it names and is archived.
std::vector<SweepId> Server::to_fetch(const Request& request) const {
  const World& world = coordinator_.world();
  if (request.op == Request::Op::Ps && request.all && request.selectors.empty()) {
    const auto ids = std::views::keys(world.archived());
    return {ids.begin(), ids.end()};
  }
  if (request.op == Request::Op::Watch && request.sweep_id) {
    const SweepId id{*request.sweep_id};
    return world.archived().contains(id) ? std::vector{id} : std::vector<SweepId>{};
  }
  const bool is_last = request.op == Request::Op::Watch || request.failed;  // by default
  return archived_by(world, request.selectors.empty() && is_last ? std::vector<std::string>{"@"}
                                                                 : request.selectors);
}

void Server::handle(Client& client, Request request) {
  const std::uint64_t id = client.id;
  if (std::vector<SweepId> archived = to_fetch(request); !archived.empty()) {
    return coordinator_.fetch(std::move(archived), [this, id, request](const Result<void>& there) {
      if (!there) return fail(id, kUnreachable, there.error().message);
      if (Client* c = find(id)) handle(*c, request);
    });
  }
  switch (request.op) {
    case Request::Op::Hello:
      client.greeted = true;
      return reply(id, {{"protocol", kProtocol},
                        {"version", options_.version},
                        {"pid", getpid()},
                        {"home", options_.home}});
    case Request::Op::Submit:
    case Request::Op::DryRun:
      client.sweep = std::move(request.sweep);
      client.context = std::move(request.context);
      client.runs_expected = request.runs;
      client.run_bytes = 0;
      client.dry_run = request.op == Request::Op::DryRun;
      client.submitting = true;
      if (client.runs_expected == 0) submit(client);
      return;
    case Request::Op::Watch:
      return watch(client, request);
    case Request::Op::Status:
      return reply(id, status());
    case Request::Op::Gpus:
      return when_discovered([this, id, release = request.release] { tell_gpus(id, release); });
    case Request::Op::Stop:
      reply(id, json::object());
      return options_.leave(request.kill);
    case Request::Op::Backup:
      return options_.backup(request.file, [this, id](const Result<std::int64_t>& bytes) {
        if (!bytes) return fail(id, code_of(bytes.error()), bytes.error().message);
        reply(id, {{"schema", 1}, {"bytes", *bytes}});
      });
    case Request::Op::Interrupt:
      return when_thawed([this, id, sweep = SweepId{*request.sweep_id}, level = request.level] {
        interrupt(id, sweep, level);
      });
    case Request::Op::Cancel:
    case Request::Op::Hold:
    case Request::Op::Release:
    case Request::Op::Retry:
      return control(client, request);
    case Request::Op::Ps:
    case Request::Op::Show:
    case Request::Op::Why:
    case Request::Op::Wait:
      return query(client, request);
  }
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

void Server::interrupt(std::uint64_t id, SweepId sweep, int level) {
  coordinator_.interrupt(sweep, level);
  const Sweep* s = coordinator_.world().sweep(sweep);
  std::int64_t running = 0;
  std::int64_t held = 0;
  if (s != nullptr) {
    for (const Step& step : s->steps) {
      for (JobId job : step.current) {
        if (!job) continue;
        const JobState state = coordinator_.world().job(job)->state;
        running += is_live(state) ? 1 : 0;
        held += state == JobState::Held ? 1 : 0;
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
  json jobs = json::array();
  if (op == Request::Op::Ps) {
    auto add = [&](JobId job) {
      jobs.push_back(describe(coordinator_, *coordinator_.world().job(job)));
    };
    if (!selectors.empty()) {
      for (JobId job : selection.jobs) add(job);
    } else if (request.all) {
      for (const Job& job : coordinator_.world().jobs()) add(job.id);
    } else {
      coordinator_.world().open_jobs().for_each(add);
    }
  } else if (op == Request::Op::Show) {
    for (JobId job : selection.jobs) {
      jobs.push_back(describe_whole(coordinator_, *coordinator_.world().job(job)));
    }
  } else if (op == Request::Op::Why) {
    auto add = [&](const Job& job) { jobs.push_back(describe_why(coordinator_, job)); };
    if (selectors.empty()) {
      coordinator_.world().open_jobs().for_each([&](JobId open) {
        const Job& job = *coordinator_.world().job(open);
        if (job.state == JobState::Queued || job.state == JobState::Held) add(job);
      });
    } else {
      for (JobId job : selection.jobs) add(*coordinator_.world().job(job));
    }
  } else {
    if (Result<void> live = check_attempts(coordinator_.world(), selection); !live) {
      return fail(id, code_of(live.error()), live.error().message);
    }
    // What became of rows that were taken out of the file is no part of how the sweep fares; jobs
    // of such rows alone were asked for by name.
    const auto unlisted = [this](JobId job) { return !is_listed(coordinator_.world(), job); };
    if (!std::all_of(selection.jobs.begin(), selection.jobs.end(), unlisted)) {
      std::erase_if(selection.jobs, unlisted);
    }
    coordinator_.when_durable([this, id, wanted = std::move(selection.jobs)] {
      Client* waiting = find(id);
      if (waiting == nullptr) return;
      waiting->waiting_for = wanted;
      for (JobId job : wanted) {
        if (is_open(job)) waiting->waiting_open.insert(job);
      }
      answer_wait(*waiting);
    });
    return;
  }
  reply(id, {{"schema", 1}, {"jobs", std::move(jobs)}});
}

void Server::submit(Client& client) {
  client.submitting = false;
  const std::uint64_t id = client.id;
  if (client.dry_run) {
    return when_discovered([this, id, sweep = std::exchange(client.sweep, {}),
                            context = std::exchange(client.context, {})] {
      coordinator_.fetch(coordinator_.archived_for(sweep, context),
                         [=, this](const Result<void>& there) {
                           Result<SubmitPreview> preview =
                               there ? coordinator_.preview(sweep, context) : there.error();
                           if (!preview)
                             return fail(id, code_of(preview.error()), preview.error().message);
                           reply(id, json(*preview));
                         });
    });
  }
  coordinator_.submit(std::exchange(client.sweep, {}), std::exchange(client.context, {}),
                      [this, id](Result<SubmitReply> result) {
                        if (!result)
                          return fail(id, code_of(result.error()), result.error().message);
                        reply(id, json(*result));
                      });
}

void Server::control(Client& client, const Request& request) {
  when_thawed([this, id = client.id, op = request.op, selectors = request.selectors,
               failed_only = request.failed, kill = request.kill] {
    Result<Selection> selection =
        select_jobs(coordinator_.world(),
                    selectors.empty() && failed_only ? std::vector<std::string>{"@"} : selectors);
    if (!selection) return fail(id, code_of(selection.error()), selection.error().message);
    if (Result<void> live = check_attempts(coordinator_.world(), *selection); !live) {
      return fail(id, code_of(live.error()), live.error().message);
    }
    std::vector<JobId> jobs = std::move(selection->jobs);
    if (jobs.empty()) {
      return fail(id, kUsage,
                  fmt::format("{}: name the jobs, or @ for the last sweep", to_string(op)));
    }
    if (failed_only) {
      std::erase_if(jobs, [&](JobId job) {
        const JobState state = coordinator_.world().job(job)->state;
        return state != JobState::Failed && state != JobState::Timeout && state != JobState::Lost;
      });
      if (jobs.empty()) return fail(id, kNothingMatched, "nothing of that has failed");
    }
    Coordinator::Changed changed;
    if (op == Request::Op::Cancel) changed = coordinator_.cancel(jobs, kill, "cancelled by hand");
    if (op == Request::Op::Hold) changed = coordinator_.hold(jobs, "held by hand");
    if (op == Request::Op::Release) changed = coordinator_.release(jobs);
    if (op == Request::Op::Retry) changed = coordinator_.retry(jobs);
    json left = json::array();
    for (const std::int64_t job : changed.unchanged) {
      const Job& as_it_is = *coordinator_.world().job(JobId{job});
      left.push_back({{"id", job},
                      {"state", to_string(as_it_is.state)},
                      {"replaced", !coordinator_.world().is_current(as_it_is)}});
    }
    coordinator_.when_durable([this, id, changed = std::move(changed), left = std::move(left)] {
      reply(id, {{"schema", 1},
                 {"changed", changed.changed},
                 {"unchanged", changed.unchanged},
                 {"left", left}});
    });
  });
}

void Server::when_thawed(std::function<void()> request) {
  if (coordinator_.frozen()) {
    frozen_requests_.push_back(std::move(request));
  } else {
    request();
  }
}

/// Which GPUs there are is not known before the first look at them is over.
void Server::when_discovered(std::function<void()> request) {
  if (coordinator_.gpu_lanes().discovered()) {
    request();
  } else {
    early_requests_.push_back(std::move(request));
  }
}

void Server::watch(Client& client, const Request& request) {
  const World& world = coordinator_.world();
  const Sweep* sweep = nullptr;
  std::vector<JobId> jobs;
  if (request.sweep_id) {
    sweep = world.sweep(SweepId{*request.sweep_id});
    if (sweep == nullptr) return fail(client.id, kNothingMatched, "no such sweep");
    for (const Step& step : sweep->steps) {
      for (JobId job : step.current) {
        if (job && is_listed(world, job)) jobs.push_back(job);
      }
    }
  } else {
    Result<Selection> selection = select_jobs(
        world, request.selectors.empty() ? std::vector<std::string>{"@"} : request.selectors);
    if (!selection) return fail(client.id, code_of(selection.error()), selection.error().message);
    jobs = std::move(selection->jobs);
    sweep = &world.sweep_of(*world.job(jobs.front()));
  }
  std::sort(jobs.begin(), jobs.end());
  coordinator_.when_durable([this, id = client.id, jobs = std::move(jobs), sweep_id = sweep->id] {
    Client* c = find(id);
    if (c == nullptr) return;
    json list = json::array();
    for (JobId job : jobs) list.push_back(describe(coordinator_, *coordinator_.world().job(job)));
    const Sweep& s = *coordinator_.world().sweep(sweep_id);
    json lanes = json::array();
    for (const LaneSnapshot& lane : coordinator_.lane_snapshots(s)) lanes.push_back(lane);
    answer(*c, {{"event", "snapshot"},
                {"sweep", describe(coordinator_, s)},
                {"jobs", std::move(list)},
                {"lanes", std::move(lanes)}});
    c->watching = true;
    c->watched_sweep = sweep_id;
    c->watched_jobs = std::unordered_set<JobId>(jobs.begin(), jobs.end());
    c->open_jobs.clear();
    for (JobId job : jobs) {
      if (is_open(job)) c->open_jobs.insert(job);
    }
    flush(*c);
  });
}

bool Server::is_open(JobId id) const {
  const JobState state = coordinator_.world().job(id)->state;
  return !is_ended(state) && state != JobState::Held;
}

void Server::changed(const std::vector<JobId>& jobs) {
  for (const auto& client : clients_) {
    if (client->watching) {
      for (JobId id : jobs) {
        if (!client->watched_jobs.contains(id)) continue;
        if (client->unsent_jobs.insert(id).second) client->unsent.push_back(id);
        if (is_open(id)) {
          client->open_jobs.insert(id);
        } else {
          client->open_jobs.erase(id);
        }
      }
      if (client->unsent.empty()) continue;
      if (client->open_jobs.empty()) {
        flush(*client);
      } else if (!client->flush_armed) {
        client->flush_armed = true;
        loop_.at(coordinator_.now().boot_ns + kWatchPeriod, [this, id = client->id] {
          if (Client* c = find(id)) {
            c->flush_armed = false;
            flush(*c);
          }
        });
      }
    }
    if (!client->waiting_for.empty()) {
      for (JobId id : jobs) {
        if (!is_open(id)) client->waiting_open.erase(id);
      }
      answer_wait(*client);
    }
  }
}

/// Sends a watcher what changed.  Several changes of one job within kWatchPeriod are one.
void Server::flush(Client& client) {
  if (client.stream->pending() > kMaxPending) {
    client.stream->close_when_flushed();
    client.watching = false;
    return;
  }
  client.unsent_jobs.clear();
  for (JobId id : std::exchange(client.unsent, {})) {
    client.stream->send(
        dump({{"event", "job"}, {"job", describe(coordinator_, *coordinator_.world().job(id))}}));
  }
  // Counts and the expected end; lanes, because others' use of a GPU changes them without a job.
  const Sweep& sweep = *coordinator_.world().sweep(client.watched_sweep);
  const std::int64_t now = coordinator_.now().boot_ns;
  if (now - client.sweep_told_ns >= kSecond && sweep.runs.size() <= kMostRunsRetold) {
    client.sweep_told_ns = now;
    client.stream->send(dump({{"event", "sweep"}, {"sweep", describe(coordinator_, sweep)}}));
    json lanes = json::array();
    for (const LaneSnapshot& lane : coordinator_.lane_snapshots(sweep)) lanes.push_back(lane);
    client.stream->send(dump({{"event", "lanes"}, {"lanes", std::move(lanes)}}));
  }
  if (client.open_jobs.empty()) client.stream->send(dump({{"event", "end"}}));
}

void Server::answer_wait(Client& client) {
  if (!client.waiting_open.empty()) return;
  json list = json::array();
  for (JobId id : std::exchange(client.waiting_for, {})) {
    list.push_back(describe(coordinator_, *coordinator_.world().job(id)));
  }
  answer(client, {{"ok", true}, {"data", {{"schema", 1}, {"jobs", std::move(list)}}}});
}

json Server::status() const {
  return {{"schema", 1},
          {"pid", getpid()},
          {"version", options_.version},
          {"home", options_.home},
          {"run_dir", options_.run_dir},
          {"sweeps", coordinator_.world().sweeps().size() + coordinator_.world().archived().size()},
          {"jobs", coordinator_.world().next_job_id().value - 1},
          {"queued", coordinator_.world().queued()},
          {"ready", coordinator_.ready_count()},
          {"live", coordinator_.live_count()},
          {"clients", clients_.size()},
          {"store", coordinator_.store_failure()},
          {"gpus", coordinator_.gpu_lanes().trouble()},
          {"groups", coordinator_.groups().words}};
}

}  // namespace pergpu
