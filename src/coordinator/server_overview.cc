// The stream of everything (`watch` with `all`): a window over the jobs that slides, told by its
// differences.  A line is never larger than the window, whatever happens to a million jobs.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/describe.h"
#include "coordinator/server.h"
#include "coordinator/server_client.h"

namespace pergpu {

using nlohmann::json;

namespace {

// As often as a screen is drawn.
constexpr std::int64_t kChangesPeriod = 250 * kMillisecond;
constexpr std::int64_t kDevicesPeriod = kSecond;
/// A peer that has not read so much yet is told the rest later, in one.
constexpr std::size_t kMostUnreadChanges = 1u << 20;

json sweeps_of(const Overview& overview) {
  Overview::Sweeps sweeps = overview.sweeps();
  return {{"sweeps", sweeps.shown}, {"counts", sweeps.counts}};
}

}  // namespace

void Server::watch_all(std::uint64_t id) {
  coordinator_.when_durable([this, id] {
    Client* c = find(id);
    if (c == nullptr) return;
    const std::vector<JobId> window = overview_.window();
    json jobs = json::array();
    for (const JobId job : window) {
      jobs.push_back(describe(coordinator_, *coordinator_.world().job(job)));
    }
    c->watching = true;
    c->watches_all = true;
    c->watched_jobs = std::unordered_set<JobId>(window.begin(), window.end());
    c->open_jobs.clear();
    c->unsent.clear();
    c->unsent_jobs.clear();
    c->told_ns = coordinator_.now().boot_ns;
    c->told_sweeps = sweeps_of(overview_);
    c->told_devices = describe_gpus(coordinator_);
    json snapshot = {{"event", "snapshot"}, {"all", true}, {"jobs", std::move(jobs)}};
    snapshot.update(c->told_sweeps);
    snapshot.update(c->told_devices);
    answer(*c, snapshot);
    if (!std::exchange(c->looks_at_devices, true)) look_at_devices(*c);
  });
}

/// Of the jobs that are not shown nothing is kept: they are looked at when they come into the
/// window.
void Server::note_change(Client& client, const std::vector<JobId>& jobs) {
  for (const JobId id : jobs) {
    if (client.watched_jobs.contains(id)) client.unsent_jobs.insert(id);
  }
  if (std::exchange(client.flush_armed, true)) return;
  loop_.at(client.told_ns + kChangesPeriod, [this, id = client.id] {
    Client* c = find(id);
    if (c == nullptr) return;
    c->flush_armed = false;
    if (c->watches_all) tell_changes(*c);
  });
}

void Server::tell_changes(Client& client) {
  client.told_ns = coordinator_.now().boot_ns;
  if (client.stream->pending() > kMostUnreadChanges) return note_change(client, {});
  const std::vector<JobId> window = overview_.window();
  std::unordered_set<JobId> shown(window.begin(), window.end());
  json jobs = json::array();
  for (const JobId id : window) {
    if (client.watched_jobs.contains(id) && !client.unsent_jobs.contains(id)) continue;
    jobs.push_back(describe(coordinator_, *coordinator_.world().job(id)));
  }
  json gone = json::array();
  for (const JobId id : client.watched_jobs) {
    if (!shown.contains(id)) gone.push_back(id.value);
  }
  client.watched_jobs = std::move(shown);
  client.unsent_jobs.clear();
  json changes = {{"event", "changes"}, {"jobs", std::move(jobs)}, {"gone", std::move(gone)}};
  json sweeps = sweeps_of(overview_);
  if (sweeps != client.told_sweeps) {
    changes.update(sweeps);
    client.told_sweeps = std::move(sweeps);
  }
  client.stream->send(dump(changes));
}

/// Others' use of a GPU changes it without a job of ours: hence the timer, while somebody watches.
void Server::look_at_devices(Client& client) {
  loop_.at(coordinator_.now().boot_ns + kDevicesPeriod, [this, id = client.id] {
    Client* c = find(id);
    if (c == nullptr) return;
    if (!c->watches_all) {
      c->looks_at_devices = false;
      return;
    }
    json devices = describe_gpus(coordinator_);
    if (devices != c->told_devices && c->stream->pending() <= kMostUnreadChanges) {
      c->told_devices = devices;
      devices["event"] = "devices";
      c->stream->send(dump(devices));
    }
    look_at_devices(*c);
  });
}

}  // namespace pergpu
