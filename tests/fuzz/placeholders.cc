// Templates and commands: the parts of a template are the template, a rendered one holds the values
// and nothing is read twice; words quoted for a shell are the words.  Lines: a template, a
// parameter's value, a command.
#include "spec/templates/placeholders.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "spec/templates/command_words.h"
#include "spec/text/canonical_json.h"
#include "spec/text/source_text.h"

namespace {

using namespace pergpu;

/// The template that says the same as its parts.
std::string joined(std::string_view t) {
  std::string out;
  std::string text;
  const auto flush = [&] {
    for (const char c : text) {
      out += c;
      if (c == '{' || c == '}') out += c;
    }
    text.clear();
  };
  visit_template(t, [&](const TemplatePart& part) {
    if (part.kind == TemplatePart::Kind::Text) {
      text += part.text;
      return;
    }
    flush();
    out.append("{").append(part.text);
    if (part.kind == TemplatePart::Kind::StepField) out.append(".").append(part.field);
    out += '}';
  });
  flush();
  return out;
}

std::string in_quotes(std::string_view word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

void check_render(std::string_view t, std::string_view value) {
  if (find_invalid_utf8(value) != value.npos) return;
  RunSpec run;
  run.json = "{\"x\":";
  append_json_string(run.json, value);
  run.json += "}";
  Result<RenderScope> scope = scope_of(run);
  fuzz::check(static_cast<bool>(scope), "a run with one parameter");
  fuzz::check(*scope->parameters.text("x") == value, "a value is what was written");
  scope->out = "/o";
  scope->step_out = [](std::string_view step) { return "/steps/" + std::string(step); };
  const Result<std::string> rendered = render(Template(t), *scope);
  const Result<std::string> again = render(joined(t), *scope);
  fuzz::check(static_cast<bool>(rendered) == static_cast<bool>(again), "the same template");
  if (rendered) fuzz::check(*rendered == *again, "a template joined of its parts says the same");
  const Result<std::string> alone = render("{x}", *scope);
  fuzz::check(alone && *alone == value, "a value is never read as a template");
}

void check_words(std::string_view command) {
  const Result<std::vector<std::string>> words = split_command(command);
  if (!words) return;
  std::string line;
  for (const std::string& word : *words) line += in_quotes(word) + " ";
  const Result<std::vector<std::string>> again = split_command(line);
  fuzz::check(again && *again == *words, "words quoted are the words");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::string_view t = input.line();
  const std::string_view value = input.line();
  check_render(t, value);
  check_words(input.rest());
  return 0;
}
