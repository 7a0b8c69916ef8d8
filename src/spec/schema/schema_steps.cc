// Each step starts as a copy of what [defaults] makes of an empty one, then its own keys are read
// over it.  A mistake in [defaults] is reported once, at its place there.
#include <fmt/core.h>

#include <algorithm>

#include "spec/schema/draft.h"
#include "spec/templates/placeholders.h"
#include "spec/text/suggest.h"
#include "spec/text/units.h"

namespace pergpu {
namespace {

StepDraft read_defaults(Draft& draft, const Node* defaults) {
  StepDraft base;
  base.where = "[defaults]";
  base.spec.slurm = draft.slurm;
  if (defaults == nullptr || !expect_table({draft.report, "defaults", *defaults})) return base;
  for (std::size_t i = 0; i < defaults->keys.size(); ++i)
    read_step_key(draft, base, defaults->keys[i], defaults->items[i], true);
  for (PlacedTemplate& t : base.templates) t.from_defaults = true;
  return base;
}

void check_name(Draft& draft, const Key& name) {
  if (!is_identifier(name.text))
    draft.report.error(name.at, fmt::format("a step can't be named `{}`: use only letters, digits "
                                            "and _, and don't start with a digit",
                                            name.text));
  if (name.text.size() > 64)
    draft.report.error(name.at, "the name of a step can have at most 64 characters");
  const std::optional<Builtin> builtin = builtin_of(name.text);
  if (builtin && !is_several_words(*builtin))
    draft.report.error(
        name.at,
        fmt::format("a step can't be named `{0}`: {{{0}}} is a built-in placeholder", name.text));
}

/// Its value was reported, or stands where the file can't be read: one mistake is one error.
bool is_unknown(const Draft& draft, const StepDraft& step, std::string_view key) {
  return step.is_refused(key) || draft.report.incomplete();
}

bool requests_no_gpu(const Draft& draft, const StepDraft& step) {
  return step.spec.gpus == 0 && !is_unknown(draft, step, "gpus");
}

/// A key that could do nothing is a mistake; what [defaults] says need not fit every step.
void check_growth(Draft& draft, const StepDraft& step) {
  if (!step.wrote("grow")) return;
  const StepSpec& spec = step.spec;
  const auto wrong = [&](std::string_view what) {
    draft.report.error(step.grow_at, fmt::format("{}: `grow` {}", step.where, what));
  };
  if (spec.grow == Growth{}) return;  // reported already, or an empty table
  const auto lacks = [&](std::string_view key, bool has_value) {
    return !has_value && !is_unknown(draft, step, key);
  };
  if (lacks("retries", spec.retries.max > 0))
    wrong("needs `retries`: without it there is no next attempt");
  if (spec.grow.memory > 0 && lacks("memory", spec.memory_bytes.has_value()))
    wrong("names memory, but the step has no `memory` that could grow");
  if (spec.grow.gpu_memory > 0 && lacks("gpu_memory", spec.gpu_memory_bytes.has_value()))
    wrong("names gpu_memory, but the step has no `gpu_memory` that could grow");
}

/// The jobs run in the copy, and it holds nothing else.
void check_snapshot(Draft& draft, const StepDraft& step) {
  const StepSpec& spec = step.spec;
  if (spec.snapshot.empty() || spec.cwd.empty() || !leads_out(spec.cwd)) return;
  draft.report.error(step.wrote("cwd") ? step.cwd_at : step.snapshot_at,
                     fmt::format("{}: with `snapshot`, jobs run in a copy of the sweep file's "
                                 "folder, but `cwd` \"{}\" is outside of it",
                                 step.where, spec.cwd));
}

void check_sharing(Draft& draft, const StepDraft& step) {
  if (is_unknown(draft, step, "gpus")) return;
  const StepSpec& spec = step.spec;
  const auto error = [&](std::string_view what) {
    draft.report.error(
        step.at, fmt::format("{}: sharing = \"{}\" {}", step.where, to_string(spec.sharing), what));
  };
  if (step.wrote("sharing") && spec.gpus == 0)
    error(step.wrote("gpus") ? "needs a GPU: set gpus = 0.25, or remove `sharing`"
                             : "needs a GPU: add gpus = 0.25, or \"auto\"");
  const bool has_share = spec.gpu_share > 0 || spec.gpu_auto;
  if (spec.sharing == Sharing::Mps && spec.gpus > 0 && !has_share)
    error("is for jobs that share a GPU, but these don't: set gpus = 0.25, or \"auto\"");
  if (spec.sharing == Sharing::Mps && spec.gpus > 0 && spec.gpu_env == GpuEnv::Index)
    error("identifies GPUs only by UUID: remove gpu_env = \"index\"");
  if (spec.sharing == Sharing::Mig && spec.gpus > 1)
    error("gives a job one instance, because CUDA shows a program only one: set gpus = 1");
}

void check_whole(Draft& draft, const StepDraft& step) {
  bool command = step.wrote("command");
  bool shell = step.wrote("shell");
  if (command && shell)
    draft.report.error(
        step.at, fmt::format("{} has both `command` and `shell`; keep one of them", step.where));
  if (!command && !shell && !draft.report.incomplete())
    draft.report.error(step.at, fmt::format("{} has neither `command` nor `shell`", step.where));
  if (step.wrote("gpu") && requests_no_gpu(draft, step))
    draft.report.error(step.at, fmt::format("{} has `gpu` but requests no GPU: {}", step.where,
                                            step.wrote("gpus") ? "set gpus = 1, or remove `gpu`"
                                                               : "add gpus = 1"));
  const StepSpec& spec = step.spec;
  if (spec.signal && spec.timeout && spec.signal->ahead >= *spec.timeout)
    draft.report.error(
        step.signal_at,
        fmt::format("{}: `signal` comes {} before the end, but `timeout` is only {}", step.where,
                    format_duration(spec.signal->ahead), format_duration(*spec.timeout)));
  if (step.wrote("gpu_memory") && requests_no_gpu(draft, step))
    draft.report.error(
        step.gpu_memory_at,
        fmt::format("{} limits `gpu_memory` but requests no GPU: {}", step.where,
                    step.wrote("gpus") ? "set gpus = 1, or remove `gpu_memory`" : "add gpus = 1"));
  check_sharing(draft, step);
  if (spec.gpus > 0 && spec.outsiders == Outsiders::Fit && !spec.gpu_memory_bytes &&
      !is_unknown(draft, step, "gpus") && !is_unknown(draft, step, "gpu_memory"))
    draft.report.error(
        step.at,
        fmt::format("{} has foreign_processes = \"fit\", so it must state how much memory it "
                    "needs: add gpu_memory = \"…GiB\"",
                    step.where));
  check_growth(draft, step);
  check_snapshot(draft, step);
}

}  // namespace

void read_steps(Draft& draft, const Node* defaults, const Node* steps, Place root_at) {
  StepDraft base = read_defaults(draft, defaults);
  if (steps == nullptr) {
    if (!draft.report.incomplete())
      draft.report.error(root_at, "no steps: add [steps.NAME] with a `command`");
    return;
  }
  if (!expect_table({draft.report, "steps", *steps})) return;
  if (steps->keys.empty() && !draft.report.incomplete())
    draft.report.error(steps->at, "no steps: add [steps.NAME] with a `command`");
  for (std::size_t i = 0; i < steps->keys.size(); ++i) {
    const Key& name = steps->keys[i];
    const Node& table = steps->items[i];
    check_name(draft, name);
    StepDraft step = base;
    step.read.clear();
    step.spec.name = name.text;
    step.at = name.at;
    step.where = fmt::format("[steps.{}]", name.text);
    if (expect_table({draft.report, step.where, table})) {
      for (std::size_t k = 0; k < table.keys.size(); ++k) {
        step.keys.push_back(table.keys[k].text);
        read_step_key(draft, step, table.keys[k], table.items[k], false);
      }
      check_whole(draft, step);
    }
    draft.steps.push_back(std::move(step));
  }
}

}  // namespace pergpu
