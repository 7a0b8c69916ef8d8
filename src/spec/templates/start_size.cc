// What a program start is made of, as the kernel counts it: strings, and a pointer to each.
#include "spec/templates/start_size.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "spec/templates/placeholders.h"

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

namespace {

/// Words of {args} or {overrides}: the same each time.
class WordSizes {
 public:
  explicit WordSizes(const RenderScope& scope) : scope_(scope) {}
  Result<std::vector<std::size_t>> sizes(Builtin b) {
    auto [it, is_new] = known_.try_emplace(b);
    if (!is_new) return it->second;
    const Result<std::vector<std::string>> words = words_of(b, scope_);
    if (!words) return words.error();
    for (const std::string& word : *words) it->second.push_back(word.size());
    return it->second;
  }

 private:
  const RenderScope& scope_;
  std::map<Builtin, std::vector<std::size_t>> known_;
};

Result<void> add_command(StartSize& size, const StepSpec& step, const RenderScope& scope) {
  WordSizes words(scope);
  for (const Template& t : step.command) {
    if (const std::optional<Builtin> several = words_builtin(t, scope)) {
      const Result<std::vector<std::size_t>> sizes = words.sizes(*several);
      if (!sizes) return sizes.error();
      for (const std::size_t bytes : *sizes) add(size, bytes, "command");
      continue;
    }
    const Result<std::size_t> bytes = rendered_size(t, scope);
    if (!bytes) return bytes.error();
    add(size, *bytes, "command");
  }
  return {};
}

Result<StartSize> size_of(const StepSpec& step, const RenderScope& scope) {
  StartSize size;
  if (!step.command.empty()) {
    if (Result<void> added = add_command(size, step, scope); !added)
      return std::move(added).error();
  } else {
    const Result<std::vector<std::string>> argv = render_argv(step, scope);
    if (!argv) return argv.error();
    for (const std::string& word : *argv) add(size, word.size(), "shell");
  }
  for (const auto& [name, value] : step.env) {
    const Result<std::size_t> bytes = rendered_size(value, scope);
    if (!bytes) return bytes.error();
    add(size, name.size() + 1 + *bytes, "env");
  }
  return size;
}

/// How often values may stand in what is given to its program.
std::size_t count_placeholders(const StepSpec& step) {
  std::size_t count = 0;
  const auto look = [&](const Template& t) {
    visit_template(t, [&](const TemplatePart& part) {
      count += part.kind == TemplatePart::Kind::Text ? 0 : 1;
    });
  };
  for (const Template& t : step.command) look(t);
  for (const auto& [name, value] : step.env) look(value);
  return count;
}

/// Runs with less cannot make anything too long.
std::size_t large_run_bytes(const StepSpec& step) {
  constexpr std::size_t kLarge = 4096;
  return std::min(kLarge,
                  kMostArgumentBytes / 2 / std::max<std::size_t>(count_placeholders(step), 1));
}

}  // namespace

Result<StartSize> start_size(const StepSpec& step, const RunSpec& run) {
  Result<RenderScope> scope = scope_of(run);
  if (!scope) return std::move(scope).error();
  scope->step_out = [](std::string_view name) { return std::string(name); };
  Result<StartSize> size = size_of(step, *scope);
  if (!size) return size;
  for (const auto& [name, value] : param_env(scope->parameters, step))
    add(*size, name.size() + 1 + value.size(), step.shell.empty() ? "command" : "shell");
  const auto& all = scope->parameters.all();
  const auto longest = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (longest != all.end()) size->parameter = longest->first;
  return size;
}

Result<StartSize> start_size_once(const StepSpec& step, const std::string& runs_lines) {
  RenderScope scope;
  scope.step_out = [](std::string_view name) { return std::string(name); };
  scope.runs_lines = [&] { return runs_lines; };
  return size_of(step, scope);
}

void visit_start_sizes(const StepSpec& step, const std::vector<RunSpec>& runs,
                       const std::function<bool(const StartOfRun&)>& visit) {
  if (step.once) {
    // Where the lines are too long that is another mistake, and reported.
    std::size_t bytes = 0;
    for (const RunSpec& run : runs) bytes += run.json.size() + 1;
    const bool has_lines = uses_runs(step) && bytes <= kMostArgumentBytes;
    Result<StartSize> size = start_size_once(step, has_lines ? runs_lines(runs) : std::string());
    if (size) (void)visit({.size = *std::move(size)});
    return;
  }
  const std::size_t large = large_run_bytes(step);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0 && runs[i].json.size() + runs[i].texts.size() <= large) continue;
    Result<StartSize> size = start_size(step, runs[i]);
    const auto number = static_cast<std::int64_t>(i);
    if (size && !visit({.run = number, .size = *std::move(size)})) return;
  }
}

std::string why_too_long(const StartOfRun& start) {
  const StartSize& size = start.size;
  if (size.longest <= kMostArgumentBytes) return {};
  const std::string why = size.parameter.empty() || start.run < 0
                              ? ""
                              : fmt::format(" (`{}` of run {})", size.parameter, start.run);
  return fmt::format(
      "`{}`: one argument or variable would have {} bytes{}, but the kernel allows at most {}: let "
      "the program read {}",
      size.where, size.longest, why, kMostArgumentBytes,
      start.run < 0           ? "a file"
      : size.where == "shell" ? "the parameters from the file $PERGPU_CONFIG"
                              : "the parameters from the file {config}");
}

}  // namespace pergpu
