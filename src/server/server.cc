// Connections and their lines.  Lines are handled as they come; while a submit's run lines arrive
// they are parsed one by one, so that a sweep of a million runs never holds the loop for long.
// server_jobs.cc answers what is asked of jobs, server_watch.cc serves watchers of a sweep and
// server_overview.cc those of everything.
#include "server/server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/request.h"
#include "api/shell.h"
#include "os/ipc/accept.h"
#include "server/server_client.h"
#include "spec/sweep/wire.h"

namespace pergpu {

using nlohmann::json;

namespace {

constexpr int kProtocol = 1;
/// Who asks more before it has read this much of the answers does not want them.
constexpr std::size_t kMostUnread = 16u << 20;
// Ten million runs of 400 bytes.
constexpr std::size_t kMostSubmitBytes = std::size_t{4} << 30;

/// "clamps" in the answer to hello: jobs that have not ended get less than their shells had.
bool clamps_any(const Coordinator& coordinator) {
  const auto& sweeps = coordinator.world().sweeps();
  return std::any_of(sweeps.begin(), sweeps.end(), [&](const auto& entry) {
    const Sweep& sweep = entry.second;
    return sweep.open > 0 && !coordinator.clamp_words(sweep.context).empty();
  });
}

bool changes_jobs(Request::Op op) {
  using enum Request::Op;
  return op == Cancel || op == Hold || op == Release || op == Retry || op == Set || op == Clean ||
         op == Moving || op == Moved || op == Cleaned || op == Interrupt;
}

/// What may have to wait for another coordinator: not what ends jobs.
bool adds_work(Request::Op op) {
  using enum Request::Op;
  return op == Submit || op == Retry || op == Release || op == Set || op == Clean || op == Backup;
}

}  // namespace

Server::Server(os::Loop& loop, Coordinator& coordinator, Options options)
    : loop_(loop),
      coordinator_(coordinator),
      options_(std::move(options)),
      overview_(coordinator) {}

Server::~Server() {
  if (listener_) loop_.unwatch(listener_.get());
}

Result<std::unique_ptr<Server>> Server::open(os::Loop& loop, Coordinator& coordinator,
                                             Options options) {
  std::unique_ptr<Server> server(new Server(loop, coordinator, std::move(options)));
  Result<void> listens = server->listen(server->options_.run_dir);
  if (!listens) return std::move(listens).error();
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

Result<void> Server::listen(const std::string& run_dir) {
  if (is_reachable() && run_dir == options_.run_dir) return {};
  const std::string path = coordinator_socket(run_dir);
  Result<os::UniqueFd> listener = os::listen_unix(path);
  if (!listener) return std::move(listener).error();
  Result<void> watched = loop_.watch(listener->get(), EPOLLIN, [this](std::uint32_t) { accept(); });
  if (!watched) return watched;
  if (listener_) loop_.unwatch(listener_.get());
  listener_ = *std::move(listener);
  name_ = os::NamedFile(path);
  options_.run_dir = run_dir;
  return {};
}

void Server::accept() {
  for (int i = 0; i < os::kMostAcceptedAtOnce;
       ++i) {  // the others are still there in the next turn
    Result<os::UniqueFd> fd = os::accept_from(listener_.get());
    if (!fd) {
      // None waits; or no descriptor is left, and one was turned away: the next one has room.
      const int why = fd.error().os_errno;
      if (why == EMFILE || why == ENFILE) (void)make_room();
      return;
    }
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

/// Connections that a client forgot to close must not keep others out, nor take the descriptors
/// that keepers need: the oldest one without a waiting client makes room.  False: there is none.
bool Server::make_room() {
  const auto oldest = [&](const auto& may_go) {
    const auto it = std::find_if(clients_.begin(), clients_.end(),
                                 [&](const std::unique_ptr<Client>& c) { return may_go(*c); });
    if (it == clients_.end()) return false;
    drop(**it);
    return true;
  };
  return oldest([](const Client& c) { return !c.greeted; }) ||
         oldest([](const Client& c) { return c.stream->peer_has_left(); }) ||
         oldest([](const Client& c) {
           return !c.watching && !c.unanswered && !c.stopping && c.cleaning.empty();
         });
}

void Server::drop(Client& client) {
  if (client.gone) return;
  client.gone = true;
  for (const SweepId sweep : client.cleaning) coordinator_.end_cleaning(sweep, /*all_told=*/false);
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

void Server::answer(Client& client, const json& line) { answer_text(client, dump(line)); }

void Server::answer_text(Client& client, std::string_view line) {
  client.unanswered = false;
  client.stream->send(line);
  wait_for_answer(client);
}

void Server::reply(std::uint64_t id, const json& data) {
  if (Client* client = find(id)) answer(*client, {{"ok", true}, {"data", data}});
}

void Server::fail(std::uint64_t id, int code, const std::string& error) {
  if (Client* client = find(id)) {
    answer(*client, {{"ok", false}, {"code", code}, {"error", error}});
  }
}

/// Requests are answered in order: while one has no answer nothing behind it is read, but for the
/// lines that belong to it.
void Server::wait_for_answer(Client& client) {
  if (!client.gone) client.stream->pause(client.unanswered && !client.submitting);
}

void Server::on_line(Client& client, std::string_view line) {
  if (client.gone) return;
  take(client, line);
  wait_for_answer(client);
}

void Server::take(Client& client, std::string_view line) {
  if (client.submitting) {
    Result<RunSpec> run = run_from_wire(line);
    client.run_bytes += line.size();
    if (run && client.run_bytes > kMostSubmitBytes) {
      run =
          Error{ErrorKind::Invalid, 0,
                fmt::format("the runs take more than {} bytes; split the sweep", kMostSubmitBytes)};
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
  if (client.stream->pending() > kMostUnread) return drop(client);
  client.unanswered = true;
  Result<Request> request = request_of(line);
  if (!client.greeted && (!request || request->op != Request::Op::Hello)) {
    return fail(client.id, kUsage, "the first line must be {\"hello\":1,\"version\":…}");
  }
  if (!request) return fail(client.id, kUsage, request.error().message);
  handle(client, *std::move(request));
}

void Server::handle(Client& client, Request request) {
  const std::uint64_t id = client.id;
  if (adds_work(request.op)) {
    if (const std::string trouble = options_.trouble(); !trouble.empty()) {
      fail(id, kUnreachable, trouble);
      // Its runs may be on their way.
      if (request.op == Request::Op::Submit) client.stream->close_when_flushed();
      return;
    }
  }
  if (changes_jobs(request.op)) return change(id, request);
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
                        {"home", options_.home},
                        {"reach", json_of(coordinator_.reach())},
                        {"replaceable", options_.may_be_replaced()},
                        {"clamps", clamps_any(coordinator_)}});
    case Request::Op::Plan:
      if (!request.has_sweep) return plan(id, std::move(request));
      [[fallthrough]];
    case Request::Op::Submit:
    case Request::Op::DryRun:
      client.sweep = std::move(request.sweep);
      client.context = std::move(request.context);
      client.runs_expected = request.runs;
      client.run_bytes = 0;
      client.wants = std::move(request);
      client.submitting = true;
      if (client.runs_expected == 0) submit(client);
      return;
    case Request::Op::Watch:
      if (request.all) return when_discovered([this, id] { watch_all(id); });
      return watch(client, request);
    case Request::Op::Status:
      return reply(id, status());
    case Request::Op::Gpus:
      return when_discovered([this, id, release = request.release] { tell_gpus(id, release); });
    case Request::Op::Usage:
      return tell_usage(id, request);
    case Request::Op::Stop:
      return stop(id, request);
    case Request::Op::Backup:
      return options_.backup(request.file, [this, id](const Result<std::int64_t>& bytes) {
        if (!bytes) return fail(id, code_of(bytes.error()), bytes.error().message);
        reply(id, {{"schema", 1}, {"bytes", *bytes}});
      });
    case Request::Op::Complete:
      return tell_words(id, request.selectors);
    case Request::Op::Interrupt:
    case Request::Op::Cancel:
    case Request::Op::Hold:
    case Request::Op::Release:
    case Request::Op::Retry:
    case Request::Op::Set:
    case Request::Op::Clean:
    case Request::Op::Moving:
    case Request::Op::Moved:
    case Request::Op::Cleaned:
      return;  // change()
    case Request::Op::Ps:
    case Request::Op::Show:
    case Request::Op::Why:
    case Request::Op::Wait:
      return query(client, request);
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

json Server::status() const {
  const World& world = coordinator_.world();
  const std::string trouble = options_.trouble();
  const auto shown = std::count_if(world.sweeps().begin(), world.sweeps().end(),
                                   [&](const auto& one) { return !world.is_forgotten(one.first); });
  return {{"schema", 1},
          {"pid", getpid()},
          {"version", options_.version},
          {"home", options_.home},
          {"run_dir", options_.run_dir},
          {"socket", coordinator_socket(options_.run_dir)},
          {"sweeps", static_cast<std::size_t>(shown) + world.archived().size()},
          {"jobs", coordinator_.world().next_job_id().value - 1},
          {"queued", coordinator_.world().queued()},
          {"ready", coordinator_.ready_count()},
          {"live", coordinator_.live_count()},
          {"clients", clients_.size()},
          {"cleaning", coordinator_.cleaning_count()},
          {"store", trouble.empty() ? coordinator_.store_failure() : trouble},
          {"gpus", coordinator_.gpu_lanes().trouble()},
          {"groups", coordinator_.groups().words}};
}

}  // namespace pergpu
