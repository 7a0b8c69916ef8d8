// The newest sweeps are named: they are those in use now.
#include "state/selector_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "number.h"
#include "plural.h"
#include "spec/text/suggest.h"
#include "state/selector.h"

namespace pergpu {
namespace {

constexpr std::size_t kMostHinted = 5;
constexpr std::size_t kMostCompared = 1000;  // runs of a sweep: it may have a million

/// Newest first, each once.
std::vector<std::string> sweep_names(const World& world) {
  std::vector<std::pair<std::int64_t, std::string>> all;
  for (const auto& [id, sweep] : world.sweeps()) {
    if (!world.is_forgotten(id)) all.emplace_back(sweep.submitted_at.wall_ns, sweep.name);
  }
  for (const auto& [id, sweep] : world.archived()) all.emplace_back(sweep.at.wall_ns, sweep.name);
  std::ranges::sort(all, std::greater());
  std::vector<std::string> names;
  for (auto& [at, name] : all) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

/// "a, b and c", or the first ones "and 12 more".
std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  const std::size_t shown = names.size() > kMostHinted ? kMostHinted : names.size();
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == names.size();
    text += (i == 0 ? "" : is_last ? " and " : ", ") + names[i];
  }
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string no_sweep(const World& world, const std::string& name) {
  const std::vector<std::string> names = sweep_names(world);
  if (names.empty()) return fmt::format("no sweep is called `{}`; there are none", name);
  const std::string meant = did_you_mean(name, {names.begin(), names.end()});
  const bool is_one = names.size() == 1;
  return fmt::format("no sweep is called `{}`{}", name,
                     meant.empty()
                         ? fmt::format("; there {} {}", is_one ? "is" : "are", list_text(names))
                         : meant);
}

std::string no_job(const World& world, const std::string& selector) {
  const std::size_t dot = selector.find('.');
  const auto id = whole_number<std::int64_t>(selector.substr(0, dot));
  const Job* job = id ? world.job(JobId{*id}) : nullptr;
  if (job == nullptr || world.is_forgotten(job->sweep) || dot == std::string::npos)
    return fmt::format("there is no job {}", selector.substr(0, dot));
  return fmt::format("`{}`: job {} has had only {}", selector, *id,
                     counted(job->attempts, "attempt"));
}

/// The run of this folder or number, else the nearest of them; "": none was meant.
std::string meant_run(const Sweep& sweep, const std::string& run) {
  if (is_pattern(run)) return run;
  const auto index = whole_number<std::size_t>(run);
  if (index && *index < sweep.runs.size()) return run;
  std::vector<std::string_view> folders;
  for (const Run& known : sweep.runs) {
    if (known.folder() == run) return run;
    if (folders.size() < kMostCompared) folders.push_back(known.folder());
  }
  return index ? std::string() : std::string(nearest(run, folders));
}

/// What was meant by a run, a step or `run/step` of the sweep, which it has not; "": no guess.
std::string meant_jobs(const Sweep& sweep, const std::string& run_and_step) {
  const std::size_t slash = run_and_step.find('/');
  const bool has_both = slash != std::string::npos;
  const std::string run = run_and_step.substr(0, slash);
  if (!has_both && is_pattern(run)) return "";
  const std::string typed = has_both ? run_and_step.substr(slash + 1) : run;
  std::vector<std::string_view> steps;
  for (const Step& step : sweep.steps) steps.push_back(step.spec.name);
  const std::string step = is_pattern(typed) ? typed : std::string(nearest(typed, steps));
  const bool is_once = std::ranges::any_of(
      sweep.steps, [&](const Step& known) { return known.spec.once && known.spec.name == step; });
  if (is_once) return step;
  if (step.empty()) return has_both ? "" : meant_run(sweep, run);
  if (!has_both) return "*/" + step;
  const std::string meant = meant_run(sweep, run);
  return meant.empty() ? "" : fmt::format("{}/{}", meant, step);
}

/// ", only the runs 0 to 11 and the step train"
std::string runs_and_steps(const Sweep& sweep) {
  const std::size_t runs = sweep.runs.size();
  std::vector<std::string> steps;
  for (const Step& step : sweep.steps) steps.push_back(step.spec.name);
  std::string text = runs == 0   ? ", only "
                     : runs == 1 ? ", only run 0 and "
                                 : fmt::format(", only the runs 0 to {} and ", runs - 1);
  return text + (steps.size() == 1 ? "the step " : "the steps ") + list_text(steps);
}

/// `sweep`: null when it is archived, and its runs and steps are not known.
std::string no_run_or_step(const Sweep* sweep, const std::string& name,
                           const std::string& run_and_step) {
  const std::string meant = sweep == nullptr ? "" : meant_jobs(*sweep, run_and_step);
  const std::string nothing =
      fmt::format("nothing matches `{0}/{1}`: {0} has no such run or step", name, run_and_step);
  if (!meant.empty() && meant != run_and_step)
    return fmt::format("{}; did you mean `{}/{}`?", nothing, name, meant);
  return fmt::format("{}{}; `pergpu ps -a {}` lists them", nothing,
                     sweep == nullptr ? "" : runs_and_steps(*sweep), name);
}

}  // namespace

std::string nothing_named(const World& world, const std::string& selector) {
  const bool is_number =
      !selector.empty() && selector.find_first_not_of("0123456789.") == std::string::npos;
  if (is_number) return no_job(world, selector);
  const std::string name = selector.substr(0, selector.find('/'));
  const bool has_rest = name.size() < selector.size();
  const std::string rest = has_rest ? selector.substr(name.size() + 1) : "";
  const Sweep* sweep = has_rest && !is_pattern(name) ? sweep_called(world, name) : nullptr;
  if (sweep != nullptr) return no_run_or_step(sweep, name, rest);
  if (name.starts_with('@')) {
    const std::size_t count = sweep_names(world).size();
    return fmt::format("`{}`: there {} {}", selector, count == 1 ? "is only" : "are only",
                       counted(count, "sweep"));
  }
  const std::vector<std::string> names = sweep_names(world);
  if (has_rest && std::ranges::find(names, name) != names.end())
    return no_run_or_step(nullptr, name, rest);
  if (is_pattern(name)) {
    return fmt::format("nothing matches `{}`{}", selector,
                       names.empty() ? "; there are no sweeps" : "; there are " + list_text(names));
  }
  return no_sweep(world, name);
}

}  // namespace pergpu
