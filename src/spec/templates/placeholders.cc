// A template is scanned from left to right, once, and never re-scanned: a parameter whose value
// looks like a placeholder stays what it is.
#include "spec/templates/placeholders.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "ascii.h"
#include "spec/templates/argument_words.h"

namespace pergpu {
namespace {

constexpr std::array<std::pair<std::string_view, Builtin>, 10> kBuiltins = {{
    {"config", Builtin::Config},
    {"json", Builtin::Json},
    {"out", Builtin::Out},
    {"metrics", Builtin::Metrics},
    {"run", Builtin::Run},
    {"index", Builtin::Index},
    {"attempt", Builtin::Attempt},
    {"runs", Builtin::Runs},
    {"args", Builtin::Args},
    {"overrides", Builtin::Overrides},
}};

constexpr std::string_view kWildcards = "*?[";

/// Past the identifier at `at`, or `at` when there is none.
std::size_t skip_identifier(std::string_view t, std::size_t at) {
  if (at >= t.size() || !is_name_start(t[at])) return at;
  while (at < t.size() && is_name_char(t[at])) ++at;
  return at;
}

Error unknown(std::string_view placeholder, std::string_view why) {
  return Error{ErrorKind::Invalid, 0, fmt::format("placeholder {{{}}}: {}", placeholder, why)};
}

Result<std::string> value_of_builtin(Builtin b, const RenderScope& scope) {
  if (needs_a_run(b) && !scope.json) return unknown(to_string(b), "a once-step has no run");
  switch (b) {
    case Builtin::Config:
      return scope.config;
    case Builtin::Json:
      return *scope.json;
    case Builtin::Out:
      return scope.out;
    case Builtin::Metrics:
      return scope.metrics;
    case Builtin::Run:
      return scope.run_folder;
    case Builtin::Index:
      return std::to_string(scope.index);
    case Builtin::Attempt:
      return std::to_string(scope.attempt);
    case Builtin::Runs:
      if (!scope.runs_lines) return unknown("runs", "only a once-step can use it");
      return scope.runs_lines();
    case Builtin::Args:
    case Builtin::Overrides:
      return unknown(to_string(b), "it expands to several words");
  }
  return unknown(to_string(b), "unknown placeholder");
}

Result<std::string> value_of(const TemplatePart& part, const RenderScope& scope) {
  if (part.kind == TemplatePart::Kind::StepField) {
    std::string folder;
    if (part.field == "out" && scope.step_out) folder = scope.step_out(part.text);
    if (folder.empty()) return unknown(fmt::format("{}.{}", part.text, part.field), "unknown step");
    return folder;
  }
  const std::string* text = scope.parameters.text(part.text);
  const std::optional<Builtin> builtin = builtin_of(part.text);
  if (builtin && (text == nullptr || !is_several_words(*builtin)))
    return value_of_builtin(*builtin, scope);
  if (text == nullptr) return unknown(part.text, "the run has no such parameter");
  return *text;
}

}  // namespace

namespace {

std::string placeholder_of(Builtin b) { return fmt::format("{{{}}}", to_string(b)); }

/// `${args}` is the shell's own.
std::size_t find_in_shell(std::string_view shell, const std::string& placeholder,
                          std::size_t from = 0) {
  std::size_t at = shell.find(placeholder, from);
  while (at != std::string_view::npos && at > 0 && shell[at - 1] == '$')
    at = shell.find(placeholder, at + 1);
  return at;
}

Result<std::vector<std::string>> shell_argv(const std::string& shell, const RenderScope& scope) {
  std::vector<std::string> argv = {"/bin/sh", "-c", shell};
  const std::optional<Builtin> builtin = words_of_shell(shell);
  if (!builtin || scope.parameters.text(to_string(*builtin)) != nullptr) return argv;
  // Positional parameters: nothing of a value is ever read as shell.
  const std::string placeholder = placeholder_of(*builtin);
  std::string text;
  std::size_t from = 0;
  for (std::size_t at = find_in_shell(shell, placeholder); at != std::string::npos;
       at = find_in_shell(shell, placeholder, from)) {
    text.append(shell, from, at - from).append("\"$@\"");
    from = at + placeholder.size();
  }
  argv[2] = text.append(shell, from);
  Result<std::vector<std::string>> words = words_of(*builtin, scope);
  if (!words) return words;
  argv.emplace_back("/bin/sh");  // $0, as without
  argv.insert(argv.end(), words->begin(), words->end());
  return argv;
}

}  // namespace

Result<std::vector<std::string>> words_of(Builtin b, const RenderScope& scope) {
  if (!scope.json) return unknown(to_string(b), "a once-step has no run");
  return argument_words(*scope.json, scope.parameters,
                        b == Builtin::Args ? ArgumentStyle::Options : ArgumentStyle::Overrides);
}

std::optional<Builtin> words_builtin(std::string_view t, const RenderScope& scope) {
  for (const Builtin b : {Builtin::Args, Builtin::Overrides})
    if (t == placeholder_of(b) && scope.parameters.text(to_string(b)) == nullptr) return b;
  return std::nullopt;
}

std::optional<Builtin> builtin_of(std::string_view name) {
  for (const auto& [text, builtin] : kBuiltins)
    if (text == name) return builtin;
  return std::nullopt;
}

std::vector<std::string_view> builtin_names() {
  std::vector<std::string_view> out;
  for (const auto& [text, builtin] : kBuiltins) out.push_back(text);
  return out;
}

std::string_view to_string(Builtin b) {
  for (const auto& [text, builtin] : kBuiltins)
    if (builtin == b) return text;
  return {};
}

bool needs_a_run(Builtin b) {
  switch (b) {
    case Builtin::Config:
    case Builtin::Json:
    case Builtin::Run:
    case Builtin::Index:
    case Builtin::Args:
    case Builtin::Overrides:
      return true;
    case Builtin::Out:
    case Builtin::Metrics:
    case Builtin::Attempt:
    case Builtin::Runs:
      return false;
  }
  return false;
}

bool is_several_words(Builtin b) { return b == Builtin::Args || b == Builtin::Overrides; }

std::optional<Builtin> words_of_shell(std::string_view shell) {
  std::optional<Builtin> first;
  std::size_t first_at = std::string_view::npos;
  for (const Builtin b : {Builtin::Args, Builtin::Overrides}) {
    const std::size_t at = find_in_shell(shell, placeholder_of(b));
    if (at >= first_at) continue;
    first = b;
    first_at = at;
  }
  return first;
}

bool is_identifier(std::string_view text) {
  return !text.empty() && skip_identifier(text, 0) == text.size();
}

void visit_template(std::string_view t, const std::function<void(const TemplatePart&)>& visit) {
  std::size_t text_begin = 0;
  auto flush = [&](std::size_t end) {
    if (end > text_begin) visit({.text = t.substr(text_begin, end - text_begin)});
  };
  std::size_t i = 0;
  while (i < t.size()) {
    char c = t[i];
    if ((c == '{' || c == '}') && i + 1 < t.size() && t[i + 1] == c) {
      flush(i + 1);  // one of the two
      i += 2;
      text_begin = i;
      continue;
    }
    if (c != '{') {
      ++i;
      continue;
    }
    std::size_t name_end = skip_identifier(t, i + 1);
    std::size_t end = name_end;
    if (name_end > i + 1 && name_end < t.size() && t[name_end] == '.')
      end = skip_identifier(t, name_end + 1);
    bool has_field = end > name_end + 1;
    if (name_end == i + 1 || end >= t.size() || t[end] != '}' || (end > name_end && !has_field)) {
      ++i;
      continue;
    }
    flush(i);
    TemplatePart part;
    part.kind = has_field ? TemplatePart::Kind::StepField : TemplatePart::Kind::Name;
    part.text = t.substr(i + 1, name_end - i - 1);
    if (has_field) part.field = t.substr(name_end + 1, end - name_end - 1);
    visit(part);
    i = end + 1;
    text_begin = i;
  }
  flush(t.size());
}

bool has_placeholders(std::string_view t) {
  bool found = false;
  visit_template(t, [&](const TemplatePart& p) { found |= p.kind != TemplatePart::Kind::Text; });
  return found;
}

Result<RenderScope> scope_of(const RunSpec& run) {
  Result<RunParameters> parameters = RunParameters::parse(run);
  if (!parameters) return std::move(parameters).error();
  RenderScope scope;
  scope.json = run.json;
  scope.parameters = std::move(*parameters);
  return scope;
}

namespace {

/// `value`: what stands in a placeholder's place, of its value.
template <typename Value>
Result<std::string> render_with(const Template& t, const RenderScope& scope, Value value) {
  std::string out;
  std::optional<Error> failed;
  visit_template(t, [&](const TemplatePart& part) {
    if (failed) return;
    if (part.kind == TemplatePart::Kind::Text) {
      out += part.text;
    } else if (Result<std::string> its = value_of(part, scope)) {
      out += value(*std::move(its));
    } else {
      failed = its.error();
    }
    // Some values in a text of a megabyte could fill any memory.
    if (!failed && out.size() > kMostArgumentBytes) failed = too_long(t, out.size());
  });
  if (failed) return *std::move(failed);
  return out;
}

/// Values of parameters are not copied for it: one of a megabyte may stand there a million times.
Result<std::size_t> size_of(const TemplatePart& part, const RenderScope& scope) {
  if (part.kind == TemplatePart::Kind::Text) return part.text.size();
  const std::optional<Builtin> builtin = builtin_of(part.text);
  if (part.kind == TemplatePart::Kind::Name) {
    const std::string* text = scope.parameters.text(part.text);
    const bool is_value = text != nullptr && (!builtin || is_several_words(*builtin));
    if (is_value) return text->size();
    if (builtin == Builtin::Json && scope.json) return scope.json->size();
  }
  const Result<std::string> value = value_of(part, scope);
  if (!value) return value.error();
  return value->size();
}

}  // namespace

Error too_long(const Template& t, std::size_t bytes) {
  constexpr std::size_t kShown = 60;
  return Error{
      ErrorKind::Invalid, 0,
      fmt::format("`{}{}` would have at least {} bytes, too many to pass to a program; read the "
                  "parameters from the file {{config}} instead",
                  std::string_view(t).substr(0, kShown), t.size() > kShown ? "…" : "", bytes)};
}

Result<std::size_t> rendered_size(const Template& t, const RenderScope& scope) {
  std::size_t size = 0;
  std::optional<Error> failed;
  visit_template(t, [&](const TemplatePart& part) {
    if (failed) return;
    const Result<std::size_t> its = size_of(part, scope);
    if (its) {
      size += *its;
    } else {
      failed = its.error();
    }
  });
  if (failed) return *std::move(failed);
  return size;
}

Result<std::string> render(const Template& t, const RenderScope& scope) {
  return render_with(t, scope, [](std::string value) { return value; });
}

Result<std::string> render_pattern(const Template& t, const RenderScope& scope) {
  return render_with(t, scope, [](const std::string& value) {
    std::string out;
    for (const char c : value) {
      if (kWildcards.find(c) != std::string_view::npos || c == '\\') out += '\\';
      out += c;
    }
    return out;
  });
}

bool has_wildcards(const Template& t) {
  bool found = false;
  visit_template(t, [&](const TemplatePart& part) {
    found |= part.kind == TemplatePart::Kind::Text &&
             part.text.find_first_of(kWildcards) != std::string_view::npos;
  });
  return found;
}

Result<std::vector<std::string>> render_argv(const StepSpec& step, const RenderScope& scope) {
  if (step.command.empty()) return shell_argv(step.shell, scope);
  std::vector<std::string> argv;
  argv.reserve(step.command.size());
  std::size_t bytes = 0;
  for (const Template& t : step.command) {
    if (const std::optional<Builtin> several = words_builtin(t, scope)) {
      Result<std::vector<std::string>> words = words_of(*several, scope);
      if (!words) return words;
      for (const std::string& word : *words) bytes += word.size();
      argv.insert(argv.end(), std::make_move_iterator(words->begin()),
                  std::make_move_iterator(words->end()));
    } else {
      Result<std::string> text = render(t, scope);
      if (!text) return std::move(text).error();
      bytes += text->size();
      argv.push_back(*std::move(text));
    }
    if (bytes > kMostStartBytes) return too_long(t, bytes);
  }
  return argv;
}

Result<std::vector<std::pair<std::string, std::string>>> render_env(const StepSpec& step,
                                                                    const RenderScope& scope) {
  std::vector<std::pair<std::string, std::string>> env;
  env.reserve(step.env.size());
  std::size_t bytes = 0;
  for (const auto& [name, value] : step.env) {
    Result<std::string> text = render(value, scope);
    if (!text) return std::move(text).error();
    bytes += name.size() + text->size();
    if (bytes > kMostStartBytes) return too_long(value, bytes);
    env.emplace_back(name, *std::move(text));
  }
  return env;
}

std::string runs_lines(const std::vector<RunSpec>& runs) {
  std::size_t size = 0;
  for (const RunSpec& run : runs) size += run.json.size() + 1;
  std::string out;
  out.reserve(size);
  for (const RunSpec& run : runs) {
    out += run.json;
    out += '\n';
  }
  return out;
}

bool uses_runs(const StepSpec& step) {
  bool found = false;
  auto look = [&](const Template& t) {
    visit_template(t, [&](const TemplatePart& part) {
      found |= part.kind == TemplatePart::Kind::Name && part.text == to_string(Builtin::Runs);
    });
  };
  for (const Template& t : step.command) look(t);
  for (const auto& [name, value] : step.env) look(value);
  for (const Template& t : step.outputs) look(t);
  look(step.cwd);
  look(step.metrics);
  return found;
}

}  // namespace pergpu
