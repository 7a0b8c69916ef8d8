// What a program start is made of, as the kernel counts it: strings, and a pointer to each.
#include "spec/start_size.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "spec/placeholders.h"

namespace pergpu {
namespace {

/// Of its string and of the pointer to it.
std::size_t cost_of(std::size_t bytes) { return bytes + 1 + sizeof(char*); }

void add(StartSize& size, std::size_t bytes, std::string_view where) {
  size.total += cost_of(bytes);
  if (bytes <= size.longest) return;
  size.longest = bytes;
  size.where = where;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> param_env(const RunParameters& parameters,
                                                           const StepSpec& step) {
  const auto is_named = [&](const std::string& variable) {
    const auto names_it = [&](const std::string& text) {
      return text.find(variable) != std::string::npos;
    };
    return names_it(step.shell) || std::any_of(step.command.begin(), step.command.end(), names_it);
  };
  const std::vector<std::pair<std::string, std::string>> all = param_env(parameters);
  std::vector<std::size_t> by_size(all.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  const auto size_of = [&](std::size_t i) { return all[i].first.size() + all[i].second.size(); };
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) < size_of(b); });
  std::vector<bool> kept(all.size(), false);
  std::size_t sum = 0;
  for (std::size_t i : by_size) {
    sum += size_of(i);
    const bool is_short = size_of(i) <= kMostParamEnvBytes && sum <= kMostParamEnvBytesInAll;
    kept[i] = is_short || is_named(all[i].first);
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (kept[i]) out.push_back(all[i]);
  return out;
}

Result<StartSize> start_size(const StepSpec& step, const RunSpec& run) {
  Result<RenderScope> scope = scope_of(run);
  if (!scope) return std::move(scope).error();
  scope->step_out = [](std::string_view name) { return std::string(name); };
  StartSize size;
  const Result<std::vector<std::string>> argv = render_argv(step, *scope);
  if (!argv) return argv.error();
  for (const std::string& word : *argv)
    add(size, word.size(), step.shell.empty() ? "command" : "shell");
  const auto env = render_env(step, *scope);
  if (!env) return env.error();
  for (const auto& [name, value] : *env) add(size, name.size() + 1 + value.size(), "env");
  for (const auto& [name, value] : param_env(scope->parameters, step))
    add(size, name.size() + 1 + value.size(), step.shell.empty() ? "command" : "shell");
  const auto& all = scope->parameters.all();
  const auto longest = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (longest != all.end()) size.parameter = longest->first;
  return size;
}

void visit_large_runs(const std::vector<RunSpec>& runs,
                      const std::function<bool(std::size_t)>& visit) {
  constexpr std::size_t kLarge = 4096;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool is_large = runs[i].json.size() + runs[i].texts.size() > kLarge;
    if ((i == 0 || is_large) && !visit(i)) return;
  }
}

}  // namespace pergpu
