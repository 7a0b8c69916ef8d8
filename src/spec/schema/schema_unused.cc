// Runs that differ only in a parameter that no program is given do the same work, under names that
// say otherwise.  What a program reads by itself cannot be known: a file of the command that names
// pergpu, or a variable of it that may hold parameters, is taken to read everything.
#include <fmt/core.h>

#include <algorithm>

#include "ascii.h"
#include "spec/schema/draft.h"
#include "spec/templates/placeholders.h"
#include "spec/templates/run_parameters.h"
#include "spec/text/source_text.h"

namespace pergpu {
namespace {

/// For repeated runs: nothing has to use it.
constexpr std::string_view kRepeat = "repeat";
constexpr std::size_t kMostProgramBytes = std::size_t{4} << 20;

/// Variables of a job that hold no parameter: a program that reads only these has none from us.
constexpr std::string_view kWithoutParameters[] = {"ATTEMPT", "GPU_SHARE", "HOME",     "JOB",
                                                   "METRICS", "NOTIFY",    "NUM_GPUS", "OUT",
                                                   "SHARE",   "SIGNAL",    "STEP",     "SWEEP"};

/// Whether a variable that may hold parameters is named: PERGPU_PARAM_LR, PERGPU_CONFIG, or only
/// the prefix, as in `startswith("PERGPU_")`.
bool names_parameter_variable(std::string_view text) {
  constexpr std::string_view kPrefix = "PERGPU_";
  for (std::size_t at = text.find(kPrefix); at != std::string_view::npos;
       at = text.find(kPrefix, at)) {
    at += kPrefix.size();
    const std::string_view rest = text.substr(at);
    if (std::none_of(std::begin(kWithoutParameters), std::end(kWithoutParameters),
                     [&](std::string_view name) { return rest.starts_with(name); })) {
      return true;
    }
  }
  return false;
}

/// By the environment, by config.json or by the package.
bool may_read_parameters(std::string_view text) {
  return names_parameter_variable(text) || contains(text, "pergpu") ||
         contains(text, "config.json");
}

/// The same of a word of a command, whose path may have such a folder.
bool is_word_of_pergpu(std::string_view word) {
  return names_parameter_variable(word) || contains(word, "config.json") ||
         word.starts_with("pergpu") || word.ends_with("/pergpu");
}

/// What may be the name of a file in a shell text.
std::vector<std::string> words_in_shell(std::string_view text) {
  constexpr std::string_view kBetween = " \t\n'\"`;|&()<>=$";
  std::vector<std::string> words;
  std::size_t begin = text.find_first_not_of(kBetween);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBetween, end);
  }
  return words;
}

class Use {
 public:
  explicit Use(const Draft& draft) : draft_(draft) {
    for (const StepDraft& step : draft.steps) {
      if (step.spec.once) continue;  // it looks at what the others have done
      for (const PlacedTemplate& t : step.templates) look(t);
    }
  }

  bool of(const std::string& parameter) const {
    return all_ || parameter == kRepeat ||
           std::find(used_.begin(), used_.end(), parameter) != used_.end();
  }
  /// Looks into files, so it comes last.
  bool reads_by_itself() const {
    return std::any_of(draft_.steps.begin(), draft_.steps.end(), [&](const StepDraft& step) {
      if (step.spec.once) return false;
      const std::vector<std::string> words =
          step.spec.shell.empty() ? step.spec.command : words_in_shell(step.spec.shell);
      return std::any_of(words.begin(), words.end(),
                         [&](const std::string& word) { return reads(step, word); });
    });
  }

 private:
  void look(const PlacedTemplate& t) {
    if (t.key == "expect" || t.key.starts_with("fake.")) return;
    if (t.key == "shell") return look_into_shell(t.text);
    if (t.key == "command") all_ |= is_word_of_pergpu(t.text);
    visit_template(t.text, [&](const TemplatePart& part) {
      if (part.kind == TemplatePart::Kind::Name) use(part.text);
    });
  }

  void look_into_shell(const std::string& text) {
    all_ |=
        contains(text, "PERGPU_CONFIG") || contains(text, "config.json") || words_of_shell(text);
    for (const Column& c : draft_.runs.columns)
      if (contains(text, param_env_name(c.name))) used_.push_back(c.name);
    for (const std::string& word : words_in_shell(text)) all_ |= word.starts_with("pergpu");
  }

  void use(std::string_view name) {
    const std::optional<Builtin> builtin = builtin_of(name);
    const bool is_parameter = draft_.runs.find(name) != nullptr;
    if (!builtin || (is_parameter && is_several_words(*builtin))) {
      used_.emplace_back(name);
      return;
    }
    switch (*builtin) {
      case Builtin::Config:
      case Builtin::Json:
      case Builtin::Index:
      case Builtin::Args:
      case Builtin::Overrides:
        all_ = true;
        return;
      case Builtin::Run:  // a name of the run, for a log
      case Builtin::Out:
      case Builtin::Metrics:
      case Builtin::Attempt:
      case Builtin::Runs:
        return;
    }
  }

  bool reads(const StepDraft& step, const std::string& word) const {
    if (word.empty() || has_placeholders(word) || has_placeholders(step.spec.cwd)) return false;
    const auto in = [](const std::string& folder, const std::string& path) {
      return path[0] == '/' || folder.empty() ? path : folder + "/" + path;
    };
    const std::string folder =
        step.spec.cwd.empty() ? draft_.folder : in(draft_.folder, step.spec.cwd);
    const Result<std::string> text = read_text_file(in(folder, word), kMostProgramBytes);
    return text && may_read_parameters(*text);
  }

  const Draft& draft_;
  std::vector<std::string> used_;
  bool all_ = false;
};

}  // namespace

void check_unused_parameters(Draft& draft) {
  const Use use(draft);
  const Column* first = nullptr;
  std::string names;
  for (const Column& c : draft.runs.columns) {
    if (!c.differs || use.of(c.name)) continue;
    if (first == nullptr) first = &c;
    names += fmt::format("{}`{}`", names.empty() ? "" : ", ", c.name);
  }
  if (first == nullptr || use.reads_by_itself()) return;
  draft.report.warning(first->at,
                       fmt::format("no command uses {0}, so runs that differ only in it do the "
                                   "same work; put {{{1}}} into a command, or {{args}} for all "
                                   "parameters (--{1}=...), or let the program read {{config}}",
                                   names, first->name));
}

}  // namespace pergpu
