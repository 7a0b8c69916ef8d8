// CLI11's own sentences are kept; the nearest option and the way to the help are added.
#include "cli/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "spec/suggest.h"

namespace pergpu::cli {
namespace {

/// What people type out of habit, and what it is called here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kHabits = {{
    {"status", "coordinator status"},
    {"stop", "coordinator stop"},
    {"start", "run"},
    {"list", "ps"},
    {"ls", "ps"},
    {"queue", "ps"},
    {"kill", "cancel"},
    {"explain", "why"},
    {"tail", "logs"},
    {"htop", "top"},
}};

const CLI::App& innermost(const CLI::App& program) {
  const CLI::App* command = &program;
  for (;;) {
    const auto chosen = command->get_subcommands();
    if (chosen.empty()) return *command;
    command = chosen.front();
  }
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent ? full_name(*parent) + " " + command.get_name() : command.get_name();
}

/// "; did you mean `--detach`?" for the first word that nobody took.
std::string meant_option(const CLI::App& program, const CLI::App& command) {
  const std::vector<std::string> left = program.remaining(true);
  const auto unknown = std::find_if(left.begin(), left.end(),
                                    [](const std::string& word) { return word.starts_with("-"); });
  if (unknown == left.end()) return "";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  if (std::find(names.begin(), names.end(), *unknown) != names.end()) {
    return fmt::format("; write it after `{}`", command.get_name());
  }
  return did_you_mean(*unknown, {names.begin(), names.end()});
}

/// "`coordinator statsu` is no command; did you mean `status`?"; "" when that is not what is wrong.
std::string mistyped_subcommand(const CLI::App& program, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* known : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!known->get_group().empty()) names.push_back(known->get_name());
  }
  const std::vector<std::string> left = program.remaining(true);
  if (names.empty() || left.empty() || left.front().starts_with("-")) return "";
  return fmt::format("`{} {}` is no command{}", command.get_name(), left.front(),
                     did_you_mean(left.front(), {names.begin(), names.end()}));
}

}  // namespace

std::string mistyped_command(const std::vector<std::string>& words) {
  if (words.empty() || words.front().starts_with("-")) return "";
  const std::string& word = words.front();
  const std::vector<std::string>& known = command_names();
  if (std::find(known.begin(), known.end(), word) != known.end()) return "";
  std::vector<std::string_view> candidates(known.begin(), known.end() - kHiddenCommands);
  for (const auto& [habit, ours] : kHabits) candidates.push_back(habit);
  std::string_view meant = nearest(word, candidates);
  for (const auto& [habit, ours] : kHabits) {
    if (meant == habit) meant = ours;
  }
  return fmt::format("`{}` is no command{}; `pergpu --help` lists them", word,
                     meant.empty() ? "" : fmt::format("; did you mean `{}`?", meant));
}

bool takes_command_line(const std::vector<std::string>& words) {
  return !words.empty() && (words.front() == "run" || words.front() == "submit");
}

int explain_usage(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App& command = innermost(program);
  if (dynamic_cast<const CLI::CallForVersion*>(&error)) {
    print(std::string(error.what()) + "\n");
    return kOk;
  }
  if (error.get_exit_code() == 0) {
    print(program.help());
    return kOk;
  }
  std::string words = mistyped_subcommand(program, command);
  if (words.empty()) words = error.what() + meant_option(program, command);
  say(fmt::format("pergpu: {}\n`{} --help` has an example", words, full_name(command)));
  return kUsage;
}

}  // namespace pergpu::cli
