// Every key of a step, one row and one small reader each.  A key whose mechanism comes with a later
// version is known and refused, never ignored.
#include "spec/schema/step_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "job/gpu_parts.h"
#include "spec/schema/draft.h"
#include "spec/schema/failure_keys.h"
#include "spec/schema/known_key.h"
#include "spec/schema/limit_keys.h"
#include "spec/schema/slurm_keys.h"
#include "spec/templates/command_words.h"
#include "spec/templates/path_text.h"
#include "spec/templates/placeholders.h"
#include "spec/text/suggest.h"
#include "spec/text/units.h"

namespace pergpu {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000;
constexpr std::array<std::string_view, 1> kAuto = {"auto"};
constexpr int kLeastShare = 10;  // thousandths of a GPU: a hundred jobs side by side

struct KeyInput {
  Field field;
  StepDraft& step;
  const KeyType& type;
};

void add_template(const KeyInput& in, std::string key, const std::string& text, Place at) {
  in.step.templates.push_back({.key = std::move(key), .text = text, .at = at});
}

std::optional<std::string> read_template(const KeyInput& in) {
  std::optional<std::string> text = read_nonempty_text(in.field);
  if (text) add_template(in, std::string(in.field.key), *text, in.field.node.at);
  return text;
}

/// A template that renders to a duration: checked at once when it has no placeholder.
void read_duration_template(const KeyInput& in, Template& to) {
  if (in.field.node.is(Node::Kind::String) && has_placeholders(in.field.node.text)) {
    if (std::optional<std::string> text = read_template(in)) to = *text;
  } else if (read_duration(in.field)) {
    to = in.field.node.text;
  }
}

void read_command(const KeyInput& in) {
  StepSpec& spec = in.step.spec;
  const Node& node = in.field.node;
  if (node.is(Node::Kind::String)) {
    std::optional<std::string> text = read_text(in.field);
    if (!text) return;
    Result<std::vector<std::string>> words = split_command(*text);
    if (!words) {
      in.field.report.error(node.at, fmt::format("`command`: {}", words.error().message));
      return;
    }
    spec.command = *std::move(words);
    for (const std::string& word : spec.command) add_template(in, "command", word, node.at);
  } else {
    std::optional<std::vector<PlacedText>> words = read_texts(in.field);
    if (!words) return;
    for (PlacedText& word : *words) {
      add_template(in, "command", word.text, word.at);
      spec.command.push_back(std::move(word.text));
    }
  }
  if (spec.command.empty() || spec.command[0].empty())
    in.field.report.error(node.at, "`command` has no program");
}

void read_shell(const KeyInput& in) {
  if (std::optional<std::string> text = read_template(in)) in.step.spec.shell = *text;
}

void read_needs(const KeyInput& in) {
  std::optional<std::vector<PlacedText>> needs = read_texts(in.field);
  if (!needs) return;
  for (const PlacedText& need : *needs) {
    NeedDraft draft;
    draft.at = need.at;
    std::size_t colon = need.text.find(':');
    draft.step = need.text.substr(0, colon);
    std::string_view scope = colon == std::string::npos
                                 ? std::string_view()
                                 : std::string_view(need.text).substr(colon + 1);
    if (scope == "all") {
      draft.scope = Need::Scope::All;
    } else if (scope == "ended") {
      draft.scope = Need::Scope::Ended;
    } else if (colon != std::string::npos) {
      in.field.report.error(
          need.at, fmt::format("`needs`: \"{}\": expected `all` or `ended` after the colon{}",
                               need.text, did_you_mean(scope, {"all", "ended"})));
    }
    in.step.needs.push_back(std::move(draft));
  }
}

void read_once(const KeyInput& in) {
  if (std::optional<bool> once = read_truth(in.field)) in.step.spec.once = *once;
}

void read_gpus(const KeyInput& in) {
  const Node& node = in.field.node;
  in.step.spec.gpu_auto = false;  // of [defaults]
  in.step.spec.gpu_share = 0;
  if (node.is(Node::Kind::String) && node.text == kAuto.front()) {
    in.step.spec.gpus = 1;
    in.step.spec.gpu_auto = true;
    return;
  }
  if (!node.is(Node::Kind::Int) && !node.is(Node::Kind::Float)) {
    return wrong_type(in.field, "a whole number, a share like 0.25, or \"auto\"");
  }
  if (node.is(Node::Kind::Float)) {
    // Rounded down: three times 0.3334 fit on a GPU.
    const bool is_part = node.number > 0 && node.number < 1;
    const int share =
        is_part ? std::min(static_cast<int>(node.number * kWholeGpu + 1e-6), kWholeGpu - 1) : 0;
    if (share < kLeastShare) {
      in.field.report.error(node.at, fmt::format("`gpus` must be a whole number, or a share of one "
                                                 "GPU of at least 0.01 and less than 1, not {}",
                                                 node.text));
      return;
    }
    in.step.spec.gpus = 1;
    in.step.spec.gpu_share = share;
    return;
  }
  if (std::optional<std::int64_t> gpus = read_whole(in.field, in.type.min, in.type.max))
    in.step.spec.gpus = static_cast<int>(*gpus);
}

/// The position of the text among the choices of its row.
std::optional<std::size_t> read_choice_of(const KeyInput& in) {
  return read_choice(in.field, {in.type.choices.begin(), in.type.choices.end()});
}

void read_sharing(const KeyInput& in) {
  if (read_choice_of(in)) in.step.spec.sharing = *sharing_of(in.field.node.text);
}

void read_outsiders(const KeyInput& in) {
  if (read_choice_of(in)) in.step.spec.outsiders = *outsiders_of(in.field.node.text);
}

void read_retries(const KeyInput& in) {
  if (std::optional<RetryPolicy> policy = read_retry_policy(in.field, in.type)) {
    in.step.spec.retries = *std::move(policy);
  }
}

void read_failures(const KeyInput& in) { in.step.spec.failures = read_failure_rules(in.field); }

void read_env(const KeyInput& in) {
  if (!expect_table(in.field)) return;
  StepSpec& spec = in.step.spec;
  const Node& node = in.field.node;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Key& name = node.keys[i];
    const Node& value = node.items[i];
    std::string key = fmt::format("env.{}", name.text);
    Report& report = in.field.report;
    if (!is_identifier(name.text)) {
      report.error(name.at,
                   fmt::format("`{}` can't be the name of an environment variable", name.text));
      continue;
    }
    static constexpr std::array<std::string_view, 3> kOurs = {
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES"};
    if (name.text.rfind("PERGPU_", 0) == 0 ||
        std::find(kOurs.begin(), kOurs.end(), name.text) != kOurs.end()) {
      report.error(name.at, fmt::format("`{}` is set by pergpu itself for each job", name.text));
      continue;
    }
    std::string text;
    if (value.is(Node::Kind::Int) || value.is(Node::Kind::Float)) {
      text = value.text;
    } else if (std::optional<std::string> read = read_text({report, key, value})) {
      text = *std::move(read);
    } else {
      continue;
    }
    // [defaults] may have set it before; the step's own value counts.
    auto same = [&](const auto& entry) { return entry.first == name.text; };
    auto old = std::find_if(spec.env.begin(), spec.env.end(), same);
    if (old != spec.env.end()) {
      old->second = text;
    } else {
      spec.env.emplace_back(name.text, text);
    }
    std::erase_if(in.step.templates, [&](const PlacedTemplate& t) { return t.key == key; });
    add_template(in, key, text, value.at);
  }
}

void read_env_pass(const KeyInput& in) {
  if (in.field.node.is(Node::Kind::String) && in.field.node.text == "all") {
    in.step.spec.env_pass = std::nullopt;
    return;
  }
  std::optional<std::vector<PlacedText>> names = read_texts(in.field);
  if (!names) return;
  std::vector<std::string> out;
  for (const PlacedText& name : *names) {
    if (name.text.empty() || name.text.find_first_of("=$~/") != std::string::npos)
      in.field.report.error(
          name.at, fmt::format("`env_pass`: \"{}\" isn't a variable name; use `env` to set values",
                               name.text));
    out.push_back(name.text);
  }
  in.step.spec.env_pass = std::move(out);
}

void read_outputs(const KeyInput& in) {
  std::optional<std::vector<PlacedText>> outputs = read_texts(in.field);
  if (!outputs) return;
  in.step.spec.outputs.clear();
  for (PlacedText& output : *outputs) {
    if (output.text.empty()) in.field.report.error(output.at, "`outputs[]` is empty");
    add_template(in, "outputs", output.text, output.at);
    in.step.spec.outputs.push_back(std::move(output.text));
  }
}

template <auto Member>
void read_path(const KeyInput& in) {
  if (std::optional<std::string> text = read_template(in)) in.step.spec.*Member = *text;
}

void read_snapshot(const KeyInput& in) {
  in.step.snapshot_at = in.field.node.at;
  std::optional<std::vector<PlacedText>> patterns = read_texts(in.field);
  if (!patterns) return;
  in.step.spec.snapshot.clear();
  for (PlacedText& pattern : *patterns) {
    Result<std::string> expanded = expand_path(pattern.text);
    if (!expanded) {
      in.field.report.error(pattern.at, fmt::format("`snapshot`: {}", expanded.error().message));
      continue;
    }
    pattern.text = *std::move(expanded);
    if (leads_out(pattern.text))
      in.field.report.error(
          pattern.at, fmt::format("`snapshot`: \"{}\" isn't a path inside the sweep file's folder",
                                  pattern.text));
    in.step.spec.snapshot.push_back(std::move(pattern.text));
  }
}

void read_cwd(const KeyInput& in) {
  in.step.cwd_at = in.field.node.at;
  read_path<&StepSpec::cwd>(in);
}

void read_uses(const KeyInput& in) {
  if (std::optional<std::vector<PlacedText>> names = read_texts(in.field))
    in.step.uses = *std::move(names);
}

constexpr MemberKey<StepDraft> kFakeKeys[] = {
    {{"duration", takes::with_placeholders(takes::duration()), "`expect`, else `\"1s\"`",
      "duration of an attempt"},
     [](const MemberInput<StepDraft>& in) {
       read_duration_template({in.field, in.to, in.type}, in.to.spec.fake.duration);
     }},
    {{"exit", takes::with_placeholders(takes::whole(0, 255)), "`0`", "exit code of an attempt"},
     [](const MemberInput<StepDraft>& in) {
       const Node& value = in.field.node;
       if (value.is(Node::Kind::String) && has_placeholders(value.text)) {
         if (std::optional<std::string> text = read_template({in.field, in.to, in.type}))
           in.to.spec.fake.exit = *text;
       } else if (auto code = read_whole(in.field, in.type.min, in.type.max)) {
         in.to.spec.fake.exit = std::to_string(*code);
       }
     }},
};

std::vector<KnownKey> fake_keys() { return known_of(kFakeKeys); }

void read_fake(const KeyInput& in) {
  if (expect_table(in.field)) read_members(in.field, kFakeKeys, in.step);
}

template <auto Member>
void read_count(const KeyInput& in) {
  if (std::optional<std::int64_t> n = read_whole(in.field, in.type.min, in.type.max))
    in.step.spec.*Member = static_cast<int>(*n);
}

template <auto Member>
void read_flag(const KeyInput& in) {
  if (std::optional<bool> flag = read_truth(in.field)) in.step.spec.*Member = *flag;
}

template <auto Member>
void read_time(const KeyInput& in) {
  std::optional<std::chrono::milliseconds> d =
      in.type.not_zero ? read_limit_of_time(in.field) : read_duration(in.field);
  if (d) in.step.spec.*Member = *d;
}

/// A key and its reader.
struct StepKey {
  KnownKey known = {};
  void (*read)(const KeyInput&) = nullptr;
  bool in_defaults = true;
};

using Kind = KeyType::Kind;
constexpr KeyType kLimitOfTime = takes::limit_of_time();
constexpr KeyType kByNeed = takes::choice(kAuto);
constexpr KeyType kShare = takes::either({.kind = Kind::Share}, kByNeed);
constexpr std::array<std::string_view, 3> kSharings = {"time", "mps", "mig"};
constexpr std::array<std::string_view, 3> kOutsiders = {"avoid", "fit", "ignore"};
constexpr std::array<std::string_view, 2> kGpuEnvs = {"uuid", "index"};

// In the order of the reference.
constexpr StepKey kStepKeys[] = {
    {{"command", takes::only(Kind::Words), "",
      "program and arguments: a list runs as written; a string is split into words as in a shell, "
      "but nothing is expanded. Unquoted pipes, redirections, variables and wildcards are errors"},
     read_command,
     false},
    {{"shell", takes::text(), "",
      "instead of `command`: a command for `/bin/sh -c`. Values arrive as environment variables "
      "(`\"$PERGPU_PARAM_LR\"`, `\"$PERGPU_OUT\"`) or as `{args}` or `{overrides}`, never pasted "
      "into the text"},
     read_shell,
     false},
    {{"needs", takes::texts("^[A-Za-z_][A-Za-z0-9_]*(:all|:ended)?$"), "none",
      "steps to wait for: `\"train\"`: done in the same run; `\"train:all\"`: done in all runs; "
      "`\"train:ended\"`: ended in all runs, failed or not"},
     read_needs,
     false},
    {{"once", takes::only(Kind::Truth), "`false`",
      "`true`: one job for the whole sweep, without a run's parameters"},
     read_once,
     false},
    {{"gpus", takes::either(takes::whole(0, kMaxCount), kShare), "`0`",
      "number of whole GPUs per job (docs/gpu-sharing.md#multi-gpu-jobs); `0.25`: a share of one "
      "GPU (docs/gpu-sharing.md#shares); `\"auto\"`: pergpu decides how many jobs share a GPU "
      "(docs/gpu-sharing.md#automatic-packing)"},
     read_gpus},
    {{"gpu", takes::text(), "any", "pattern for the GPU model, `\"*H100*\"`; needs `gpus`"},
     [](const KeyInput& in) {
       if (std::optional<std::string> text = read_nonempty_text(in.field)) in.step.spec.gpu = *text;
     }},
    {{"sharing", takes::choice(kSharings), "`\"time\"`",
      "how jobs with shares use a GPU: `\"time\"` is time slicing, `\"mps\"` runs their kernels at "
      "the same time (docs/gpu-sharing.md#mps), `\"mig\"` uses only MIG instances"},
     read_sharing},
    {{.name = "foreign_processes",
      .type = takes::choice(kOutsiders),
      .usual = "`\"avoid\"`",
      .meaning = "if other processes use a GPU: `\"avoid\"` it, `\"fit\"` the job in if enough "
                 "memory is free, or `\"ignore\"` the processes "
                 "(docs/gpus.md#other-processes-on-a-gpu)",
      .earlier = "outsiders"},
     read_outsiders},
    {{"cpus", takes::whole(1, kMaxCount), "a share of the cores", "CPU cores reserved for a job"},
     read_count<&StepSpec::cpus>},
    {{"memory", takes::only(Kind::Size), "",
      "memory reserved for a job, and its memory limit (docs/jobs.md#its-limits)"},
     [](const KeyInput& in) {
       if (std::optional<std::uint64_t> bytes = read_size(in.field))
         in.step.spec.memory_bytes = bytes;
     }},
    {{"gpu_memory", takes::only(Kind::Size), "",
      "memory limit on each of the job's GPUs; GPUs with less memory aren't used "
      "(docs/jobs.md#its-limits)"},
     [](const KeyInput& in) {
       in.step.spec.gpu_memory_bytes = read_size(in.field);
       in.step.gpu_memory_at = in.field.node.at;
     }},
    {{"overcommit", takes::only(Kind::Truth), "`false`",
      "`true`: start even if reservations exceed what the machine has"},
     read_flag<&StepSpec::overcommit>},
    {{"timeout", kLimitOfTime, "none", "time limit of an attempt"}, read_time<&StepSpec::timeout>},
    {{"idle_timeout", kLimitOfTime, "none", "end a job whose log gets no output for this long"},
     read_time<&StepSpec::idle_timeout>},
    {{"stall", takes::either(takes::only(Kind::Truth), kLimitOfTime), "none",
      "end a job if, for this long, it writes no log, uses almost no CPU time and leaves its GPU "
      "idle (docs/failures.md#jobs-that-hang); `true` is `\"45m\"`, longer than frameworks' own "
      "watchdogs"},
     [](const KeyInput& in) {
       if (auto stall = read_stall(in.field)) in.step.spec.stall = *stall;
     }},
    {{"signal", takes::text("^(SIG)?[A-Z0-9]+@.+$"), "none",
      "pre-stop signal: `\"USR1@120s\"` sends USR1 120 s before the `timeout`, and before the "
      "SIGTERM of a cancel (docs/jobs.md#pre-stop-signal). Any named signal from 1 to 31 except "
      "KILL and STOP"},
     [](const KeyInput& in) {
       in.step.spec.signal = read_early_signal(in.field);
       in.step.signal_at = in.field.node.at;
     }},
    {{"grace", takes::duration(), "`\"30s\"`", "time between SIGTERM and SIGKILL"},
     read_time<&StepSpec::grace>},
    {{"retries", takes::either(takes::whole(0, 1000), kRetryTable), "`0`",
      "how many times to retry a failed job: a number, or `{ max = 2, on = [\"oom-host\", "
      "\"lost\"], delay = \"60s\" }` (docs/failures.md)"},
     read_retries},
    {{"grow", takes::table(growth_keys), "none",
      "`{ memory = 1.5, gpu_memory = 2 }`: if an attempt runs out of memory, the retry's "
      "limit is multiplied by this (docs/failures.md#more-memory); needs `retries`, and a limit to "
      "grow: `memory` or `gpu_memory`"},
     [](const KeyInput& in) {
       in.step.spec.grow = read_growth(in.field).value_or(Growth{});
       in.step.grow_at = in.field.node.at;
     }},
    {{"failures", takes::tables(failure_keys), "none",
      "rules that classify a failed attempt by a line of its log: `[{ match = \"loss is nan\", "
      "class = \"user-error\" }]`"},
     read_failures},
    {{"breaker", takes::whole(0, kMaxCount), "`3`",
      "hold the step after this many identical user errors with no success, then try the held jobs "
      "one at a time; `0`: never"},
     read_count<&StepSpec::breaker>},
    {{"rerun", takes::only(Kind::Truth), "`true`",
      "`true`: after a machine fault, run the job again without using up a retry"},
     read_flag<&StepSpec::rerun>},
    {{"max_parallel", takes::whole(1, kMaxCount), "",
      "maximum number of this step's jobs that run at a time"},
     read_count<&StepSpec::max_parallel>},
    {{"uses", takes::texts(), "none",
      "names from `[limits]`; a running job counts toward each of them"},
     read_uses},
    {{"max_starting", takes::whole(1, kMaxCount), "",
      "maximum number of this step's jobs that start up at a time"},
     read_count<&StepSpec::max_starting>},
    {{"ready", takes::duration(), "`\"2m\"`", "time after which a job counts as started up"},
     read_time<&StepSpec::ready>},
    {{"priority", takes::whole(-kMaxCount, kMaxCount), "`0`",
      "jobs with a higher priority start first"},
     read_count<&StepSpec::priority>},
    {{"weight", takes::whole(1, 1000), "none: oldest first",
      "sweeps of equal priority share the lanes in proportion to their weights "
      "(docs/jobs.md#several-sweeps)"},
     read_count<&StepSpec::weight>},
    {{"expect", takes::with_placeholders(takes::duration()),
      "last duration, else that of similar jobs, else unknown",
      "expected duration: `\"40m\"`, `\"{minutes}m\"`"},
     [](const KeyInput& in) { read_duration_template(in, in.step.spec.expect); }},
    {{"env", takes::only(Kind::Variables), "none", "environment variables to add"}, read_env},
    {{"env_pass", takes::texts("^[^=]+$"), "`\"all\"`",
      "variables of the submitting shell that a job gets: names or patterns (`[\"PATH\", "
      "\"HOME\", \"WANDB_*\"]`). Those that pergpu sets are always included"},
     read_env_pass},
    {{"cwd", takes::text(), "the sweep file's folder",
      "working directory, relative to the sweep file's folder"},
     read_cwd},
    {{"gpu_env", takes::choice(kGpuEnvs), "`\"uuid\"`",
      "form of `CUDA_VISIBLE_DEVICES`; `\"index\"`: for programs that need numbers"},
     [](const KeyInput& in) {
       if (std::optional<std::size_t> choice = read_choice_of(in))
         in.step.spec.gpu_env = *choice == 0 ? GpuEnv::Uuid : GpuEnv::Index;
     }},
    {{"snapshot", takes::texts(), "none",
      "code files to copy at submit: patterns in the sweep file's folder (`[\"*.py\", "
      "\"models/**\"]`). Jobs run in the copy (docs/jobs.md#code-snapshots)"},
     read_snapshot},
    {{"outputs", takes::texts(), "none",
      "files that the job must write, relative to `cwd`: not empty, and newer than its start. A "
      "pattern (`\"{out}/*.ckpt\"`) needs one such file. If they're gone at the next submit, the "
      "job runs again"},
     read_outputs},
    {{"metrics", takes::text(), "`\"{metrics}\"`",
      "file that the job appends its metrics to, relative to `cwd`: `\"{out}/scores.jsonl\"`. "
      "In this key's value, `{metrics}` means `<out>/metrics.jsonl`; elsewhere in the step, "
      "`{metrics}` and "
      "`$PERGPU_METRICS` are the path set here"},
     read_path<&StepSpec::metrics>},
    {{"slurm", takes::table(slurm_keys), "as `[slurm]`",
      "Slurm options for this step's jobs: `{ partition = \"gpu\", time = \"12h\" }` "
      "(docs/slurm.md)"},
     [](const KeyInput& in) { read_slurm(in.field, in.step.spec.slurm); }},
    {{"fake", takes::table(fake_keys), "",
      "`{ duration = \"2s\", exit = 0 }`: result that `--engine fake` simulates"},
     read_fake},
};

/// What other tools call these keys.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kOtherNames = {{
    {"run", "command"},
    {"cmd", "command"},
    {"script", "shell"},
    {"args", "command"},
    {"depends_on", "needs"},
    {"after", "needs"},
    {"mem", "memory"},
    {"time_limit", "timeout"},
    {"walltime", "timeout"},
    {"workdir", "cwd"},
    {"environment", "env"},
    {"num_gpus", "gpus"},
    {"num_cpus", "cpus"},
    {"concurrency", "max_parallel"},
    {"max_concurrent", "max_parallel"},
    {"retry", "retries"},
}};

std::string guess(std::string_view name) {
  for (const auto& [other, ours] : kOtherNames)
    if (other == name) return fmt::format("; did you mean `{}`?", ours);
  std::vector<std::string_view> known;
  for (const StepKey& key : kStepKeys) known.push_back(key.known.name);
  return did_you_mean(name, known);
}

}  // namespace

void read_step_key(Draft& draft, StepDraft& step, const Key& key, const Node& value,
                   bool is_defaults) {
  const auto found = std::find_if(std::begin(kStepKeys), std::end(kStepKeys),
                                  [&](const StepKey& k) { return k.known.is_called(key.text); });
  if (found == std::end(kStepKeys)) {
    draft.report.error(
        key.at, fmt::format("unknown key `{}` in {}{}", key.text, step.where, guess(key.text)));
    return;
  }
  if (is_defaults && !found->in_defaults) {
    draft.report.error(
        key.at,
        fmt::format("`{}` must be set per step; [defaults] is for keys that all steps share",
                    key.text));
    return;
  }
  const KnownKey& known = found->known;
  if (std::ranges::find(step.read, known.name) != step.read.end()) {
    draft.report.error(key.at, fmt::format("`{}` and `{}` are the same key; remove `{}`",
                                           known.earlier, known.name, known.earlier));
    return;
  }
  step.read.push_back(known.name);
  // What [defaults] said of this key no longer counts; `env` is merged name by name instead.
  if (key.text != "env")
    std::erase_if(step.templates, [&](const PlacedTemplate& t) {
      return t.key == key.text || t.key.rfind(key.text + ".", 0) == 0;
    });
  if (key.text == "fake") step.spec.fake = {};
  std::erase(step.refused, known.name);
  const std::size_t errors_before = draft.report.errors();
  found->read({{draft.report, key.text, value}, step, known.type});
  if (value.is_broken || draft.report.errors() > errors_before) step.refused.push_back(known.name);
}

std::vector<KnownKey> step_keys(bool in_defaults) {
  std::vector<KnownKey> out;
  for (const StepKey& key : kStepKeys) {
    if (key.in_defaults || !in_defaults) out.push_back(key.known);
  }
  return out;
}

bool leads_out(std::string_view path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return path.empty() || normal.is_absolute() || *normal.begin() == "..";
}

}  // namespace pergpu
