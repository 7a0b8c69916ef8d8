// What `pergpu clean` asks: which sweeps may go, and that they go.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/request.h"
#include "coordinator/code_place.h"
#include "duration.h"
#include "server/server.h"
#include "server/server_client.h"
#include "slurm/cluster.h"
#include "spec/text/units.h"
#include "state/selector.h"

namespace pergpu {

using nlohmann::json;

namespace {

json described(const World& world, const Sweep& sweep, bool results) {
  json one = {{"id", sweep.id.value},     {"sweep", sweep.name},
              {"jobs", sweep.jobs},       {"ended_at", rfc3339(world.last_touched_ns(sweep))},
              {"folder", sweep.folder()}, {"aside", World::aside_of(sweep)}};
  if (!results) return one;
  json runs = json::array();
  for (const Run& run : sweep.runs) runs.push_back(run.folder());
  const bool has_once = std::any_of(sweep.steps.begin(), sweep.steps.end(),
                                    [](const Step& step) { return step.spec.once; });
  if (has_once) runs.push_back("_once");
  if (sweep.context.engine == kSlurm) runs.push_back(Cluster::kFolder);
  const bool has_copy = std::any_of(sweep.steps.begin(), sweep.steps.end(),
                                    [](const Step& step) { return !step.spec.copy.empty(); });
  if (has_copy) runs.push_back(kCodeFolder);
  if (sweep.context.add) runs.push_back("_calls");  // of executors (python/pergpu/_calls.py)
  one["runs"] = std::move(runs);
  return one;
}

/// The sweeps that are named; REQUIRES: none of them is archived.
Result<std::set<SweepId>> sweeps_named(const World& world,
                                       const std::vector<std::string>& selectors) {
  std::set<SweepId> named;
  for (const std::string& selector : selectors) {
    const bool is_job = selector.find_first_not_of("0123456789.") == std::string::npos;
    if (is_job || selector.find('/') != std::string::npos) {
      return Error{
          ErrorKind::Invalid, 0,
          fmt::format("`{}`: clean removes whole sweeps; name SWEEP (it can contain *), or @",
                      selector)};
    }
    Result<Selection> selected = select_jobs(world, selector);
    if (!selected) return std::move(selected).error();
    for (const JobId job : selected->jobs) named.insert(world.job(job)->sweep);
  }
  return named;
}

}  // namespace

void Server::clean(std::uint64_t id, const Request& request) {
  Client* client = find(id);
  if (client == nullptr) return;  // who would remove the results?
  const World& world = coordinator_.world();
  const Request::Clean& asked = request.clean;
  std::set<SweepId> named;
  if (!request.selectors.empty()) {
    Result<std::set<SweepId>> found = sweeps_named(world, request.selectors);
    if (!found) return fail(id, code_of(found.error()), found.error().message);
    named = *std::move(found);
  } else if (asked.older_s == 0) {
    return fail(id, kUsage, "clean: name the sweeps, or give their age: --older 30d");
  } else {
    for (const auto& [sweep, known] : world.sweeps()) {
      if (!world.is_forgotten(sweep)) named.insert(sweep);
    }
  }

  const std::int64_t now = coordinator_.now().wall_ns;
  const std::string age = format_duration(std::chrono::seconds(asked.older_s));
  json sweeps = json::array();
  json left = json::array();
  std::vector<SweepId> taken;  // ascending
  const Coordinator::CleanFacts facts = coordinator_.clean_facts(asked.results);
  for (const SweepId one : named) {
    const Sweep& sweep = *world.sweep(one);
    std::string why = coordinator_.why_not_cleaned(sweep, facts);
    const bool is_young =
        asked.older_s > 0 && now - world.last_touched_ns(sweep) < asked.older_s * kSecond;
    if (why.empty() && is_young) why = "it ended less than " + age + " ago";
    if (why.empty()) {
      sweeps.push_back(described(world, sweep, asked.results));
      taken.push_back(one);
    } else if (!request.selectors.empty()) {
      left.push_back({{"id", one.value}, {"sweep", sweep.name}, {"why", why}});
    }
  }
  json others = json::array();
  json aside = json::array();
  for (const Coordinator::CleanFacts::Folder& folder : facts.folders) {
    if (!std::ranges::binary_search(taken, folder.sweep)) others.push_back(folder.path);
  }
  if (asked.results) {
    for (const auto& [other, folder] : world.put_aside()) {
      if (!coordinator_.is_cleaning(other)) {
        aside.push_back({{"id", other.value}, {"folder", folder}});
      }
    }
  }
  if (asked.take && asked.results) {
    coordinator_.begin_cleaning(taken);
    client->cleaning.insert(taken.begin(), taken.end());
  } else if (asked.take) {
    coordinator_.forget(taken, /*results=*/false);
  }
  coordinator_.when_durable(
      [this, id,
       reply_data = json{{"schema", 1},
                         {"sweeps", std::move(sweeps)},
                         {"left", std::move(left)},
                         {"others", std::move(others)},
                         {"aside", std::move(aside)}}] { reply(id, reply_data); });
}

/// Only who keeps submits out of a folder may move what lies there, and knows that all is moved.
void Server::move(std::uint64_t id, SweepId sweep, bool is_moved) {
  const Client* client = find(id);
  if (client == nullptr || !client->cleaning.contains(sweep)) {
    return fail(id, kUsage, "that sweep is not being cleaned over this connection");
  }
  if (is_moved) {
    coordinator_.forget({sweep}, /*results=*/true);
  } else {
    coordinator_.begin_moving(sweep);
  }
  coordinator_.when_durable([this, id] { reply(id, json::object()); });
}

void Server::end_cleaning(std::uint64_t id, SweepId sweep) {
  coordinator_.end_cleaning(sweep, /*all_told=*/true);
  if (Client* client = find(id)) client->cleaning.erase(sweep);
  coordinator_.when_durable([this, id] { reply(id, json::object()); });
}

}  // namespace pergpu
