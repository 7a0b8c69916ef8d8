// A refusal is for what no job can succeed with; what may change before a job starts is a warning.
#include "cli/submit/submit_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "os/fs/file.h"
#include "os/process/program_trouble.h"
#include "os/process/spawn.h"
#include "run/run_program.h"
#include "spec/templates/placeholders.h"
#include "state/submit.h"

namespace pergpu::cli {
namespace {

/// Whether trying again won't help.  (A disk that is full now may have room later.)
bool is_lasting(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENOENT || error == ENOTDIR;
}

/// errno of making something in this folder; 0: it can be done.
int error_of_writing(const std::string& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) < 0) return errno;
  std::string probe = folder + "/.pergpu-XXXXXX";  // access() doesn't know /proc, for root
  if (::mkdtemp(probe.data()) == nullptr) return errno;
  ::rmdir(probe.c_str());
  return 0;
}

std::string last_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

bool is_interpreter(const std::string& program) {
  const std::string name = last_name(program);
  constexpr std::array<std::string_view, 8> kKnown = {"sh",    "bash", "zsh",  "Rscript",
                                                      "julia", "perl", "ruby", "node"};
  return name.starts_with("python") ||
         std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end();
}

/// The script that an interpreter is to read; nullopt: it reads none, or that can't be determined.
std::optional<std::string> script_of(const std::vector<std::string>& command) {
  constexpr std::string_view kWithoutValue = "uOBsSEIqvxe";  // `python -u`, `bash -e`
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (!word.starts_with('-')) return word;
    const bool is_known =
        word.size() > 1 && word.find_first_not_of(kWithoutValue, 1) == std::string::npos;
    if (!is_known) return std::nullopt;
  }
  return std::nullopt;
}

/// The step's environment as far as it decides which program is found.
std::optional<std::vector<std::string>> environment_of(const StepSpec& step,
                                                       const std::vector<std::string>& env) {
  std::vector<std::string> own = env;
  for (const auto& [name, value] : step.env) {
    if (name != "PATH") continue;
    if (has_placeholders(value)) return std::nullopt;
    os::set_variable(own, "PATH", value);
    return own;
  }
  if (step.env_pass) return std::nullopt;
  return own;
}

std::string script_warning(const std::vector<std::string>& command, const std::string& cwd) {
  const std::optional<std::string> script = script_of(command);
  if (!script || has_placeholders(*script)) return {};
  const std::string path = script->starts_with('/') ? *script : cwd + "/" + *script;
  if (os::exists(path)) return {};
  return fmt::format("no file {}{}", *script, script->starts_with('/') ? "" : " in " + cwd);
}

std::string program_warning(const SweepSpec& sweep, const StepSpec& step,
                            const std::vector<std::string>& env) {
  if (step.command.empty() || !step.needs.empty() || has_placeholders(step.cwd)) return {};
  if (has_placeholders(step.command[0])) return {};
  const std::string folder = step.copy.empty() ? sweep.folder : step.copy;
  const std::string cwd = step.cwd.empty()            ? folder
                          : step.cwd.starts_with('/') ? step.cwd
                                                      : folder + "/" + step.cwd;
  if (!os::exists(cwd)) return fmt::format("no folder {} (`cwd`)", cwd);
  const std::string& program = step.command[0];
  const bool has_path = program.find('/') != std::string::npos;
  const std::optional<std::vector<std::string>> own = environment_of(step, env);
  if (!has_path && !own) return {};
  std::string trouble = os::program_trouble(program, cwd, own.value_or(env));
  if (!trouble.empty()) return trouble;
  if (is_interpreter(program)) return script_warning(step.command, cwd);
  const std::string path = program.starts_with('/') ? program : cwd + "/" + program;
  const std::string_view by = os::interpreter_by_name(program);
  if (!has_path || by.empty() || by == "bash" || os::says_what_runs_it(path)) return {};
  return fmt::format(
      "{} doesn't begin with a line like `#!/usr/bin/env {}`, so /bin/sh would read it; write "
      "`{} {}`",
      program, by, by, program.starts_with("./") ? program.substr(2) : program);
}

}  // namespace

Result<void> check_results_folder(const SweepSpec& sweep) {
  const std::string root = output_root(sweep);
  std::string nearest = root + "/" + sweep.name;
  while (!os::exists(nearest) && nearest != os::parent_of(nearest)) {
    nearest = os::parent_of(nearest);
  }
  std::string why;
  if (!os::is_directory(nearest)) {
    why = nearest + " is not a folder";
  } else if (const int error = error_of_writing(nearest); is_lasting(error)) {
    why = fmt::format("{}: {}", nearest, std::strerror(error));
  }
  if (why.empty()) return {};
  return Error{
      ErrorKind::Invalid, 0,
      fmt::format("can't write results to {} ({}); choose a folder with --out", root, why)};
}

std::vector<std::string> program_warnings(const SweepSpec& sweep,
                                          const std::vector<std::string>& env) {
  std::vector<std::string> warnings;
  for (const StepSpec& step : sweep.steps) {
    const std::string warning = program_warning(sweep, step, env);
    if (warning.empty()) continue;
    warnings.push_back(sweep.steps.size() == 1 ? warning
                                               : fmt::format("step {}: {}", step.name, warning));
  }
  return warnings;
}

std::string slurm_warning(const std::vector<std::string>& env) {
  if (!find_executable("sbatch", env).empty()) return {};
  return "there is no sbatch in this shell's PATH; jobs wait until pergpu finds it: install Slurm, "
         "or load its module";
}

}  // namespace pergpu::cli
