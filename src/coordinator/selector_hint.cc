// The newest sweeps are named: they are what somebody works with now.
#include "coordinator/selector_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "number.h"
#include "spec/suggest.h"

namespace pergpu {
namespace {

constexpr std::size_t kNamed = 5;

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
  const std::size_t shown = names.size() > kNamed ? kNamed : names.size();
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
  return fmt::format("`{}`: job {} has had only {} attempt{}", selector, *id, job->attempts,
                     job->attempts == 1 ? "" : "s");
}

}  // namespace

std::string nothing_named(const World& world, const std::string& selector) {
  const bool is_number =
      !selector.empty() && selector.find_first_not_of("0123456789.") == std::string::npos;
  if (is_number) return no_job(world, selector);
  const std::string name = selector.substr(0, selector.find('/'));
  if (name.starts_with('@')) {
    const std::size_t count = sweep_names(world).size();
    return fmt::format("`{}`: there {} {} sweep{}", selector, count == 1 ? "is only" : "are only",
                       count, count == 1 ? "" : "s");
  }
  const std::vector<std::string> names = sweep_names(world);
  if (std::ranges::find(names, name) != names.end() && name.size() < selector.size()) {
    return fmt::format(
        "nothing matches `{}`: {} has no such run or step; `pergpu ps -a {}` lists "
        "them",
        selector, name, name);
  }
  if (name.find_first_of("*?[\\") != std::string::npos) {
    return fmt::format("nothing matches `{}`{}", selector,
                       names.empty() ? "; there are no sweeps" : "; there are " + list_text(names));
  }
  return no_sweep(world, name);
}

}  // namespace pergpu
