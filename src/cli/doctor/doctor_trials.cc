// A trial never changes the user's home: what it needs is in a temporary folder.
#include "cli/doctor/doctor_trials.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "duration.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/process/spawn.h"
#include "run/run_program.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

constexpr std::int64_t kLongest = 30 * kSecond;

/// "": it ended with exit code 0.
std::string complaint_of(const Result<ProgramEnd>& end) {
  if (!end) return end.error().message;
  if (!end->status) return fmt::format("no end after {} s", kLongest / kSecond);
  const auto* exited = std::get_if<os::Exited>(&*end->status);
  if (exited != nullptr && exited->code == 0) return "";
  std::string line =
      view::safe_line(last_line(end->complaint.empty() ? end->output : end->complaint));
  if (!line.empty()) return line;
  return exited != nullptr ? fmt::format("exit code {}", exited->code)
                           : fmt::format("signal {}", std::get<os::Signaled>(*end->status).signal);
}

std::string temporary_folder() {
  const char* folder = ::getenv("TMPDIR");
  return folder != nullptr && *folder == '/' ? folder : "/tmp";
}

std::string make_folder() {
  std::string folder = temporary_folder() + "/pergpu-doctor-XXXXXX";
  return ::mkdtemp(folder.data()) != nullptr ? folder : std::string();
}

/// The one that is installed with pergpu, as in a virtual environment, else that of the shell.
std::string find_python(const std::string& program, const std::vector<std::string>& environment) {
  std::string beside = os::parent_of(program) + "/python3";
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  return find_executable("python3", environment);
}

/// Prints the version; the compiled part may be missing, or of another version.
constexpr char kImport[] =
    "import pergpu; print(pergpu.__version__, flush=True); import pergpu._share";

}  // namespace

JobTrial try_job(const std::string& program) {
  JobTrial trial;
  const std::string folder = make_folder();
  const int error = errno;
  if (folder.empty()) {
    trial.complaint = os_error("make a folder in " + temporary_folder(), error).message;
    return trial;
  }
  std::vector<std::string> environment = os::own_environment();
  os::set_variable(environment, "PERGPU_HOME", folder + "/home");
  const auto call = [&](std::vector<std::string> words) {
    words.insert(words.begin(), program);
    return run_program(
        {.argv = std::move(words), .env = environment, .cwd = folder, .limit_ns = kLongest});
  };
  const std::int64_t begin = os::boot_now_ns();
  trial.complaint = complaint_of(call({"run", "--lanes", "1", "--out", "runs", "--", "true"}));
  trial.seconds = static_cast<double>(os::boot_now_ns() - begin) / static_cast<double>(kSecond);
  (void)call({"coordinator", "stop", "--kill"});
  (void)os::remove_tree(folder);
  return trial;
}

PythonTrial try_python(const std::string& program) {
  std::vector<std::string> environment = os::own_environment();
  os::set_variable(environment, "PERGPU_BIN", program);
  PythonTrial trial{.python = find_python(program, environment)};
  if (trial.python.empty()) return trial;
  const Result<ProgramEnd> end = run_program({.argv = {trial.python, "-c", kImport},
                                              .env = environment,
                                              .cwd = "/",
                                              .limit_ns = kLongest});
  trial.complaint = complaint_of(end);
  if (end) trial.version = end->output.substr(0, end->output.find('\n'));
  return trial;
}

}  // namespace pergpu::cli
