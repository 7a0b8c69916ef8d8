// Every key of a step (docs/sweep-file.md), one small reader each.  A key whose mechanism comes
// with a later version is known and refused, never ignored.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "spec/command_words.h"
#include "spec/draft.h"
#include "spec/failure_keys.h"
#include "spec/limit_keys.h"
#include "spec/placeholders.h"
#include "spec/suggest.h"
#include "spec/units.h"

namespace pergpu {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000;

struct KeyInput {
  Field field;
  StepDraft& step;
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
    in.field.report.error(node.at, "`command` names no program");
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
      in.field.report.error(need.at,
                            fmt::format("`needs`: \"{}\": after the colon comes `all` or `ended`{}",
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
  if (node.is(Node::Kind::Float) && node.number != 0 && node.number != 1) {
    not_in_this_version(in.field.report, node.at,
                        fmt::format("a share of a GPU (gpus = {})", node.text));
    return;
  }
  if (node.is(Node::Kind::Int) && node.integer > 1) {
    not_in_this_version(in.field.report, node.at,
                        fmt::format("more than one GPU for a job (gpus = {})", node.text));
    return;
  }
  if (std::optional<std::int64_t> gpus = read_whole(in.field, 0, 1))
    in.step.spec.gpus = static_cast<int>(*gpus);
}

void read_outsiders(const KeyInput& in) {
  if (in.field.node.is(Node::Kind::String) && in.field.node.text == "fit") {
    not_in_this_version(in.field.report, in.field.node.at, "outsiders = \"fit\"");
    return;
  }
  if (std::optional<std::size_t> choice = read_choice(in.field, {"avoid", "ignore"}))
    in.step.spec.outsiders = *choice == 0 ? Outsiders::Avoid : Outsiders::Ignore;
}

void read_retries(const KeyInput& in) {
  if (std::optional<RetryPolicy> policy = read_retry_policy(in.field)) {
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
                   fmt::format("`{}` cannot be the name of an environment variable", name.text));
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
    if (name.text.empty() || name.text.find('=') != std::string::npos)
      in.field.report.error(name.at, fmt::format("`env_pass`: \"{}\" is no name of a variable; "
                                                 "values are set by `env`",
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

void read_uses(const KeyInput& in) {
  if (std::optional<std::vector<PlacedText>> names = read_texts(in.field))
    in.step.uses = *std::move(names);
}

void read_fake(const KeyInput& in) {
  if (!expect_table(in.field)) return;
  const Node& node = in.field.node;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i].text;
    const Node& value = node.items[i];
    Report& report = in.field.report;
    if (key == "duration") {
      read_duration_template({{report, "fake.duration", value}, in.step},
                             in.step.spec.fake.duration);
    } else if (key == "exit") {
      Field field{report, "fake.exit", value};
      if (value.is(Node::Kind::String) && has_placeholders(value.text)) {
        if (std::optional<std::string> text = read_template({field, in.step}))
          in.step.spec.fake.exit = *text;
      } else if (std::optional<std::int64_t> code = read_whole(field, 0, 255)) {
        in.step.spec.fake.exit = std::to_string(*code);
      }
    } else {
      report.error(node.keys[i].at, fmt::format("unknown key `{}` in `fake`{}", key,
                                                did_you_mean(key, {"duration", "exit"})));
    }
  }
}

template <auto Member, std::int64_t Min, std::int64_t Max>
void read_count(const KeyInput& in) {
  if (std::optional<std::int64_t> n = read_whole(in.field, Min, Max))
    in.step.spec.*Member = static_cast<int>(*n);
}

template <auto Member>
void read_flag(const KeyInput& in) {
  if (std::optional<bool> flag = read_truth(in.field)) in.step.spec.*Member = *flag;
}

template <auto Member>
void read_time(const KeyInput& in) {
  std::optional<std::chrono::milliseconds> d = read_duration(in.field);
  if (d) in.step.spec.*Member = *d;
}

template <auto Member>
void read_path(const KeyInput& in) {
  if (std::optional<std::string> text = read_template(in)) in.step.spec.*Member = *text;
}

struct StepKey {
  std::string_view name;
  void (*read)(const KeyInput&);  // null: not in this version
  bool in_defaults = true;
};

constexpr std::array<StepKey, 36> kStepKeys = {{
    {"command", read_command, false},
    {"shell", read_shell, false},
    {"needs", read_needs, false},
    {"once", read_once, false},
    {"gpus", read_gpus},
    {"gpu",
     [](const KeyInput& in) {
       if (std::optional<std::string> text = read_nonempty_text(in.field)) in.step.spec.gpu = *text;
     }},
    {"sharing", nullptr},
    {"outsiders", read_outsiders},
    {"cpus", read_count<&StepSpec::cpus, 1, kMaxCount>},
    {"memory",
     [](const KeyInput& in) {
       if (std::optional<std::uint64_t> bytes = read_size(in.field))
         in.step.spec.memory_bytes = bytes;
     }},
    {"gpu_memory",
     [](const KeyInput& in) {
       in.step.spec.gpu_memory_bytes = read_size(in.field);
       in.step.gpu_memory_at = in.field.node.at;
     }},
    {"overcommit", read_flag<&StepSpec::overcommit>},
    {"timeout",
     [](const KeyInput& in) {
       std::optional<std::chrono::milliseconds> d = read_duration(in.field);
       if (d && d->count() == 0) in.field.report.error(in.field.node.at, "`timeout` is zero");
       if (d) in.step.spec.timeout = d;
     }},
    {"idle_timeout",
     [](const KeyInput& in) { in.step.spec.idle_timeout = read_limit_of_time(in.field); }},
    {"stall",
     [](const KeyInput& in) {
       if (auto stall = read_stall(in.field)) in.step.spec.stall = *stall;
     }},
    {"grace", read_time<&StepSpec::grace>},
    {"retries", read_retries},
    {"rerun", read_flag<&StepSpec::rerun>},
    {"grow",
     [](const KeyInput& in) {
       in.step.spec.grow = read_growth(in.field).value_or(Growth{});
       in.step.grow_at = in.field.node.at;
     }},
    {"signal",
     [](const KeyInput& in) {
       in.step.spec.signal = read_early_signal(in.field);
       in.step.signal_at = in.field.node.at;
     }},
    {"breaker", read_count<&StepSpec::breaker, 0, kMaxCount>},
    {"failures", read_failures},
    {"max_parallel", read_count<&StepSpec::max_parallel, 1, kMaxCount>},
    {"uses", read_uses},
    {"max_starting", read_count<&StepSpec::max_starting, 1, kMaxCount>},
    {"ready", read_time<&StepSpec::ready>},
    {"priority", read_count<&StepSpec::priority, -kMaxCount, kMaxCount>},
    {"expect", [](const KeyInput& in) { read_duration_template(in, in.step.spec.expect); }},
    {"env", read_env},
    {"env_pass", read_env_pass},
    {"cwd", read_path<&StepSpec::cwd>},
    {"gpu_env",
     [](const KeyInput& in) {
       if (std::optional<std::size_t> choice = read_choice(in.field, {"uuid", "index"}))
         in.step.spec.gpu_env = *choice == 0 ? GpuEnv::Uuid : GpuEnv::Index;
     }},
    {"snapshot", nullptr},
    {"outputs", read_outputs},
    {"metrics", read_path<&StepSpec::metrics>},
    {"fake", read_fake},
}};

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
  for (const StepKey& key : kStepKeys)
    if (!key.name.empty()) known.push_back(key.name);
  return did_you_mean(name, known);
}

}  // namespace

void read_step_key(Draft& draft, StepDraft& step, const Key& key, const Node& value,
                   bool is_defaults) {
  auto found = std::find_if(kStepKeys.begin(), kStepKeys.end(), [&](const StepKey& k) {
    return !k.name.empty() && k.name == key.text;
  });
  if (found == kStepKeys.end()) {
    draft.report.error(
        key.at, fmt::format("unknown key `{}` in {}{}", key.text, step.where, guess(key.text)));
    return;
  }
  if (is_defaults && !found->in_defaults) {
    draft.report.error(key.at,
                       fmt::format("`{}` belongs to one step; [defaults] holds what all steps "
                                   "share",
                                   key.text));
    return;
  }
  if (found->read == nullptr) {
    not_in_this_version(draft.report, key.at, fmt::format("`{}`", key.text));
    return;
  }
  // What [defaults] said of this key no longer counts; `env` is merged name by name instead.
  if (key.text != "env")
    std::erase_if(step.templates, [&](const PlacedTemplate& t) {
      return t.key == key.text || t.key.rfind(key.text + ".", 0) == 0;
    });
  if (key.text == "fake") step.spec.fake = {};
  found->read({{draft.report, key.text, value}, step});
}

}  // namespace pergpu
