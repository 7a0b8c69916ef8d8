// What is compared of a step is what makes a job's identity (spec/sweep/identity.h): all else is
// that of the last submit for the whole sweep, as it is without --add.
#include "state/added_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "spec/templates/placeholders.h"
#include "spec/templates/run_parameters.h"
#include "state/readiness.h"

namespace pergpu {
namespace {

Error refused(const std::string& what) { return Error{ErrorKind::Invalid, 0, "--add: " + what}; }

const StepSpec* step_named(const SweepSpec& sweep, const std::string& name) {
  const auto named = [&](const StepSpec& step) { return step.name == name; };
  const auto it = std::find_if(sweep.steps.begin(), sweep.steps.end(), named);
  return it == sweep.steps.end() ? nullptr : &*it;
}

/// In which order they stand does not matter.
std::vector<std::pair<std::string, Need::Scope>> needs_of(const SweepSpec& sweep,
                                                          const StepSpec& step) {
  std::vector<std::pair<std::string, Need::Scope>> needs;
  for (const Need& need : step.needs) {
    needs.emplace_back(sweep.steps[static_cast<std::size_t>(need.step)].name, need.scope);
  }
  std::sort(needs.begin(), needs.end());
  return needs;
}

/// The key in which two definitions of a step differ; "": they give the same jobs.
std::string difference(const SweepSpec& file, const StepSpec& a, const SweepSpec& known,
                       const StepSpec& b) {
  if (a.once != b.once) return "once";
  if (a.command != b.command) return "command";
  if (a.shell != b.shell) return "shell";
  if (a.cwd != b.cwd) return "cwd";
  if (a.env != b.env) return "env";
  if (a.outputs != b.outputs) return "outputs";
  if (needs_of(file, a) != needs_of(known, b)) return "needs";
  return {};
}

}  // namespace

Result<void> check_growth(const SweepSpec& file) {
  for (const StepSpec& step : file.steps) {
    if (uses_runs(step)) {
      return refused(
          fmt::format("step {} uses all runs of the sweep ({{runs}}), so runs can't be added; "
                      "submit the whole file without --add",
                      step.name));
    }
    for (const Need& need : step.needs) {
      const StepSpec& needed = file.steps[static_cast<std::size_t>(need.step)];
      if (effective_scope(step, need, needed) == Need::Scope::SameRun) continue;
      return refused(
          fmt::format("step {} needs {} of all runs of the sweep, so runs can't be added; submit "
                      "the whole file without --add",
                      step.name, needed.name));
    }
  }
  return {};
}

Result<void> check_growth(const SweepSpec& file, const Sweep& known) {
  if (Result<void> alone = check_growth(file); !alone) return alone;
  const SweepSpec declared = World::declared(known);
  for (const StepSpec& theirs : declared.steps) {
    const StepSpec* ours = step_named(file, theirs.name);
    if (ours == nullptr) {
      return refused(
          fmt::format("the file lacks step {}, which sweep {} has: --add can't change the steps",
                      theirs.name, known.name));
    }
    const std::string key = difference(file, *ours, declared, theirs);
    if (key.empty()) continue;
    return refused(
        fmt::format("`{}` of step {} is not what sweep {} has, and --add can't change existing "
                    "rows; submit the whole file without --add, or give the sweep another name",
                    key, theirs.name, known.name));
  }
  for (const StepSpec& ours : file.steps) {
    if (step_named(declared, ours.name) != nullptr) continue;
    return refused(
        fmt::format("sweep {} has no step {}: --add can't change the steps; submit the whole file "
                    "without --add",
                    known.name, ours.name));
  }
  return {};
}

std::vector<std::string> columns_with(const Sweep& known, const SweepSpec& file) {
  std::vector<std::string> columns = known.spec.columns;
  const auto add = [&](const std::string& name) {
    if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  };
  for (const std::string& name : file.columns) add(name);
  // In all other parameters the rows of each side are alike, so any two of them show it.
  const auto one =
      std::find_if(known.runs.begin(), known.runs.end(), [](const Run& run) { return run.listed; });
  if (one == known.runs.end() || file.runs.empty()) return columns;
  const Result<RunParameters> theirs = RunParameters::parse(one->spec());
  const Result<RunParameters> ours = RunParameters::parse(file.runs.front());
  if (!theirs || !ours) return columns;
  for (const auto& [name, text] : ours->all()) {
    const std::string* other = theirs->text(name);
    if (other == nullptr || *other != text) add(name);
  }
  for (const auto& [name, text] : theirs->all()) {
    if (ours->text(name) == nullptr) add(name);
  }
  return columns;
}

}  // namespace pergpu
