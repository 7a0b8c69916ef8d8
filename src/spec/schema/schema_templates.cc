// Placeholders are checked when the sweep is read, so that no job fails in the night over a name.
//
// In `shell` nothing is pasted: a value with a quote in it would become code.  A known placeholder
// there is an error that names the environment variable to use; `${NAME}` and unknown braces are
// the shell's own, unless they look like a known name mistyped.
#include <fmt/core.h>

#include <algorithm>

#include "spec/schema/draft.h"
#include "spec/templates/output_pattern.h"
#include "spec/templates/path_text.h"
#include "spec/templates/placeholders.h"
#include "spec/text/suggest.h"
#include "spec/text/units.h"

namespace pergpu {
namespace {

/// An argument can hold 128 KiB less its terminator (MAX_ARG_STRLEN).
constexpr std::size_t kMaxArgumentBytes = 131'071;

class TemplateCheck {
 public:
  TemplateCheck(Draft& draft, StepDraft& step, std::size_t index)
      : draft_(draft), report_(draft.report), step_(step), reachable_(draft.steps.size(), false) {
    collect_needed(index);
  }

  void check() {
    warn_of_pasted_shell();
    check_words_for_a_shell();
    for (PlacedTemplate& t : step_.templates) {
      if (names_files(t.key) && !expand_variables(t)) continue;
      if (t.key == "shell") {
        check_shell(t);
      } else {
        check_template(t);
      }
    }
  }

 private:
  void collect_needed(std::size_t index) {
    for (const Need& need : draft_.steps[index].spec.needs) {
      std::size_t next = static_cast<std::size_t>(need.step);
      if (reachable_[next]) continue;
      reachable_[next] = true;
      collect_needed(next);
    }
  }

  /// ["sh", "-c", "… {lr} …"] is executed as written, but it is hardly what was wanted.
  void warn_of_pasted_shell() {
    const std::vector<Template>& command = step_.spec.command;
    if (command.size() < 3 || command[1].empty() || command[1][0] != '-') return;
    std::string_view program = command[0];
    if (std::size_t slash = program.rfind('/'); slash != std::string_view::npos)
      program.remove_prefix(slash + 1);
    bool is_shell = program == "sh" || program == "bash" || program == "dash" || program == "zsh";
    if (!is_shell || command[1].back() != 'c' || !has_placeholders(command[2])) return;
    for (const PlacedTemplate& t : step_.templates)
      if (t.key == "command" && t.text == command[2]) {
        report_.warning(
            t.at,
            "`command`: values are pasted into this shell command, where quotes and spaces have a "
            "meaning; use `shell = …`, which passes values in the environment");
        return;
      }
  }

  /// Keys in which `~` and variables stand for something (spec/templates/path_text.h).
  static bool names_files(std::string_view key) {
    return key == "cwd" || key == "outputs" || key == "metrics" || key.starts_with("env.");
  }

  /// In the template and in the step.  False, and reported: that cannot be done.
  bool expand_variables(PlacedTemplate& t) {
    const auto is_parameter = [this](std::string_view name) {
      return builtin_of(name) || draft_.runs.find(name) != nullptr;
    };
    const bool is_path = !t.key.starts_with("env.");
    Result<std::string> text =
        expand_template(t.text, is_parameter, is_path ? Emptiness::Refused : Emptiness::Allowed);
    if (!text) {
      fail(t, text.error().message);
      return false;
    }
    const std::string own = t.key.starts_with("env.") ? t.key.substr(4) : std::string();
    if (!own.empty() && uses_variable(t.text, own)) {
      fail(t, fmt::format("its value can differ between shells, which would change the job; set {} "
                          "in the shell that you submit from, because jobs get its environment",
                          own));
      return false;
    }
    if (t.key == "outputs") {
      if (std::string why = why_no_output(t.text); !why.empty()) {
        fail(t, why);
        return false;
      }
    }
    if ((t.key == "cwd" || t.key == "metrics") && has_wildcards(t.text)) {
      fail(t, why_no_single_path("*"));
      return false;
    }
    StepSpec& spec = step_.spec;
    if (t.key == "cwd") spec.cwd = *text;
    if (t.key == "metrics") spec.metrics = *text;
    if (t.key == "outputs") std::replace(spec.outputs.begin(), spec.outputs.end(), t.text, *text);
    for (auto& [name, value] : spec.env) {
      if (name == own) value = *text;
    }
    t.text = *std::move(text);
    return true;
  }

  /// No shell runs the words of a list: a `~` reaches the program as it is.
  void check_words_for_a_shell() {
    const std::vector<Template>& command = step_.spec.command;
    const bool runs_text = command.size() > 2 && command[1].starts_with("-");  // sh -c …
    for (const PlacedTemplate& t : step_.templates) {
      const bool is_path = t.text.starts_with("~/");
      const bool is_variable =
          t.text.size() > 1 && t.text[0] == '$' && is_identifier(t.text.substr(1, 1));
      if (t.key != "command" || (!is_path && !is_variable)) continue;
      if (t.text == command.front()) {
        fail(t, fmt::format("\"{}\" isn't a program: the command doesn't run in a shell, so "
                            "nothing is expanded; write the full path",
                            t.text));
      } else if (is_path || !runs_text) {
        report_.warning(t.at,
                        fmt::format("`command`: \"{}\" isn't expanded, because this command "
                                    "doesn't run in a shell; write the value, or use `shell = …`",
                                    t.text));
      }
    }
  }

  void fail(const PlacedTemplate& t, const std::string& what) {
    std::string where = t.from_defaults ? fmt::format("`{}` (for {})", t.key, step_.where)
                                        : fmt::format("`{}`", t.key);
    report_.error(t.at, fmt::format("{}: {}", where, what));
  }

  void check_template(const PlacedTemplate& t) {
    int open_braces = 0;
    bool warned = false;
    for (std::size_t i = 0; i + 1 < t.text.size(); ++i) {
      if (t.text[i] != t.text[i + 1] || (t.text[i] != '{' && t.text[i] != '}')) continue;
      open_braces += t.text[i] == '{' ? 1 : -1;
      ++i;
      if (open_braces < 0 && !warned) {
        warned = true;
        report_.warning(t.at,
                        fmt::format("`{}`: }}}} gives one }}; write }}}}}}}} for two", t.key));
      }
    }
    visit_template(t.text, [&](const TemplatePart& part) {
      if (part.kind == TemplatePart::Kind::Name) check_name(t, part.text);
      if (part.kind == TemplatePart::Kind::StepField) check_step_field(t, part.text, part.field);
    });
  }

  void check_name(const PlacedTemplate& t, std::string_view name) {
    const Column* column = draft_.runs.find(name);
    const std::optional<Builtin> builtin = builtin_of(name);
    if (builtin && (column == nullptr || !is_several_words(*builtin)))
      return check_builtin(t, *builtin);
    if (column == nullptr) return report_unknown(t, name);
    if (step_.spec.once) {
      fail(t, fmt::format("{{{}}} is a parameter of a run, but a once-step has no run; {{runs}} "
                          "gives all runs as JSON lines",
                          name));
      return;
    }
    if (column->present < draft_.sweep.runs.size() && !column->broken &&
        !draft_.runs_are_incomplete)
      report_.error(column->missing_at, fmt::format("this run lacks `{}`, which {} uses in `{}`",
                                                    name, step_.where, t.key));
  }

  void check_builtin(const PlacedTemplate& t, Builtin builtin) {
    std::string_view name = to_string(builtin);
    if (step_.spec.once && needs_a_run(builtin))
      fail(t, fmt::format("{{{}}} belongs to a run, but a once-step has no run", name));
    const bool is_alone = t.key == "command" && t.text == fmt::format("{{{}}}", name);
    if (is_several_words(builtin) && !is_alone)
      fail(t, fmt::format("{{{}}} expands to several words: it must be a separate word, and works "
                          "only in `command` and `shell`",
                          name));
    if (builtin != Builtin::Runs) return;
    if (!step_.spec.once) {
      fail(t, "{runs} works only in once-steps (once = true)");
      return;
    }
    std::size_t bytes = 0;
    for (const RunSpec& run : draft_.sweep.runs) bytes += run.json.size() + 1;
    if (bytes > kMaxArgumentBytes)
      fail(t, fmt::format("{{runs}} would be {} bytes, but an argument can have at most {}", bytes,
                          kMaxArgumentBytes));
  }

  void check_step_field(const PlacedTemplate& t, std::string_view name, std::string_view field) {
    const StepDraft* other = nullptr;
    std::vector<std::string_view> steps;
    for (std::size_t i = 0; i < draft_.steps.size(); ++i) {
      if (draft_.steps[i].spec.name == name) other = &draft_.steps[i];
      steps.push_back(draft_.steps[i].spec.name);
    }
    if (other == nullptr) {
      if (report_.incomplete()) return;
      std::string_view near = nearest(name, steps);
      std::string hint = near.empty() ? "" : fmt::format("; did you mean {{{}.out}}?", near);
      fail(t, fmt::format("unknown placeholder {{{}.{}}}{}", name, field, hint));
      return;
    }
    if (field != "out") {
      fail(t,
           fmt::format("unknown placeholder {{{0}.{1}}}; did you mean {{{0}.out}}?", name, field));
      return;
    }
    if (other == &step_) {
      fail(t, fmt::format("{{{}.out}} is this step's own folder: write {{out}}", name));
      return;
    }
    if (step_.spec.once && !other->spec.once) {
      fail(t, fmt::format("{{{}.out}} is a folder of each run, but a once-step has no run", name));
      return;
    }
    std::size_t index = static_cast<std::size_t>(other - draft_.steps.data());
    if (!reachable_[index] && !report_.incomplete())
      fail(t, fmt::format("{{{0}.out}} is used, but {1} does not need `{0}`: add it to `needs`",
                          name, step_.where));
  }

  /// Names that could have been meant, with their braces.
  std::vector<std::string> known() const {
    std::vector<std::string> out;
    if (!step_.spec.once)
      for (const Column& c : draft_.runs.columns) out.push_back(c.name);
    for (Builtin b :
         {Builtin::Config, Builtin::Json, Builtin::Out, Builtin::Metrics, Builtin::Run,
          Builtin::Index, Builtin::Attempt, Builtin::Runs, Builtin::Args, Builtin::Overrides}) {
      bool fits = b == Builtin::Runs ? step_.spec.once : !(step_.spec.once && needs_a_run(b));
      if (fits) out.emplace_back(to_string(b));
    }
    for (const StepDraft& step : draft_.steps) out.push_back(step.spec.name + ".out");
    return out;
  }

  std::string near_placeholder(std::string_view name) const {
    for (const StepDraft& step : draft_.steps)
      if (step.spec.name == name) return step.spec.name + ".out";
    std::vector<std::string> names = known();
    std::vector<std::string_view> views(names.begin(), names.end());
    return std::string(nearest(name, views));
  }

  void report_unknown(const PlacedTemplate& t, std::string_view name) {
    if (report_.incomplete() || draft_.runs_are_incomplete) return;
    std::string near = near_placeholder(name);
    std::string hint =
        near.empty() ? no_parameter(t, name) : fmt::format("; did you mean {{{}}}?", near);
    fail(t, fmt::format("unknown placeholder {{{}}}{}", name, hint));
  }

  /// Where to add the parameter that is missing.  The command line has no lines.
  std::string no_parameter(const PlacedTemplate& t, std::string_view name) const {
    constexpr std::size_t kNamed = 8;
    const std::string literal = fmt::format("write {{{{{}}}}} for the literal text", name);
    if (step_.spec.once) return "; " + literal;
    const std::vector<Column>& columns = draft_.runs.columns;
    std::string known;
    for (std::size_t i = 0; i < std::min(columns.size(), kNamed); ++i)
      known += (i == 0 ? " (parameters: " : ", ") + columns[i].name;
    if (columns.size() > kNamed) known += fmt::format(" and {} more", columns.size() - kNamed);
    if (!known.empty()) known += ")";
    const std::string how = t.at.line == 0
                                ? fmt::format("pass -g {}=V1,V2", name)
                                : std::string("add it to [grid], or to [constants] for one value");
    return fmt::format(": there is no parameter `{}`{}; {}; or {}", name, known, how, literal);
  }

  void check_shell(const PlacedTemplate& t) {
    std::string_view text = t.text;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '{' || (i > 0 && text[i - 1] == '$')) continue;
      std::size_t end = text.find('}', i);
      if (end == std::string_view::npos) return;
      std::string_view name = text.substr(i + 1, end - i - 1);
      std::size_t dot = name.find('.');
      bool field = dot != std::string_view::npos && is_identifier(name.substr(dot + 1));
      if (field && is_identifier(name.substr(0, dot))) {
        check_shell_field(t, name.substr(0, dot), name.substr(dot + 1));
      } else if (is_identifier(name)) {
        check_shell_name(t, name, i > 0 ? text[i - 1] : ' ');
      }
    }
  }

  /// {args} in a shell text becomes "$@".
  void check_shell_words(const PlacedTemplate& t, Builtin builtin, char before) {
    std::string_view name = to_string(builtin);
    if (step_.spec.once)
      fail(t, fmt::format("{{{}}} belongs to a run, but a once-step has no run", name));
    if (before == '"' || before == '\'')
      fail(t, fmt::format("{{{}}} expands to several words that are already quoted: remove the "
                          "quotes around it",
                          name));
    if (words_of_shell(t.text) != builtin)
      fail(t, "one shell command can't contain both {args} and {overrides}");
  }

  void check_shell_name(const PlacedTemplate& t, std::string_view name, char before) {
    std::string variable;
    const bool is_parameter = draft_.runs.find(name) != nullptr;
    const std::optional<Builtin> builtin = builtin_of(name);
    if (builtin && !(is_parameter && is_several_words(*builtin))) {
      switch (*builtin) {
        case Builtin::Config:
          variable = "PERGPU_CONFIG";
          break;
        case Builtin::Out:
          variable = "PERGPU_OUT";
          break;
        case Builtin::Metrics:
          variable = "PERGPU_METRICS";
          break;
        case Builtin::Run:
          variable = "PERGPU_RUN";
          break;
        case Builtin::Attempt:
          variable = "PERGPU_ATTEMPT";
          break;
        case Builtin::Json:
        case Builtin::Index:
        case Builtin::Runs:
          return report_pasted(t, name);
        case Builtin::Args:
        case Builtin::Overrides:
          return check_shell_words(t, *builtin, before);
      }
    } else if (is_parameter) {
      variable = param_env_name(name);
    }
    if (!variable.empty()) {
      fail(t,
           fmt::format("values aren't pasted into a shell command: write \"${}\" instead of {{{}}}",
                       variable, name));
      return;
    }
    std::string near = near_placeholder(name);
    if (!near.empty() && !report_.incomplete())
      fail(t, fmt::format("unknown placeholder {{{}}}; did you mean {{{}}}? In a shell command "
                          "it's an environment variable",
                          name, near));
  }

  void check_shell_field(const PlacedTemplate& t, std::string_view name, std::string_view field) {
    for (const StepDraft& step : draft_.steps)
      if (step.spec.name == name) return report_pasted(t, fmt::format("{}.{}", name, field));
  }

  /// For values that have no environment variable.
  void report_pasted(const PlacedTemplate& t, std::string_view name) {
    fail(t, fmt::format("values aren't pasted into a shell command: set env = {{ VALUE = "
                        "\"{{{}}}\" }} and write \"$VALUE\"",
                        name));
  }

  Draft& draft_;
  Report& report_;
  StepDraft& step_;
  std::vector<bool> reachable_;  // by needs, over any number of steps
};

}  // namespace

void check_templates(Draft& draft) {
  for (std::size_t i = 0; i < draft.steps.size(); ++i)
    TemplateCheck(draft, draft.steps[i], i).check();
}

void check_rendered_durations(Draft& draft) {
  // Enough to find a wrong column; rendering millions of runs here would double the time of a
  // submit.
  constexpr std::size_t kMaxChecked = 10'000;
  for (const StepDraft& step : draft.steps) {
    for (const PlacedTemplate& t : step.templates) {
      bool is_duration = t.key == "expect" || t.key == "fake.duration";
      if (!is_duration || step.spec.once) continue;
      std::size_t count = std::min(draft.sweep.runs.size(), kMaxChecked);
      for (std::size_t i = 0; i < count; ++i) {
        Result<RenderScope> scope = scope_of(draft.sweep.runs[i]);
        Result<std::string> text = scope ? render(t.text, *scope) : std::move(scope).error();
        if (!text) break;
        if (Result<std::chrono::milliseconds> d = parse_duration(*text); !d) {
          draft.report.error(t.at, fmt::format("`{}` of run {}: {}", t.key, i, d.error().message));
          break;
        }
      }
    }
  }
}

}  // namespace pergpu
