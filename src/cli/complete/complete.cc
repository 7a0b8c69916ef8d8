// Commands, options and choices are read off CLI11's own description of the command line, so that
// there is no second list of them.  What the other values are is in kValues.
#include "cli/complete/complete.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/client/client.h"
#include "cli/client/connection.h"
#include "cli/command/command.h"
#include "cli/command/usage.h"
#include "cli/share/segments.h"
#include "cli/term/exit_code.h"
#include "os/process/paths.h"
#include "spec/schema/settings.h"
#include "view/commands/segments.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// The user is waiting at the keyboard.
constexpr std::chrono::milliseconds kCompletionPatience{200};

enum class Value { Selector, SweepFile, File, Folder, Gpus, SharedKey };

/// By the name of an option or a positional; others are for people to know.
constexpr std::array<std::pair<std::string_view, Value>, 8> kValues = {{
    {"SEL", Value::Selector},
    {"SWEEP", Value::SweepFile},
    {"FILE", Value::File},
    {"out", Value::Folder},
    {"cwd", Value::Folder},
    {"devices", Value::Gpus},
    {"release", Value::Gpus},
    {"KEY", Value::SharedKey},
}};

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// The lines that are printed.
class Lines {
 public:
  explicit Lines(std::string begin) : begin_(std::move(begin)) {}

  void add(const std::string& word, std::string_view meaning = {}) {
    if (!word.starts_with(begin_) || has_control(word)) return;
    text_ += word;
    if (!meaning.empty()) text_ += "\t" + view::safe_line(meaning);
    text_ += '\n';
  }
  void tell_shell(std::string_view what) { text_ = fmt::format("\t{}\n", what); }
  const std::string& text() const { return text_; }

 private:
  std::string begin_;  // of all words
  std::string text_;
};

/// Not find_place(): its message appears once only, and would be lost here.
std::optional<Place> quiet_place() {
  const Result<os::Home> home = os::find_home();
  if (!home) return std::nullopt;
  Result<std::string> run_dir = os::run_folder(*home);
  if (!run_dir) return std::nullopt;
  return Place{.home = home->path, .run_dir = *std::move(run_dir)};
}

/// The answer of a coordinator that runs; nullopt: none does, or none in time.
std::optional<json> ask_running(const json& request) {
  const std::optional<Place> place = quiet_place();
  if (!place) return std::nullopt;
  Result<Connection> connection = Connection::open(place->socket(), kCompletionPatience);
  if (!connection || !connection->send(to_line(request) + "\n")) return std::nullopt;
  const Result<std::string> line = connection->read_line(kCompletionPatience);
  if (!line) return std::nullopt;
  Result<json> reply = unwrap_reply(*line);
  if (!reply) return std::nullopt;
  return *std::move(reply);
}

bool takes_value(const CLI::Option& option) {
  return option.get_expected_max() > 0 && option.get_type_size_max() > 0;
}

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

/// "--out", "--out=runs", "-n", "-n5"; null: none is called so.
const CLI::Option* option_called(const CLI::App& command, std::string_view word) {
  const bool is_long = word.starts_with("--");
  const std::string name(is_long ? word.substr(2, word.find('=') - 2) : word.substr(1, 1));
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& names = is_long ? option->get_lnames() : option->get_snames();
    if (std::find(names.begin(), names.end(), name) != names.end()) return option;
  }
  return nullptr;
}

/// Null: none is called so.
const CLI::App* subcommand(const CLI::App& command, const std::string& name) {
  const auto found =
      command.get_subcommands([&](const CLI::App* one) { return one->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

/// Where the last word stands.
struct Here {
  const CLI::App* command = nullptr;                    // the innermost that was named
  const CLI::Option* option = nullptr;                  // whose value the word is
  std::size_t positionals = 0;                          // given before it
  std::optional<std::size_t> job_words = std::nullopt;  // behind `run --`: given before it
};

Here find(const CLI::App& program, const std::vector<std::string>& words) {
  Here here{.command = &program};
  bool is_of_job = false;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (is_of_job) {
      ++*here.job_words;
    } else if (here.option != nullptr) {
      here.option = nullptr;  // its value
    } else if (word == "--" && takes_command_line(words)) {
      is_of_job = true;
      here.job_words = 0;
    } else if (word.size() > 1 && word.front() == '-') {
      const CLI::Option* option = option_called(*here.command, word);
      const bool has_it = word.find('=') != word.npos || (word[1] != '-' && word.size() > 2);
      if (option != nullptr && takes_value(*option) && !has_it) here.option = option;
    } else if (const CLI::App* named = subcommand(*here.command, word)) {
      here.command = named;
    } else {
      ++here.positionals;
    }
  }
  return here;
}

/// {"auto", "always"} of CLI11's "TEXT:{auto,always}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  std::vector<std::string> out;
  if (open == type.npos || close == type.npos) return out;
  for (std::size_t at = open + 1; at <= close;) {
    const std::size_t end = std::min(type.find(',', at), close);
    out.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// What `set` takes beside names of jobs.
void add_settings(Lines& lines) {
  for (const std::string_view name : kSettings) lines.add(std::string(name) + "=");
}

void complete_selectors(Lines& lines, const std::string& begin) {
  const std::optional<json> reply = ask_running({{"op", "complete"}, {"sel", {begin}}});
  if (!reply) return;
  for (const json& one : reply->value("words", json::array())) {
    lines.add(one.value("word", std::string()), one.value("meaning", std::string()));
  }
}

/// Of what the coordinator holds: nothing else can be dropped.
void add_shared_keys(Lines& lines) {
  const std::optional<Place> place = quiet_place();
  if (!place) return;
  std::map<std::string, std::vector<view::Segment>> by_key;
  for (view::Segment& segment : held_segments(*place, kCompletionPatience)) {
    std::string word = segment.key.empty() ? segment.name : segment.key;
    by_key[std::move(word)].push_back(std::move(segment));
  }
  for (const auto& [key, segments] : by_key) lines.add(key, view::sum_of(segments));
}

/// The last of a list, as 2 in "0,2"; `head` stands before the list.
void add_gpus(Lines& lines, const std::string& head, const std::string& list) {
  const std::optional<json> reply = ask_running({{"op", "gpus"}});
  if (!reply) return;
  const std::size_t comma = list.rfind(',');
  const std::string before =
      head + (comma == std::string::npos ? std::string() : list.substr(0, comma + 1));
  const bool by_uuid = list.find_first_not_of("0123456789,") != std::string::npos;
  for (const json& gpu : reply->value("gpus", json::array())) {
    const auto index = std::to_string(gpu.value("index", std::int64_t{0}));
    const std::string meaning =
        fmt::format("{}, {}", gpu.value("name", std::string()), gpu.value("state", std::string()));
    lines.add(before + (by_uuid ? gpu.value("uuid", std::string()) : index), meaning);
  }
}

/// `head` stands before the value in the same word: "--devices=".
void add_values(Lines& lines, const CLI::Option& option, const std::string& head,
                const std::string& begin) {
  for (const std::string& choice : choices_of(option)) lines.add(head + choice);
  const auto found = std::find_if(kValues.begin(), kValues.end(), [&](const auto& known) {
    return known.first == option.get_single_name();
  });
  if (found == kValues.end()) return;
  switch (found->second) {
    case Value::Selector:
      return complete_selectors(lines, begin);
    case Value::SweepFile:
      return lines.tell_shell("files toml yaml yml json");
    case Value::File:
      return lines.tell_shell("files");
    case Value::Folder:
      return lines.tell_shell("folders");
    case Value::Gpus:
      return add_gpus(lines, head, begin);
    case Value::SharedKey:
      return add_shared_keys(lines);
  }
}

void add_options(Lines& lines, const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (is_hidden(*option) || option->get_positional()) continue;
    for (const std::string& name : option->get_lnames()) {
      lines.add("--" + name, option->get_description());
    }
    if (!option->get_lnames().empty()) continue;
    for (const std::string& name : option->get_snames()) {
      lines.add("-" + name, option->get_description());
    }
  }
  if (command.get_name() == "run" || command.get_name() == "submit") {
    lines.add("--", "a command instead of a sweep file");
  }
}

bool add_subcommands(Lines& lines, const CLI::App& command) {
  bool has_some = false;
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (one->get_group().empty()) continue;
    lines.add(one->get_name(), one->get_description());
    has_some = true;
  }
  return has_some;
}

const CLI::Option* positional(const CLI::App& command, std::size_t number) {
  std::vector<const CLI::Option*> all =
      command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (number < all.size()) return all[number];
  if (all.empty() || all.back()->get_expected_max() < 2) return nullptr;
  return all.back();
}

}  // namespace

int complete(const CLI::App& program, std::vector<std::string> words) {
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  if (words.empty()) words.emplace_back();
  const std::string last = words.back();
  const Here here = find(program, words);
  Lines lines(last);
  if (here.job_words) {
    lines.tell_shell(*here.job_words == 0 ? "commands" : "files");
  } else if (here.option != nullptr) {
    add_values(lines, *here.option, "", last);
  } else if (last.starts_with("--") && last.find('=') != last.npos) {
    const std::size_t value = last.find('=') + 1;
    const CLI::Option* option = option_called(*here.command, last);
    if (option != nullptr) add_values(lines, *option, last.substr(0, value), last.substr(value));
  } else if (last.starts_with('-')) {
    add_options(lines, *here.command);
  } else if (here.command == &program && here.positionals > 0) {
    // Behind a word that is no command nothing is known.
  } else if (!add_subcommands(lines, *here.command)) {
    const CLI::Option* next = positional(*here.command, here.positionals);
    if (here.command->get_name() == "set" && here.positionals > 0) add_settings(lines);
    if (next != nullptr) add_values(lines, *next, "", last);
  }
  print(lines.text());
  return kOk;
}

}  // namespace pergpu::cli
