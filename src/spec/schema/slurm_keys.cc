// What is handed to sbatch is checked as far as pergpu itself depends on it; what a partition is
// called, and what an account may have, only the site knows.
#include "spec/schema/slurm_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "spec/text/toml_text.h"
#include "spec/text/units.h"

namespace pergpu {
namespace {

constexpr std::string_view kWord = "^[^-\\s\"'\\\\][^\\s\"'\\\\]*$";
constexpr std::chrono::minutes kShortest{1};  // Slurm counts minutes

/// Options of sbatch that pergpu sets, and what to write instead; "": nothing.
constexpr std::array<std::pair<std::string_view, std::string_view>, 39> kTaken = {{
    {"--account", "`account`"},
    {"--array", ""},
    {"--chdir", "`cwd` of the step"},
    {"--cluster", ""},
    {"--clusters", ""},
    {"--comment", ""},
    {"--constraint", "`constraint`"},
    {"--cpus-per-task", "`cpus` of the step"},
    {"--dependency", "`needs` of the step"},
    {"--error", ""},
    {"--export", "`env` and `env_pass` of the step"},
    {"--export-file", "`env` of the step"},
    {"--gpus", "`gpus` of the step"},
    {"--gpus-per-node", "`gpus` of the step"},
    {"--gpus-per-task", "`gpus` of the step"},
    {"--gres", "`gpus` of the step"},
    {"--hold", "`pergpu hold`"},
    {"--job-name", ""},
    {"--kill-on-invalid-dep", ""},
    {"--mem", "`memory` of the step"},
    {"--mem-per-cpu", "`memory` of the step"},
    {"--mem-per-gpu", "`memory` of the step"},
    {"--nice", "`priority` of the step"},
    {"--no-requeue", "`rerun = false` of the step"},
    {"--nodes", ""},
    {"--ntasks", ""},
    {"--open-mode", ""},
    {"--output", ""},
    {"--parsable", ""},
    {"--partition", "`partition`"},
    {"--qos", "`qos`"},
    {"--requeue", ""},
    {"--signal", "`signal` of the step"},
    {"--tasks", ""},
    {"--test-only", "`pergpu run --dry-run`"},
    {"--time", "`time`"},
    {"--wait", "`pergpu wait`"},
    {"--wait-all-nodes", ""},
    {"--wrap", "`command` of the step"},
}};

template <std::string SlurmOptions::*Member>
void read_word(const MemberInput<SlurmOptions>& in) {
  const std::optional<std::string> text = read_nonempty_text(in.field);
  if (!text) return;
  const bool is_word =
      text->front() != '-' && std::none_of(text->begin(), text->end(), [](unsigned char c) {
        return c <= ' ' || c == 0x7f || c == '"' || c == '\'' || c == '\\';
      });
  if (is_word) {
    in.to.*Member = *text;
    return;
  }
  in.field.report.error(in.field.node.at,
                        fmt::format("`{}` must be one word, not \"{}\"", in.field.key, *text));
}

template <int SlurmOptions::*Member>
void read_number(const MemberInput<SlurmOptions>& in) {
  const std::optional<std::int64_t> number = read_whole(in.field, in.type.min, in.type.max);
  if (number) in.to.*Member = static_cast<int>(*number);
}

void read_time(const MemberInput<SlurmOptions>& in) {
  const std::optional<std::chrono::milliseconds> time = read_duration(in.field);
  if (!time) return;
  if (*time < kShortest) {
    in.field.report.error(
        in.field.node.at,
        fmt::format("`{}` must be at least one minute, because Slurm counts minutes",
                    in.field.key));
    return;
  }
  in.to.time = *time;
}

/// Why sbatch must not get it; "": it may.
std::string why_not(std::string_view extra) {
  if (!extra.starts_with("--") || extra.size() < 3) {
    return "must be a long sbatch option with its value, like \"--mail-type=END\"";
  }
  const bool is_printable = std::all_of(extra.begin(), extra.end(),
                                        [](unsigned char c) { return c >= ' ' && c != 0x7f; });
  if (!is_printable) return "contains a control character";
  const std::string_view name = extra.substr(0, extra.find('='));
  const auto words = [](const auto& option) {
    const auto& [taken, instead] = option;
    return instead.empty() ? fmt::format("{} is set by pergpu", taken)
                           : fmt::format("{} is set by pergpu; write {}", taken, instead);
  };
  for (const auto& option : kTaken) {
    if (option.first == name) return words(option);
  }
  for (const auto& option : kTaken) {
    if (option.first.starts_with(name)) return words(option);  // sbatch takes a beginning of it
  }
  return {};
}

void read_extra(const MemberInput<SlurmOptions>& in) {
  const std::optional<std::vector<PlacedText>> list = read_texts(in.field);
  if (!list) return;
  for (const PlacedText& extra : *list) {
    if (std::string why = why_not(extra.text); !why.empty()) {
      in.field.report.error(extra.at,
                            fmt::format("`{}`: \"{}\" {}", in.field.key, extra.text, why));
      continue;
    }
    in.to.extra.push_back(extra.text);
  }
}

constexpr MemberKey<SlurmOptions> kSlurmKeys[] = {
    {{"partition", takes::text(kWord), "the cluster's default", "partition, or several: `\"a,b\"`"},
     read_word<&SlurmOptions::partition>},
    {{"account", takes::text(kWord), "your default", "account to charge"},
     read_word<&SlurmOptions::account>},
    {{"qos", takes::text(kWord), "the account's default", "quality of service"},
     read_word<&SlurmOptions::qos>},
    {{"constraint", takes::text(kWord), "none", "required node features"},
     read_word<&SlurmOptions::constraint>},
    {{"time", takes::limit_of_time(), "from `timeout`, else the partition's",
      "time limit of an allocation"},
     read_time},
    {{"jobs_per_allocation", takes::whole(1, 1'000'000), "`1`",
      "number of jobs that each lane of an allocation runs, one after another"},
     read_number<&SlurmOptions::jobs_per_allocation>},
    {{"lanes", takes::whole(1, 1024), "`1`",
      "number of jobs that run at the same time in one allocation, which requests resources for "
      "all of them"},
     read_number<&SlurmOptions::lanes>},
    {{"extra", takes::texts("^--"), "none", "more sbatch options: `[\"--exclusive\"]`"},
     read_extra},
};

}  // namespace

std::vector<KnownKey> slurm_keys() { return known_of(kSlurmKeys); }

void read_slurm(const Field& field, SlurmOptions& to) {
  if (!field.node.is(Node::Kind::Table)) {
    wrong_type(field, "a table like { partition = \"gpu\", time = \"12h\" }");
    return;
  }
  read_members(field, kSlurmKeys, to);
}

std::string slurm_text(const SlurmOptions& options) {
  const SlurmOptions normal;
  std::string out;
  const auto add = [&](const char* name, const std::string& text) {
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, text);
  };
  const auto word = [&](const char* name, const std::string& text) {
    if (!text.empty()) add(name, toml_string(text));
  };
  word("partition", options.partition);
  word("account", options.account);
  word("qos", options.qos);
  word("constraint", options.constraint);
  if (options.time) add("time", toml_string(format_duration(*options.time)));
  if (options.jobs_per_allocation != normal.jobs_per_allocation) {
    add("jobs_per_allocation", std::to_string(options.jobs_per_allocation));
  }
  if (options.lanes != normal.lanes) add("lanes", std::to_string(options.lanes));
  if (!options.extra.empty()) add("extra", toml_strings(options.extra));
  return "{ " + out + " }";
}

}  // namespace pergpu
