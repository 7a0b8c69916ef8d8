// The stream of everything (`watch` with `all`): a window over the jobs that slides, sent as
// differences.  A line is never larger than the window, whatever happens to a million jobs; and a
// limited number of its jobs is described in a turn of the loop.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/describe.h"
#include "server/server.h"
#include "server/server_client.h"

namespace pergpu {

using nlohmann::json;

namespace {

// As often as a screen is drawn.
constexpr std::int64_t kChangesPeriod = 250 * kMillisecond;
constexpr std::int64_t kDevicesPeriod = kSecond;
/// A peer that has not read this much yet gets the rest later, in one.
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
    std::vector<JobId> window = overview_.window();
    c->watching = true;
    c->beginning = true;
    c->watches_all = true;
    c->watched_jobs = std::unordered_set<JobId>(window.begin(), window.end());
    c->open_jobs.clear();
    c->unsent.clear();
    c->unsent_jobs.clear();
    c->told_ns = coordinator_.now().boot_ns;
    const auto listing = std::make_shared<Listing>(Listing{.jobs = std::move(window)});
    in_turns(id, [this, listing](Client& client) {
      if (!describe_jobs(*listing, Request::Op::Watch)) return false;
      begin_overview(client, listing->text);
      return true;
    });
  });
}

/// `jobs`: JSON, with commas between them.
void Server::begin_overview(Client& client, const std::string& jobs) {
  client.beginning = false;
  client.told_ns = coordinator_.now().boot_ns;
  client.told_sweeps = sweeps_of(overview_);
  client.told_devices = describe_gpus(coordinator_);
  json rest = {{"event", "snapshot"}, {"all", true}};
  rest.update(client.told_sweeps);
  rest.update(client.told_devices);
  std::string text = dump(rest);
  text.back() = ',';
  answer_text(client, text + R"("jobs":[)" + jobs + "]}");
  if (!std::exchange(client.looks_at_devices, true)) look_at_devices(client);
}

/// Of the jobs that are not shown nothing is kept: they are looked at when they come into the
/// window.
void Server::note_change(Client& client, const std::vector<JobId>& jobs) {
  for (const JobId id : jobs) {
    if (client.watched_jobs.contains(id)) client.unsent_jobs.insert(id);
  }
  flush_at(client, client.told_ns + kChangesPeriod);
}

void Server::tell_changes(Client& client) {
  client.told_ns = coordinator_.now().boot_ns;
  const bool waits = client.beginning || client.stream->pending() > kMostUnreadChanges;
  if (waits) return note_change(client, {});
  const std::vector<JobId> window = overview_.window();
  std::unordered_set<JobId> shown;
  json jobs = json::array();
  bool is_all = true;
  for (const JobId id : window) {
    const bool is_known = client.watched_jobs.contains(id);
    if (is_known) shown.insert(id);
    if (is_known && !client.unsent_jobs.contains(id)) continue;
    is_all = jobs.size() < kDescribedInATurn;
    if (!is_all) continue;
    jobs.push_back(describe(coordinator_, *coordinator_.world().job(id)));
    client.unsent_jobs.erase(id);
    shown.insert(id);
  }
  json gone = json::array();
  for (const JobId id : client.watched_jobs) {
    if (!shown.contains(id)) gone.push_back(id.value);
  }
  client.watched_jobs = std::move(shown);
  std::erase_if(client.unsent_jobs, [&](JobId id) { return !client.watched_jobs.contains(id); });
  json changes = {{"event", "changes"}, {"jobs", std::move(jobs)}, {"gone", std::move(gone)}};
  // Counts are not ahead of the jobs.
  json sweeps = is_all ? sweeps_of(overview_) : client.told_sweeps;
  if (sweeps != client.told_sweeps) {
    changes.update(sweeps);
    client.told_sweeps = std::move(sweeps);
  }
  client.stream->send(dump(changes));
  if (!is_all) flush_at(client, client.told_ns);
}

/// Others' use of a GPU changes it without our jobs, so there is a timer while a client watches.
void Server::look_at_devices(Client& client) {
  loop_.at(coordinator_.now().boot_ns + kDevicesPeriod, [this, id = client.id] {
    Client* c = find(id);
    if (c == nullptr) return;
    if (!c->watches_all) {
      c->looks_at_devices = false;
      return;
    }
    if (c->beginning) return look_at_devices(*c);
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
