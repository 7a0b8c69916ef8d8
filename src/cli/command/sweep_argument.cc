// A guess is made only from what is there: files beside it, what can be executed.
#include "cli/command/sweep_argument.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "os/fs/file.h"
#include "os/process/program_trouble.h"
#include "os/process/spawn.h"
#include "run/run_program.h"
#include "spec/text/source_text.h"
#include "view/text/shell_words.h"

namespace pergpu::cli {
namespace {

constexpr std::array<std::string_view, 4> kEndings = {".toml", ".yaml", ".yml", ".json"};

bool ends_like_a_sweep(const std::string& name) {
  const std::string lower = lower_case(name);
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return lower.ends_with(ending); });
}

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : file.substr(0, slash);
}

std::string shown_folder(const std::string& folder) {
  std::error_code failed;
  const std::filesystem::path here = std::filesystem::absolute(folder, failed).lexically_normal();
  std::string text = failed ? folder : here.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

/// "; here are sweep.toml and te.toml"
std::string sweep_files_in(const std::string& folder) {
  constexpr std::size_t kNamed = 5;
  Result<std::vector<std::string>> names = os::list_dir(folder);
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) {
    return !ends_like_a_sweep(name) || name.starts_with('.');
  });
  std::sort(names->begin(), names->end());
  std::string text;
  for (std::size_t i = 0; i < std::min(names->size(), kNamed); ++i) {
    text += (i == 0 ? "; there is " : ", ") + (*names)[i];
  }
  if (names->size() > kNamed) text += fmt::format(" and {} more", names->size() - kNamed);
  return text;
}

bool can_be_executed(const std::string& word) {
  return !find_executable(word, os::own_environment()).empty();
}

/// How `word` would be run: "python train.py"; "": it is no program.
std::string as_command(const std::string& word) {
  const bool is_file = os::is_regular(word);
  if (word.find('/') != std::string::npos && can_be_executed(word)) return word;
  if (const std::string_view by = os::interpreter_by_name(word); is_file && !by.empty()) {
    return fmt::format("{} {}", by, word);
  }
  if (can_be_executed(word)) return word;
  if (is_file && ::access(word.c_str(), X_OK) == 0) return "./" + word;
  return {};
}

bool is_slurm_script(const std::string& file) {
  const Result<std::string> text = read_text_file(file, std::size_t{1} << 20);
  return text && text->find("\n#SBATCH") != std::string::npos;
}

}  // namespace

std::string no_sweep_file(const std::string& file) {
  if (file == "-" || is_pipe(file)) return {};
  if (ends_like_a_sweep(file)) {
    if (os::exists(file)) return {};
    const std::string folder = folder_of(file);
    if (!os::is_directory(folder)) return fmt::format("{}: no folder {}", file, folder);
    return fmt::format("{}: no such file in {}{}", file, shown_folder(folder),
                       sweep_files_in(folder));
  }
  const std::string text =
      file + ": the name of a sweep file must end in .toml, .yaml, .yml or .json";
  for (const std::string_view ending : kEndings) {
    const std::string with_ending = file + std::string(ending);
    if (os::is_regular(with_ending)) return text + fmt::format("; did you mean {}?", with_ending);
  }
  if (os::is_directory(file)) return text + sweep_files_in(file);
  if (os::is_regular(file) && is_slurm_script(file)) {
    return text + "; docs/coming-from.md shows how to turn a Slurm script into one";
  }
  const std::string command = as_command(file);
  if (!command.empty()) {
    return text + fmt::format("; to run a program: pergpu run -- {} …", command);
  }
  return text + (os::exists(file) ? "" : sweep_files_in("."));
}

std::string missing_dashes(const std::vector<std::string>& words, std::size_t first) {
  constexpr std::size_t kShown = 3;  // words of the command
  if (std::any_of(words.begin(), words.end(), ends_like_a_sweep)) return {};
  std::string command = as_command(words[first]);
  if (command.empty()) return {};
  std::string before;
  for (std::size_t i = 1; i < first; ++i) before += words[i] + " ";
  const std::size_t end = std::min(words.size(), first + kShown);
  for (std::size_t i = first + 1; i < end; ++i) command += " " + view::shell_word(words[i]);
  if (end < words.size()) command += " …";
  return fmt::format("to run a program, put `--` before it: pergpu {} {}-- {}", words[0], before,
                     command);
}

}  // namespace pergpu::cli
