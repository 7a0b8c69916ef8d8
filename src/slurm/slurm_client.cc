// Whether sbatch failed before or after the controller took the job is seen by its words; where
// they do not show it, it may have been taken, and the queue has to be asked.
#include "slurm/slurm_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "os/process/spawn.h"
#include "run/run_program.h"
#include "slurm/slurm_environment.h"
#include "slurm/slurm_words.h"

namespace pergpu::slurm {
namespace {

constexpr std::int64_t kLimit = 60'000'000'000;
constexpr std::size_t kMostQueue = 256u << 20;
constexpr std::size_t kMostIds = 200;

/// Slurm's commands take options from these, too: what a call says must not be overruled by what a
/// shell has, nor go to another cluster.
bool is_option(std::string_view entry) {
  constexpr std::array<std::string_view, 6> kOptions = {
      "SBATCH_", "SQUEUE_", "SCANCEL_", "SACCT_", "SLURM_CLUSTERS=", "SLURM_BITSTR_LEN="};
  return std::any_of(kOptions.begin(), kOptions.end(),
                     [&](std::string_view option) { return entry.starts_with(option); });
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? ' ' : c;
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::vector<std::string> to_strings(const std::vector<ArrayTask>& tasks) {
  std::vector<std::string> out;
  out.reserve(tasks.size());
  for (const ArrayTask& task : tasks) out.push_back(to_string(task));
  return out;
}

bool has_any(std::string_view words, std::initializer_list<std::string_view> some) {
  return std::any_of(some.begin(), some.end(),
                     [&](std::string_view one) { return words.find(one) != words.npos; });
}

/// Too many jobs at once, or too fast: later it is taken.
bool is_limit(std::string_view words) {
  // Where the limit is named, the words for all of them say nothing.
  const bool names_another =
      has_any(words, {"error: QOS", "error: Assoc"}) && !has_any(words, {"SubmitJob", "MaxSubmit"});
  return !names_another &&
         has_any(words, {"SubmitJob", "MaxSubmit", "submit limit", "Rate limit", "rate limit",
                         "maximum job submit", "Resource temporarily unavailable"}) &&
         !has_any(words, {"Unable to contact"});
}

/// The request itself is wrong.  Whatever else there is may pass: a key, a name server, a
/// controller.
bool is_refusal(std::string_view words) {
  return has_any(words, {"Batch job submission failed", "unrecognized", "invalid option",
                         "Invalid numeric value", "option requires", "requires an argument",
                         "allow an argument", "is ambiguous", "Invalid argument", "Invalid --",
                         "specification (pos=", "Invalid job id"}) &&
         !has_any(words, {"Unable to contact", "temporarily", "Connection refused",
                          "authentication", "Slurm backup controller", "try again"});
}

/// … after it may have read the request.
bool may_be_taken(std::string_view words) {
  constexpr std::array<std::string_view, 5> kAfter = {
      "Socket timed out", "Zero Bytes were transmitted", "Connection reset", "receive failure",
      "shutdown failure"};
  return std::any_of(kAfter.begin(), kAfter.end(),
                     [&](std::string_view some) { return words.find(some) != words.npos; });
}

/// The controller has not answered.
bool is_unheard(std::string_view words) {
  return may_be_taken(words) ||
         has_any(words, {"Unable to contact", "did not answer", "there is no ",
                         "failed:", "Unexpected message", "authentication", "fatal:"});
}

}  // namespace

std::string to_string(const ArrayTask& task) {
  return fmt::format("{}_{}", task.array, task.index);
}

struct Client::Said {
  std::string output = {};
};

void Client::search_also(std::string path) {
  const auto known = std::find(more_paths_.begin(), more_paths_.end(), path);
  if (known == more_paths_.end()) more_paths_.push_back(std::move(path));
}

std::string Client::find(const std::string& program) const {
  std::string found = find_executable(program, os::own_environment());
  for (const std::string& path : more_paths_) {
    if (!found.empty()) break;
    found = find_executable(program, {"PATH=" + path});
  }
  return found;
}

/// Io: it took too long or was killed; Unavailable, Invalid: as submit() says.
Result<Client::Said> Client::call(std::vector<std::string> argv, const SubmitCall* submit) {
  const std::string name = argv.front();
  std::string program = find(name);
  if (program.empty() && submit != nullptr) program = find_executable(name, submit->environment);
  if (program.empty()) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("there is no {} in PATH: install Slurm, or load its module", name)};
  }
  argv.front() = program;
  ProgramCall call{.argv = std::move(argv),
                   .env = submit == nullptr ? os::own_environment() : submit->environment,
                   .cwd = submit == nullptr ? "/" : submit->cwd,
                   .input = submit == nullptr ? std::string() : submit->script,
                   .limit_ns = kLimit,
                   .most_said = kMostQueue};
  std::erase_if(call.env, [](const std::string& entry) { return is_option(entry); });
  // Else it prints some 60 bytes of a list of tasks, and an ellipsis.
  if (submit == nullptr) call.env.emplace_back("SLURM_BITSTR_LEN=0");
  if (submit != nullptr) call.umask = submit->umask;
  ++requests_[name];
  Result<ProgramEnd> end = run_program(call);
  if (!end) return Error{ErrorKind::Unavailable, 0, name + ": " + end.error().message};
  const std::string words = one_line(end->complaint);
  if (!end->status) {
    return Error{ErrorKind::Io, 0, fmt::format("{} did not answer within a minute", name)};
  }
  const auto* exited = std::get_if<os::Exited>(&*end->status);
  if (exited != nullptr && exited->code == 0) return Said{std::move(end->output)};
  if (exited == nullptr || may_be_taken(words)) {
    return Error{ErrorKind::Io, 0, fmt::format("{} failed: {}", name, words)};
  }
  if (std::string lacks = no_configuration(end->complaint); !lacks.empty()) {
    return Error{ErrorKind::Unavailable, 0, std::move(lacks)};
  }
  const ErrorKind kind = is_limit(words)     ? ErrorKind::Full
                         : is_refusal(words) ? ErrorKind::Invalid
                                             : ErrorKind::Unavailable;
  return Error{kind, 0, fmt::format("{} says: {}", name, words)};
}

Result<std::int64_t> Client::submit(const SubmitCall& submit) {
  SubmitCall cleaned = submit;
  cleaned.environment = step_environment(submit.environment);
  Result<Said> said = call({"sbatch", "--parsable"}, &cleaned);
  if (!said) return std::move(said).error();
  std::int64_t number = 0;
  const std::string& text = said->output;  // "12"; of another cluster "12;cluster"
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong != std::errc{} || number <= 0) {
    return Error{ErrorKind::Io, 0,
                 fmt::format("unexpected output of sbatch: `{}`", one_line(text))};
  }
  return number;
}

Result<std::vector<QueueRecord>> Client::queue() {
  Result<Said> said =
      call({"squeue", "--me", "--noheader", "--states=all", "--Format=" + queue_format()}, nullptr);
  if (!said) return std::move(said).error();
  return parse_queue(said->output);
}

Result<std::vector<QueueRecord>> Client::steps(const std::string& allocation) {
  Result<Said> said = call(
      {"squeue", "--steps", "--noheader", "--jobs=" + allocation, "--Format=" + steps_format()},
      nullptr);
  if (!said) return std::move(said).error();
  return parse_steps(said->output);
}

Result<std::vector<QueueRecord>> Client::accounting(const std::vector<std::int64_t>& arrays) {
  Result<Said> said = call({"sacct", "--noheader", "--parsable2", "--allocations",
                            fmt::format("--format={}", kAccountingFormat),
                            fmt::format("--jobs={}", fmt::join(arrays.begin(), arrays.end(), ","))},
                           nullptr);
  if (!said) return std::move(said).error();
  return parse_accounting(said->output);
}

Result<void> Client::cancel(const std::vector<std::string>& ids,
                            const std::vector<std::string>& argv) {
  for (std::size_t at = 0; at < ids.size(); at += kMostIds) {
    std::vector<std::string> words = argv;
    const std::size_t end = std::min(ids.size(), at + kMostIds);
    for (std::size_t i = at; i < end; ++i) words.push_back(ids[i]);
    Result<Said> said = call(std::move(words), nullptr);
    // It also complains of what has ended, or still waits.
    if (!said && is_unheard(said.error().message)) return std::move(said).error();
  }
  return {};
}

// Filtered by state, tasks of an array that have not been started are one job to scancel, which
// ends all of them for one (22.05).  What is held is a separate job.
Result<void> Client::cancel_pending(const std::vector<ArrayTask>& tasks) {
  Result<std::vector<std::string>> held = control("hold", tasks);
  if (!held) return std::move(held).error();
  if (held->empty()) return {};
  return cancel(*held, {"scancel", "--quiet", "--state=PENDING"});
}

Result<void> Client::release(const std::vector<ArrayTask>& tasks) {
  Result<std::vector<std::string>> released = control("release", tasks);
  if (!released) return std::move(released).error();
  return {};
}

Result<std::vector<std::string>> Client::control(const std::string& verb,
                                                 const std::vector<ArrayTask>& tasks) {
  const std::vector<std::string> ids = to_strings(tasks);
  std::vector<std::string> found;
  for (std::size_t at = 0; at < ids.size(); at += kMostIds) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), at + kMostIds));
    const Result<Said> all =
        call({"scontrol", verb, fmt::format("{}", fmt::join(begin, end, ","))}, nullptr);
    if (all) {
      found.insert(found.end(), begin, end);
      continue;
    }
    if (is_unheard(all.error().message)) return all.error();
    for (auto id = begin; id != end; ++id) {  // some have begun or ended
      const Result<Said> one = call({"scontrol", verb, *id}, nullptr);
      if (one) {
        found.push_back(*id);
      } else if (is_unheard(one.error().message)) {
        return one.error();
      }
    }
  }
  return found;
}

Result<void> Client::cancel_pending(std::int64_t array) {
  return cancel({std::to_string(array)}, {"scancel", "--quiet", "--state=PENDING"});
}

// Without the filter scancel tries for a minute and more to signal what waits.
Result<void> Client::signal(const std::vector<ArrayTask>& tasks, const std::string& signal) {
  return cancel(to_strings(tasks),
                {"scancel", "--quiet", "--batch", "--state=RUNNING", "--signal=" + signal});
}

Result<void> Client::requeue(const std::string& id) {
  Result<Said> said = call({"scontrol", "requeue", id}, nullptr);
  if (!said) return std::move(said).error();
  return {};
}

Result<Config> Client::config() {
  const Result<std::string> text = show({"config"});
  if (!text) return text.error();
  return parse_config(*text);
}

Result<std::string> Client::show(const std::vector<std::string>& what) {
  std::vector<std::string> argv = {"scontrol", "show"};
  argv.insert(argv.end(), what.begin(), what.end());
  Result<Said> said = call(std::move(argv), nullptr);
  if (!said) return std::move(said).error();
  return std::move(said->output);
}

}  // namespace pergpu::slurm
