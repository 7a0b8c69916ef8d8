// A name may exist under several output roots: then the newest sweep does not simply win, the
// candidates are listed.
#include "state/selector.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>

#include "number.h"
#include "plural.h"
#include "state/selector_hint.h"

namespace pergpu {
namespace {

bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

std::vector<std::string> parts_of(const std::string& selector) {
  std::vector<std::string> parts{""};
  for (char c : selector) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Error not_found(const World& world, const std::string& selector) {
  return Error{ErrorKind::NotFound, 0, nothing_named(world, selector)};
}

struct NamedJob {
  JobId id = {};
  std::optional<std::int64_t> attempt = std::nullopt;
};
/// "17", "17.2"
std::optional<NamedJob> job_named(const std::string& selector) {
  const std::size_t dot = selector.find('.');
  const std::optional<std::int64_t> id = whole_number<std::int64_t>(selector.substr(0, dot));
  if (!id) return std::nullopt;
  if (dot == std::string::npos) return NamedJob{.id = {*id}};
  const std::optional<std::int64_t> attempt = whole_number<std::int64_t>(selector.substr(dot + 1));
  if (!attempt) return std::nullopt;
  return NamedJob{.id = {*id}, .attempt = attempt};
}

bool is_back_reference(const std::string& name) { return !name.empty() && name.front() == '@'; }

struct NamedSweep {
  std::string name = {};
  SweepId id = {};
};
/// "thirteen@14".  A name may hold an @ itself: the caller has looked for the whole name first.
std::optional<NamedSweep> numbered(const std::string& text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string::npos || at == 0) return std::nullopt;
  const std::optional<std::int64_t> id = whole_number<std::int64_t>(text.substr(at + 1));
  if (!id || *id < 1) return std::nullopt;
  return NamedSweep{.name = text.substr(0, at), .id = SweepId{*id}};
}

/// "  thirteen@14, submitted 2026-11-21 13:00, 18 jobs, results in /data/runs"
std::string candidate(const Sweep& sweep) {
  std::string at = rfc3339(sweep.submitted_at.wall_ns).substr(0, 16);
  std::ranges::replace(at, 'T', ' ');
  return fmt::format("\n  {}@{}, submitted {} UTC, {}, results in {}", sweep.name, sweep.id.value,
                     at, counted(sweep.jobs, "job"), sweep.root);
}

Result<std::vector<const Sweep*>> sweeps_named(const World& world, const std::string& name) {
  std::vector<const Sweep*> found;
  if (is_back_reference(name)) {
    const Result<SweepId> back = sweep_back(world, name);
    if (!back) return back.error();
    if (const Sweep* sweep = world.sweep(*back)) found.push_back(sweep);
    if (found.empty()) return not_found(world, name);
    return found;
  }
  for (const auto& [id, sweep] : world.sweeps()) {
    if (matches(name, sweep.name) && !world.is_forgotten(id)) found.push_back(&sweep);
  }
  const std::optional<NamedSweep> one = found.empty() ? numbered(name) : std::nullopt;
  if (one) {
    const Sweep* sweep = world.sweep(one->id);
    const bool is_it = sweep != nullptr && !world.is_forgotten(sweep->id);
    if (is_it && one->name == sweep->name) found.push_back(sweep);
  }
  if (found.empty()) return not_found(world, name);
  if (found.size() > 1 && !is_pattern(name)) {
    std::string list;
    for (const Sweep* sweep : found) list += candidate(*sweep);
    return invalid(fmt::format("`{}` names {} sweeps; type the one you mean (@ is the last):{}",
                               name, found.size(), list));
  }
  return found;
}

/// What ran when the file was changed goes on, and is as much the sweep's as what replaced it.
void take_step(const World& world, const Step& step, std::int32_t run, Selection& out) {
  const std::size_t place = run < 0 ? 0 : static_cast<std::size_t>(run);
  if (place >= step.current.size() || !step.current[place]) return;
  out.jobs.push_back(step.current[place]);
  for (JobId old = world.replaces(step.current[place]); old; old = world.replaces(old)) {
    if (!is_ended(world.job(old)->state)) out.older.push_back(old);
  }
}

void take(const World& world, const Sweep& sweep, const std::vector<std::string>& parts,
          Selection& out) {
  const std::string run_part = parts.size() > 1 ? parts[1] : "*";
  const std::string step_part = parts.size() > 2 ? parts[2] : "*";
  const std::optional<std::int64_t> index = whole_number<std::int64_t>(run_part);
  for (const Step& step : sweep.steps) {
    if (step.spec.once) {
      const bool named = matches(run_part, "_once") && matches(step_part, step.spec.name);
      const bool short_form = parts.size() == 2 && matches(run_part, step.spec.name);
      if (named || short_form || parts.size() == 1) take_step(world, step, -1, out);
      continue;
    }
    if (!matches(step_part, step.spec.name)) continue;
    for (std::size_t run = 0; run < sweep.runs.size(); ++run) {
      const bool hit = index ? *index == static_cast<std::int64_t>(run)
                             : matches(run_part, std::string(sweep.runs[run].folder()));
      if (hit) take_step(world, step, static_cast<std::int32_t>(run), out);
    }
  }
}

void sort_once(std::vector<JobId>& jobs) {
  std::sort(jobs.begin(), jobs.end());
  jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
}

}  // namespace

bool is_pattern(const std::string& name) {
  return name.find_first_of("*?[\\") != std::string::npos;
}

std::vector<JobId> Selection::all() const {
  std::vector<JobId> both = jobs;
  both.insert(both.end(), older.begin(), older.end());
  std::sort(both.begin(), both.end());
  return both;
}

std::string selector_of(const World& world, const Sweep& sweep) {
  if (world.sweeps_named(sweep.name).size() < 2) return sweep.name;
  return fmt::format("{}@{}", sweep.name, sweep.id.value);
}

std::string selector_of(const World& world, const Job& job) {
  const Sweep& sweep = world.sweep_of(job);
  const Step& step = world.step_of(job);
  const std::string name = selector_of(world, sweep);
  if (job.run < 0) return fmt::format("{}/{}", name, step.spec.name);
  const auto has_runs = [](const Step& one) { return one.listed && !one.spec.once; };
  const bool is_only = step.listed && std::ranges::count_if(sweep.steps, has_runs) == 1;
  return is_only ? fmt::format("{}/{}", name, job.run)
                 : fmt::format("{}/{}/{}", name, job.run, step.spec.name);
}

const Sweep* sweep_called(const World& world, const std::string& name) {
  if (is_back_reference(name)) {
    const Result<SweepId> back = sweep_back(world, name);
    return back ? world.sweep(*back) : nullptr;
  }
  for (const SweepId id : world.sweeps_named(name)) {
    if (const Sweep* sweep = world.sweep(id)) return sweep;
  }
  const std::optional<NamedSweep> one = numbered(name);
  const Sweep* sweep = one ? world.sweep(one->id) : nullptr;
  const bool is_it = sweep != nullptr && sweep->name == one->name && !world.is_forgotten(sweep->id);
  return is_it ? sweep : nullptr;
}

Result<SweepId> sweep_back(const World& world, const std::string& name) {
  const std::optional<std::int64_t> back =
      name.size() == 1 ? 1 : whole_number<std::int64_t>(name.substr(1));
  if (!back || *back < 1) return invalid(fmt::format("`{}`: expected @, @2, @3 …", name));
  std::vector<std::pair<std::int64_t, SweepId>> all;
  for (const auto& [id, sweep] : world.sweeps()) {
    if (!world.is_forgotten(id)) all.emplace_back(sweep.submitted_at.wall_ns, id);
  }
  for (const auto& [id, sweep] : world.archived()) all.emplace_back(sweep.at.wall_ns, id);
  const auto place = static_cast<std::size_t>(*back - 1);
  if (place >= all.size()) return not_found(world, name);
  // The last submitted comes first.
  std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(place), std::greater());
  return all[place].second;
}

std::vector<SweepId> archived_by(const World& world, const std::vector<std::string>& selectors) {
  std::vector<SweepId> found;
  for (const std::string& selector : selectors) {
    if (const std::optional<NamedJob> job = job_named(selector)) {
      std::ranges::copy(world.archived_with(job->id), std::back_inserter(found));
      continue;
    }
    const std::string name = parts_of(selector).front();
    if (is_back_reference(name)) {
      if (const Result<SweepId> back = sweep_back(world, name); back) found.push_back(*back);
    } else if (!is_pattern(name)) {
      const std::vector<SweepId> named = world.sweeps_named(name);
      std::ranges::copy(named, std::back_inserter(found));
      const std::optional<NamedSweep> one = named.empty() ? numbered(name) : std::nullopt;
      const auto known = world.archived().find(one ? one->id : SweepId{});
      if (known != world.archived().end() && known->second.name == one->name) {
        found.push_back(known->first);
      }
    } else {
      for (const auto& [id, archived] : world.archived()) {
        if (matches(name, archived.name)) found.push_back(id);
      }
    }
  }
  std::erase_if(found, [&](SweepId id) { return !world.archived().contains(id); });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Result<Selection> select_jobs(const World& world, const std::string& selector) {
  Selection out;
  if (const std::optional<NamedJob> named = job_named(selector)) {
    const Job* job = world.job(named->id);
    const std::int64_t attempt = named->attempt.value_or(1);
    const bool is_there = job != nullptr && !world.is_forgotten(job->sweep) &&
                          (!named->attempt || (attempt >= 1 && attempt <= job->attempts));
    if (!is_there) return not_found(world, selector);
    out.jobs.push_back(job->id);
    if (named->attempt) out.attempts[job->id] = static_cast<int>(attempt);
    return out;
  }
  const std::vector<std::string> parts = parts_of(selector);
  if (parts.size() > 3 || parts.front().empty()) {
    return invalid(fmt::format(
        "`{}`: expected JOB, JOB.ATTEMPT, SWEEP, SWEEP/RUN or SWEEP/RUN/STEP", selector));
  }
  Result<std::vector<const Sweep*>> sweeps = sweeps_named(world, parts.front());
  if (!sweeps) return std::move(sweeps).error();
  for (const Sweep* sweep : *sweeps) take(world, *sweep, parts, out);
  if (out.jobs.empty()) return not_found(world, selector);
  std::sort(out.jobs.begin(), out.jobs.end());
  std::sort(out.older.begin(), out.older.end());
  return out;
}

Result<Selection> select_jobs(const World& world, const std::vector<std::string>& selectors) {
  Selection all;
  for (const std::string& selector : selectors) {
    Result<Selection> one = select_jobs(world, selector);
    if (!one) return one;
    all.jobs.insert(all.jobs.end(), one->jobs.begin(), one->jobs.end());
    all.older.insert(all.older.end(), one->older.begin(), one->older.end());
    all.attempts.merge(one->attempts);
  }
  sort_once(all.jobs);
  sort_once(all.older);
  // Named by its number, too: once.
  std::erase_if(all.older, [&](JobId id) { return std::ranges::binary_search(all.jobs, id); });
  return all;
}

Result<void> check_attempts(const World& world, const Selection& selection) {
  for (const auto& [id, attempt] : selection.attempts) {
    const Job& job = *world.job(id);
    if (is_live(job.state) && job.attempts == attempt) continue;
    std::string message = fmt::format("attempt {} of job {} is over", attempt, id.value);
    message +=
        is_live(job.state)
            ? fmt::format("; the running one is {}.{}", id.value, job.attempts)
            : fmt::format(" and the job is {}; name the job: {}", to_string(job.state), id.value);
    return Error{ErrorKind::Invalid, 0, std::move(message)};
  }
  return {};
}

}  // namespace pergpu
