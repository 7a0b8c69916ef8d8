// The top level of a sweep file, and the order in which its parts are checked.
#include "spec/schema/schema.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "spec/schema/draft.h"
#include "spec/schema/notify_keys.h"
#include "spec/schema/overrides.h"
#include "spec/schema/slurm_keys.h"
#include "spec/sweep/sweep_name.h"
#include "spec/templates/output_pattern.h"
#include "spec/templates/path_text.h"
#include "spec/templates/placeholders.h"
#include "spec/templates/run_name.h"
#include "spec/text/source_text.h"
#include "spec/text/suggest.h"

namespace pergpu {
namespace {

using Kind = KeyType::Kind;

constexpr KeyType kNotifyTables = takes::tables(notify_keys);
constexpr KeyType kLimits = {.kind = Kind::Limits, .min = 1, .max = 1'000'000};

// In the order of the reference.
constexpr KnownKey kSections[] = {
    {"name", takes::text("^([^0-9./*@ -][^/*]*|[0-9][^/*]*[^0-9./*][^/*]*)$"), "the file's name",
     "name of the sweep and of its folder"},
    {"out", takes::text(), "`\"runs\"`",
     "folder for the results, relative to the file; `--out` overrides it"},
    {"grid", takes::only(Kind::Lists), "",
     "lists of values; every combination is a run, and the last key varies fastest"},
    {"zip", takes::only(Kind::Lists), "", "lists of equal length, combined element by element"},
    {"runs", takes::only(Kind::Rows), "", "explicit runs, one table per run"},
    {"runs_from", takes::text(), "",
     "file with the runs, relative to the sweep file: `.jsonl` (one object per line), `.csv` (a "
     "header, then rows), `.json`, `.toml` or `.yaml` (one object, or a list); a pattern like "
     "`\"configs/*.json\"` reads all matching files, sorted"},
    {"constants", takes::only(Kind::Values), "", "parameters shared by all runs"},
    {"exclude", takes::only(Kind::Rows), "",
     "each table removes the runs that have all of its values; where a value is a list, any one of "
     "the items matches"},
    {"defaults", takes::only(Kind::Defaults), "",
     "keys for all steps; a step's own keys override them, and `env` is merged by name"},
    {"slurm", takes::table(slurm_keys), "",
     "Slurm options for all steps; a step's own `slurm` overrides them (docs/slurm.md)"},
    {"limits", kLimits, "",
     "named limits: with `license = 2`, at most two jobs with `uses = [\"license\"]` run at a "
     "time, across all your sweeps"},
    {"notify", takes::either(takes::table(notify_keys), kNotifyTables), "",
     "where to send notifications about failures, held jobs and the sweep's end; repeat "
     "`[[notify]]` for several channels (docs/notifications.md)"},
    {"steps", takes::only(Kind::Steps), "", "steps of each run: one table `[steps.NAME]` per step",
     true},
};

void read_name(Draft& draft, const Node* node, const std::string& path) {
  Place whole{0, 0, 0};
  std::string name;
  Place at = whole;
  if (node != nullptr) {
    std::optional<std::string> text = read_text({draft.report, "name", *node});
    if (!text) return;
    name = *std::move(text);
    at = node->at;
  } else if (path.empty()) {
    draft.report.error(at, "a sweep from standard input needs a name: add name = \"…\"");
    return;
  } else {
    name = std::filesystem::path(path).stem().string();
  }
  if (std::string why = why_no_sweep_name(name); !why.empty())
    draft.report.error(
        at,
        node != nullptr
            ? fmt::format("a sweep can't be named \"{}\": {}", name, why)
            : fmt::format("the file's name can't be the name of the sweep ({}): add name = \"…\"",
                          why));
  draft.sweep.name = std::move(name);
}

/// A path with its variables, or what is wrong with it.
void expand_out(Draft& draft, Place at, std::string_view name, const std::string& text) {
  Result<std::string> path = expand_single_path(text);
  if (path) {
    draft.sweep.out = *std::move(path);
  } else {
    draft.report.error(at, fmt::format("`{}`: {}", name, path.error().message));
  }
}

void read_out(Draft& draft, const Node* node) {
  const bool is_given = !draft.options.out.empty();
  if (node != nullptr)
    if (std::optional<std::string> text = read_nonempty_text({draft.report, "out", *node})) {
      if (has_placeholders(*text) && text->find("${") == std::string::npos)
        draft.report.error(
            node->at, "`out` is one folder for the whole sweep, so it can't contain placeholders");
      if (!is_given) expand_out(draft, node->at, "out", *text);
    }
  if (!is_given) return;
  if (find_invalid_utf8(draft.options.out) != std::string_view::npos) {
    draft.report.error({0, 0, 0}, "`--out` is not valid UTF-8");
    return;
  }
  expand_out(draft, {0, 0, 0}, "--out", draft.options.out);
  if (draft.sweep.out.empty()) return;
  // Relative to where the command was typed, unlike the one in the file.
  draft.sweep.out = std::filesystem::absolute(draft.sweep.out).string();
}

/// What no file system can hold: each job would fail when its folder is made.
void check_out_length(Draft& draft, Place at) {
  constexpr std::size_t kMostPathBytes = 4095;
  constexpr std::size_t kLongestFile = 40;  // what pergpu itself writes into a job's folder
  const SweepSpec& sweep = draft.sweep;
  const bool is_given = !draft.options.out.empty();
  const std::string key = is_given ? "`--out`" : "`out`";
  if (is_given) at = {0, 0, 0};
  for (std::size_t from = 0; from < sweep.out.size();) {
    const std::size_t slash = std::min(sweep.out.find('/', from), sweep.out.size());
    if (slash - from > kMostNameBytes)
      return draft.report.error(
          at, fmt::format("{}: it contains a name of {} bytes; file systems allow at most {}", key,
                          slash - from, kMostNameBytes));
    from = slash + 1;
  }
  std::size_t step = 0;
  for (const StepDraft& s : draft.steps) step = std::max(step, s.spec.name.size());
  const bool is_absolute = sweep.out.starts_with('/');
  const std::size_t root = sweep.out.size() + (is_absolute ? 0 : sweep.folder.size() + 1);
  const std::size_t longest =
      root + sweep.name.size() + kMaxRunNameBytes + step + kLongestFile + 4;  // slashes
  if (longest > kMostPathBytes)
    draft.report.error(at, fmt::format("{}: paths of results would have up to {} bytes, but the "
                                       "system allows at most {}; choose a shorter folder",
                                       key, longest, kMostPathBytes));
}

void read_limits(Draft& draft, const Node* node) {
  if (node == nullptr || !expect_table({draft.report, "limits", *node})) return;
  for (std::size_t i = 0; i < node->keys.size(); ++i) {
    const Key& name = node->keys[i];
    std::string key = fmt::format("limits.{}", name.text);
    if (name.text.empty() || name.text.find_first_of("/*@= \t\r\n") != std::string::npos)
      draft.report.error(name.at, fmt::format("a limit can't be named \"{}\"", name.text));
    std::optional<std::int64_t> n =
        read_whole({draft.report, key, node->items[i]}, kLimits.min, kLimits.max);
    draft.sweep.limits.emplace_back(name.text, n ? static_cast<int>(*n) : 1);
  }
}

void check_top_level(Report& report, const Node& root) {
  for (const Key& key : root.keys) {
    std::vector<std::string_view> known;
    for (const KnownKey& section : kSections) known.push_back(section.name);
    if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
    std::string hint = did_you_mean(key.text, known);
    if (hint.empty())
      hint = "; put parameters in [grid] or [constants], and keys of a step in [steps.NAME]";
    report.error(key.at, fmt::format("unknown key `{}` at the top level{}", key.text, hint));
  }
}

void name_differing_columns(Draft& draft) {
  for (const Column& c : draft.runs.columns)
    if (c.differs) draft.sweep.columns.push_back(c.name);
}

}  // namespace

std::vector<KnownKey> section_keys() { return {std::begin(kSections), std::end(kSections)}; }

std::optional<SweepSpec> build_sweep(Report& report, Node root, const SchemaInput& input,
                                     const LoadOptions& options) {
  if (!root.is(Node::Kind::Table)) {
    report.error(root.at,
                 fmt::format("a sweep file must be a table of sections, not {}", describe(root)));
    return std::nullopt;
  }
  check_top_level(report, root);
  std::vector<Key> not_in_tree = apply_overrides(report, root, options.overrides);
  Draft draft{.report = report, .options = options};
  draft.unmatched_overrides = std::move(not_in_tree);
  draft.folder = input.folder;
  std::size_t slash = input.path.rfind('/');
  if (slash != std::string::npos) draft.shown_folder = input.path.substr(0, slash + 1);
  draft.sweep.folder = input.folder;
  if (find_invalid_utf8(input.folder + input.file) != std::string_view::npos) {
    report.error(
        {0, 0, 0},
        fmt::format("the path of the sweep is not valid UTF-8: \"{}\"; rename the file or folder",
                    with_bytes_escaped(input.file.empty() ? input.folder : input.file)));
    return std::nullopt;
  }
  draft.sweep.file = input.file;
  read_name(draft, root.find("name"), input.path);
  read_out(draft, root.find("out"));
  const Node* out = root.find("out");
  const Place root_out_at = out == nullptr ? Place{0, 0, 0} : out->at;
  read_limits(draft, root.find("limits"));
  if (const Node* notify = root.find("notify")) draft.sweep.notify = read_notify(report, *notify);
  if (const Node* slurm = root.find("slurm")) {
    read_slurm({report, "slurm", *slurm}, draft.slurm);
  }
  read_steps(draft, root.find("defaults"), root.find("steps"), root.at);
  read_runs(draft, root);
  root = Node();  // a million rows need not be kept twice
  draft.sweep.runs = expand(report, draft.runs);
  name_differing_columns(draft);
  check_out_length(draft, root_out_at);
  check_references(draft);
  check_templates(draft);
  if (report.failed()) return std::nullopt;
  check_rendered_durations(draft);
  check_start_sizes(draft);
  if (report.failed()) return std::nullopt;
  check_unused_parameters(draft);
  for (StepDraft& step : draft.steps) draft.sweep.steps.push_back(std::move(step.spec));
  return std::move(draft.sweep);
}

}  // namespace pergpu
