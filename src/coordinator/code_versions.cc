// In the store a file of which one version was seen is its hash, as releases before this one wrote
// it; of several versions it is a list.
#include "coordinator/code_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json_text.h"

namespace pergpu {
namespace {

using nlohmann::json;

/// Of more files, one for each run perhaps, the versions are known to this process only.
constexpr std::size_t kMostKept = 64;
constexpr std::size_t kMostVersions = 16;
/// Jobs whose arguments are looked at for a file that the step's command does not name itself.
constexpr int kMostRendered = 200;

std::string key_of_code(SweepId sweep, const std::string& step) {
  return fmt::format("code {} {}", sweep.value, step);
}

}  // namespace

CodeVersions::CodeVersions(const World& world, Record record, Uses uses)
    : world_(world), record_(std::move(record)), uses_(std::move(uses)) {}

std::string CodeVersions::to_text(const Files& files) {
  json all = json::object();
  for (const auto& [path, versions] : files) {
    if (versions.size() == 1) {
      all[path] = versions.front().hash;
      continue;
    }
    for (const Version& one : versions) {
      all[path].push_back(
          {{"hash", one.hash}, {"since_ns", one.since_wall_ns}, {"job", one.first.value}});
    }
  }
  return json_text(all);
}

CodeVersions::Known CodeVersions::known_of(const std::string& text) {
  Known out;
  Files& files = out.files;
  const json all = json::parse(text, nullptr, false);
  if (!all.is_object()) return out;
  for (const auto& [path, known] : all.items()) {
    if (known.is_string()) files[path].push_back({.hash = known.get<std::string>()});
    if (!known.is_array()) continue;
    for (const json& one : known) {
      const auto hash = one.find("hash");
      const auto since = one.find("since_ns");
      const auto job = one.find("job");
      if (hash == one.end() || !hash->is_string()) continue;
      Version& version = files[path].emplace_back();
      version.hash = hash->get<std::string>();
      if (since != one.end() && since->is_number_integer()) since->get_to(version.since_wall_ns);
      if (job != one.end() && job->is_number_integer()) job->get_to(version.first.value);
    }
  }
  for (const auto& [path, versions] : files) {
    if (versions.size() > 1) out.changed_by[versions.back().first].insert(path);
  }
  return out;
}

/// An earlier coordinator may have seen them.
CodeVersions::Known& CodeVersions::of_step(const Job& job) {
  const auto [it, fresh] = steps_.try_emplace({job.sweep, job.step});
  if (!fresh) return it->second;
  const auto kept = world_.meta().find(key_of_code(job.sweep, world_.step_of(job).spec.name));
  if (kept != world_.meta().end()) it->second = known_of(kept->second);
  return it->second;
}

void CodeVersions::saw(const Job& job,
                       const std::vector<std::pair<std::string, std::string>>& files) {
  Known& known = of_step(job);
  bool is_news = false;
  for (const auto& [path, hash] : files) {
    std::vector<Version>& versions = known.files[path];
    if (!versions.empty() && versions.back().hash == hash) continue;
    if (versions.size() > 1) known.changed_by[versions.back().first].erase(path);
    if (!versions.empty()) known.changed_by[job.id].insert(path);
    const std::int64_t since = versions.empty() ? 0 : job.last->starting_at.wall_ns;
    versions.push_back({.hash = hash, .since_wall_ns = since, .first = job.id});
    if (versions.size() > kMostVersions) versions.erase(versions.begin());
    is_news = true;
  }
  const Step& step = world_.step_of(job);
  if (is_news && known.files.size() <= kMostKept && step.total > 1) {
    record_({.key = key_of_code(job.sweep, step.spec.name), .value = to_text(known.files)});
  }
}

/// A current job of the step has run another version last.
bool CodeVersions::differs(const Step& step, const Job& job, const std::string& path,
                           const std::vector<Version>& versions) const {
  const std::vector<std::string>& words = step.spec.command;
  const bool is_of_all = std::find(words.begin(), words.end(), path) != words.end();
  int rendered = 0;
  for (const JobId id : step.current) {
    const Job* other = world_.job(id);
    if (other == nullptr || id == job.id || !other->last || !world_.is_listed(id)) continue;
    const std::int64_t at = other->last->starting_at.wall_ns;
    const auto ran = std::find_if(versions.rbegin(), versions.rend(),
                                  [&](const Version& one) { return one.since_wall_ns <= at; });
    const std::string& hash = ran == versions.rend() ? versions.front().hash : ran->hash;
    if (hash == versions.back().hash) continue;
    if (is_of_all) return true;
    if (++rendered > kMostRendered) return false;
    if (uses_(*other, path)) return true;
  }
  return false;
}

std::vector<std::string> CodeVersions::warnings_of(const Job& job) {
  std::vector<std::string> warnings;
  if (!job.last || !world_.is_current(job)) return warnings;
  const Step& step = world_.step_of(job);
  const Known& known = of_step(job);
  const auto changed = known.changed_by.find(job.id);
  if (changed == known.changed_by.end()) return warnings;
  for (const std::string& path : changed->second) {
    if (!differs(step, job, path, known.files.at(path))) continue;
    warnings.push_back(
        fmt::format("{} has changed since step {} first started", path, step.spec.name));
  }
  return warnings;
}

}  // namespace pergpu
