// CLI11's own sentences are kept where they name the mistake; the way to the help is added.
#include "cli/command/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cli/command/command.h"
#include "cli/command/sweep_argument.h"
#include "cli/term/exit_code.h"
#include "os/fs/file.h"
#include "spec/templates/placeholders.h"
#include "spec/text/suggest.h"

namespace pergpu::cli {
namespace {

/// What people type out of habit, and what it is called here.
struct Habit {
  std::string_view word;
  std::string_view ours;
  std::string_view note = {};
};
constexpr std::array<Habit, 40> kHabits = {{
    {"status", "coordinator status", "`pergpu` alone counts the jobs"},
    {"stop", "cancel", "`coordinator stop` stops only the coordinator; jobs keep running"},
    {"start", "run"},
    {"exec", "run"},
    {"sbatch", "submit"},
    {"list", "ps"},
    {"ls", "ps"},
    {"jobs", "ps"},
    {"queue", "ps"},
    {"squeue", "ps"},
    {"history", "ps -a"},
    {"sweeps", "ps -a", "`pergpu` alone lists the sweeps"},
    {"kill", "cancel"},
    {"abort", "cancel"},
    {"scancel", "cancel"},
    {"explain", "why"},
    {"describe", "show"},
    {"inspect", "show"},
    {"info", "show"},
    {"tail", "logs"},
    {"htop", "top"},
    {"watch", "attach", "`top` watches all sweeps"},
    {"follow", "attach"},
    {"pause", "hold"},
    {"resume", "release"},
    {"continue", "release"},
    {"rerun", "retry", "`run --rerun` also runs done jobs again"},
    {"restart", "retry"},
    {"rm", "clean", "to end jobs: `cancel`"},
    {"remove", "clean", "to end jobs: `cancel`"},
    {"delete", "clean", "to end jobs: `cancel`"},
    {"best", "export", "it prints parameters and metrics; in Python: pergpu.best()"},
    {"results", "export", "`report` writes a page"},
    {"csv", "export"},
    {"html", "report"},
    {"web", "serve"},
    {"ui", "serve"},
    {"dashboard", "serve"},
    {"priority", "set"},
    {"estimate", "plan"},
}};

/// Options that people know from other programs, and what does that here.
struct OptionHabit {
  std::string_view command;
  std::string_view option;
  std::string_view ours;
};
constexpr std::array<OptionHabit, 6> kOptionHabits = {{
    {"ps", "--failed", "`pergpu ps -a` lists ended jobs too, with their states"},
    {"ps", "--state", "`pergpu ps -a` lists ended jobs too, with their states"},
    {"ps", "--status", "`pergpu ps -a` lists ended jobs too, with their states"},
    {"logs", "--tail", "did you mean `--lines`?"},
    {"export", "--format", "did you mean `--csv`, `--jsonl` or `--trace`?"},
    {"export", "--json", "did you mean `--jsonl`?"},
}};

const Habit* habit_of(std::string_view word) {
  const auto* found = std::find_if(kHabits.begin(), kHabits.end(),
                                   [&](const Habit& habit) { return habit.word == word; });
  return found == kHabits.end() ? nullptr : found;
}

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

/// "unknown option `--detahc`; did you mean `--detach`?" for the first one that the command doesn't
/// have; "": there is none.  What stands behind it was meant as its value, and is not named.
std::string unknown_option(const CLI::App& program, const CLI::App& command) {
  const std::vector<std::string> left = program.remaining(true);
  const auto found = std::find_if(left.begin(), left.end(),
                                  [](const std::string& word) { return word.starts_with("-"); });
  if (found == left.end()) return "";
  const std::string unknown = found->substr(0, found->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  if (std::find(names.begin(), names.end(), unknown) != names.end()) {
    return fmt::format("unexpected option `{}`; write it after `{}`", unknown, command.get_name());
  }
  for (const OptionHabit& habit : kOptionHabits) {
    if (habit.option == unknown && habit.command == command.get_name())
      return fmt::format("unknown option `{}`; {}", unknown, habit.ours);
  }
  return fmt::format("unknown option `{}`{}", unknown,
                     did_you_mean(unknown, {names.begin(), names.end()}));
}

/// "unknown command `coordinator statsu`; did you mean `status`?"; "" when that is not what is
/// wrong.
std::string mistyped_subcommand(const CLI::App& program, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* known : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!known->get_group().empty()) names.push_back(known->get_name());
  }
  const std::vector<std::string> left = program.remaining(true);
  if (names.empty() || left.empty() || left.front().starts_with("-")) return "";
  return fmt::format("unknown command `{} {}`{}", command.get_name(), left.front(),
                     did_you_mean(left.front(), {names.begin(), names.end()}));
}

/// "; to run a sweep file: pergpu run x.toml" for a file or a program in a command's place.
std::string meant_program_or_sweep(const std::string& word) {
  const std::string hint = missing_dashes({"run", word}, 1);
  if (!hint.empty()) return "; " + hint;
  return os::is_regular(word) ? fmt::format("; to run a sweep file: pergpu run {}", word) : "";
}

/// How people of other programs say how many jobs run at once.
std::string meant_lanes(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    for (const std::string_view habit : {"-j", "-P", "--jobs", "--parallel", "--max-procs", "-n"}) {
      if (!word.starts_with(habit)) continue;
      std::string count = word.substr(habit.size());
      if (count.starts_with('=')) count.erase(0, 1);
      if (count.empty() && word == habit && i + 1 < words.size()) count = words[i + 1];
      const bool is_number =
          !count.empty() && count.find_first_not_of("0123456789") == std::string::npos;
      if (is_number) {
        return fmt::format("{}: to run N jobs at once without GPUs, write --lanes {}",
                           word == habit ? word + " " + count : word, count);
      }
      if (word == habit)
        return fmt::format("{}: to run N jobs at once without GPUs, write --lanes N", word);
    }
  }
  return {};
}

/// `-p seed 3` and `seed=3`.
std::string meant_parameter(const std::vector<std::string>& words,
                            const std::vector<std::string>& left) {
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    const bool is_list = words[i] == "-g";
    if (!is_list && words[i] != "-p") continue;
    const std::string& name = words[i + 1];
    if (!is_identifier(name)) continue;
    const std::string value = i + 2 < words.size() ? words[i + 2] : is_list ? "V1,V2" : "VALUE";
    return fmt::format("{0} {1}: write {0} {1}={2}", words[i], name, value);
  }
  for (const std::string& word : left) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !is_identifier(std::string_view(word).substr(0, equals))) {
      continue;
    }
    return fmt::format("unexpected {0}: to replace a parameter of the file, write -p {0}", word);
  }
  return {};
}

/// Of `run` and `submit`: what was meant by words that they do not know.
std::string meant_run(const CLI::App& program, const CLI::App& command,
                      const std::vector<std::string>& words) {
  if (!takes_command_line(words)) return {};
  if (std::string lanes = meant_lanes(words); !lanes.empty()) return lanes;
  const std::vector<std::string> left = program.remaining(true);
  if (std::string parameter = meant_parameter(words, left); !parameter.empty()) return parameter;
  // Up to the first word that is neither an option nor the value of one.
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) return missing_dashes(words, i);
    const std::string name = words[i].substr(0, words[i].find('='));
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr) return {};
    if (option->get_items_expected_max() > 0 && name == words[i]) ++i;
  }
  return {};
}

/// `cancel`, `logs`: commands that need to know which jobs.
std::string meant_jobs(const CLI::App& program, const CLI::App& command,
                       const CLI::ParseError& error) {
  const std::vector<std::string> left = program.remaining(true);
  const bool wants_all = std::any_of(left.begin(), left.end(), [](const std::string& word) {
    return word == "--all" || word == "-a";
  });
  const CLI::Option* selector = command.get_option_no_throw("SEL");
  if (selector == nullptr) return {};
  if (wants_all && command.get_name() != "ps") {
    return fmt::format("{0} has no option {1}; for the jobs of all sweeps, write pergpu {0} '*'",
                       command.get_name(), left.front());
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) == nullptr || selector->count() > 0)
    return {};
  return fmt::format(
      "{0}: SEL is missing: name the jobs, such as `pergpu {0} 17` (a job), SWEEP, SWEEP/3 (a "
      "run), '*' (all) or @ (the last sweep)",
      command.get_name());
}

}  // namespace

std::string mistyped_command(const std::vector<std::string>& words) {
  if (words.empty() || words.front().starts_with("-")) return "";
  const std::string& word = words.front();
  const std::vector<std::string>& known = command_names();
  if (std::find(known.begin(), known.end(), word) != known.end()) return "";
  std::vector<std::string_view> candidates(known.begin(), known.end() - kHiddenCommands);
  for (const Habit& habit : kHabits) candidates.push_back(habit.word);
  std::string_view meant = nearest(word, candidates);
  std::string note;
  if (const Habit* habit = habit_of(meant); habit != nullptr) {
    meant = habit->ours;
    if (!habit->note.empty()) note = fmt::format(" ({})", habit->note);
  }
  if (!meant.empty()) {
    return fmt::format(
        "unknown command `{}`; did you mean `{}`?{}; `pergpu --help` lists the commands", word,
        meant, note);
  }
  return fmt::format("unknown command `{}`{}; `pergpu --help` lists the commands", word,
                     meant_program_or_sweep(word));
}

bool takes_command_line(const std::vector<std::string>& words) {
  return !words.empty() && (words.front() == "run" || words.front() == "submit");
}

int explain_usage(const CLI::App& program, const CLI::ParseError& error,
                  const std::vector<std::string>& words) {
  const CLI::App& command = innermost(program);
  if (dynamic_cast<const CLI::CallForVersion*>(&error)) {
    print(std::string(error.what()) + "\n");
    return kOk;
  }
  if (error.get_exit_code() == 0) {
    print(program.help());
    return kOk;
  }
  // A word too many or too few; other errors are about the value of a known option.
  const bool is_about_words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                              dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  std::string mistake = mistyped_subcommand(program, command);
  if (mistake.empty()) mistake = meant_jobs(program, command, error);
  if (mistake.empty()) mistake = meant_run(program, command, words);
  if (mistake.empty() && is_about_words) mistake = unknown_option(program, command);
  if (mistake.empty()) mistake = error.what();
  say(fmt::format("pergpu: {}\n`{} --help` has an example", mistake, full_name(command)));
  return kUsage;
}

}  // namespace pergpu::cli
