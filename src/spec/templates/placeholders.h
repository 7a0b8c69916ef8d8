// Templates: texts with {placeholders}.  Checked once when the sweep is read
// (spec/schema/schema_templates.cc), rendered for one attempt at a time.
//
// Grammar: `{name}` and `{name.name}` with names [A-Za-z_][A-Za-z0-9_]* are placeholders; `{{` and
// `}}` give braces; any other brace stays as it is.  In a text of `shell` only {args} and
// {overrides} mean something.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/step.h"
#include "result.h"
#include "spec/sweep/sweep.h"
#include "spec/templates/run_parameters.h"

namespace pergpu {

enum class Builtin : std::uint8_t {
  Config,     // {config}: path of the run's JSON
  Json,       // {json}: its text
  Out,        // {out}: the job's folder
  Metrics,    // {metrics}: <out>/metrics.jsonl
  Run,        // {run}: the run's folder name
  Index,      // {index}: the run's index
  Attempt,    // {attempt}: from 1
  Runs,       // {runs}: JSON lines of all runs; once-steps only
  Args,       // {args}: --model=mlp --seed=0, a word for each parameter
  Overrides,  // {overrides}: model=mlp seed=0, the same
};
std::optional<Builtin> builtin_of(std::string_view name);
std::string_view to_string(Builtin b);
std::vector<std::string_view> builtin_names();
/// {config} {json} {run} {index} {args} {overrides}: meaningless in a once-step.
bool needs_a_run(Builtin b);
/// {args} {overrides}: several words, so each is a separate word in a command.  A parameter of
/// that name takes its place.
bool is_several_words(Builtin b);

/// The positional parameters of `shell`, which {args} or {overrides} in it stand for; no value
/// where it has none of them.  Both in one text are the first.
std::optional<Builtin> words_of_shell(std::string_view shell);

bool is_identifier(std::string_view text);

/// One piece of a template.
struct TemplatePart {
  enum class Kind : std::uint8_t {
    Text,       // `text` as is (braces already halved)
    Name,       // {text}
    StepField,  // {text.field}
  };
  Kind kind = Kind::Text;
  std::string_view text = {};
  std::string_view field = {};
};
/// Calls `visit` for each part, in order.  Views into `t`.
void visit_template(std::string_view t, const std::function<void(const TemplatePart&)>& visit);
bool has_placeholders(std::string_view t);

/// What placeholders mean for one attempt of one job.
struct RenderScope {
  std::optional<std::string> json = std::nullopt;  // {json}: of the run; none in a once-step
  RunParameters parameters = {};                   // of the run
  std::string run_folder = {};                     // {run}: "03-method=edm,seed=2"
  std::int64_t index = 0;
  int attempt = 1;
  std::string out = {};                                             // absolute
  std::string config = {};                                          // absolute
  std::string metrics = {};                                         // absolute
  std::function<std::string(std::string_view step)> step_out = {};  // {STEP.out}; "" if unknown
  std::function<std::string()> runs_lines = {};  // {runs}; only called when a template asks for it
};

/// A scope with the run's JSON and parameters set.
Result<RenderScope> scope_of(const RunSpec& run);

/// The longest text that render() gives: one argument or "NAME=value" (MAX_ARG_STRLEN less its
/// terminator).  Values may be longer, and each may stand in a text as often as one likes.
inline constexpr std::size_t kMostArgumentBytes = 131'071;
/// So much the kernel takes in all at most, however large the stack may be; the arguments of
/// render_argv(), and the variables of render_env(), are no more.
inline constexpr std::size_t kMostStartBytes = std::size_t{6} << 20;

/// Invalid, naming the placeholder, when `t` asks for something the scope has not, or its beginning
/// when it would be longer than that.
Result<std::string> render(const Template& t, const RenderScope& scope);
/// The same of a pattern for file names: what placeholders stand for matches itself only.
Result<std::string> render_pattern(const Template& t, const RenderScope& scope);
/// `*`, `?` or `[` in the text between placeholders: it is a pattern.
bool has_wildcards(const Template& t);
/// How long render() would make it if nothing were too long.  Makes no such text.
Result<std::size_t> rendered_size(const Template& t, const RenderScope& scope);
/// What render() says of `t` that would have more than `bytes` bytes.
Error too_long(const Template& t, std::size_t bytes);
/// The argv of a step: its rendered command, or {"/bin/sh", "-c", shell}, with the words of {args}
/// behind it where `shell` has that.
Result<std::vector<std::string>> render_argv(const StepSpec& step, const RenderScope& scope);
/// The words of {args} or {overrides}.
Result<std::vector<std::string>> words_of(Builtin b, const RenderScope& scope);
/// Of a word of `command` that is {args} or {overrides} and nothing else.
std::optional<Builtin> words_builtin(std::string_view t, const RenderScope& scope);

/// The step's `env`, rendered: NAME=value pairs in file order.
Result<std::vector<std::pair<std::string, std::string>>> render_env(const StepSpec& step,
                                                                    const RenderScope& scope);

/// {runs}: each run's JSON on its own line.
std::string runs_lines(const std::vector<RunSpec>& runs);
/// True when a template of the step asks for {runs}: then all runs are part of its identity.
bool uses_runs(const StepSpec& step);

}  // namespace pergpu
