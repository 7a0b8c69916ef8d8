// execve(2): a quarter of the stack's limit, at least 128 KiB and at most 6 MiB.
#include "cli/submit/exec_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "spec/templates/start_size.h"

namespace pergpu::cli {
namespace {

constexpr std::size_t kOwnVariables = 16'384;  // of pergpu: paths, threads, devices

std::size_t kernel_limit(const rlimit& stack) {
  constexpr std::size_t kLeast = std::size_t{128} << 10;
  constexpr std::size_t kMost = std::size_t{6} << 20;
  if (stack.rlim_cur == RLIM_INFINITY) return kMost;
  return std::clamp(static_cast<std::size_t>(stack.rlim_cur / 4), kLeast, kMost);
}

std::size_t inherited_bytes() {
  std::size_t bytes = 0;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    bytes += std::strlen(*entry) + 1 + sizeof(char*);
  return bytes;
}

}  // namespace

Result<void> check_exec_limits(const SweepSpec& sweep) {
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0) return {};
  const std::size_t limit = kernel_limit(stack);
  const std::size_t inherited = inherited_bytes();
  std::optional<Error> refused;
  for (const StepSpec& step : sweep.steps) {
    // A list of variables is short.
    const std::size_t others = kOwnVariables + (step.env_pass ? 0 : inherited);
    visit_start_sizes(step, sweep.runs, [&](const StartOfRun& start) {
      const std::size_t bytes = start.size.total + others;
      if (bytes <= limit) return true;
      const std::string longest =
          start.size.parameter.empty()
              ? ""
              : fmt::format(", its longest parameter is `{}`", start.size.parameter);
      refused =
          Error{ErrorKind::Invalid, 0,
                fmt::format(
                    "step {}: arguments and environment{} have {} bytes{}, but the kernel accepts "
                    "only {} (a quarter of the stack limit, ulimit -s); let the program read {}",
                    step.name, start.run < 0 ? "" : fmt::format(" of run {}", start.run), bytes,
                    longest, limit, start.run < 0 ? "a file" : "{config}")};
      return false;
    });
    if (refused) return *std::move(refused);
  }
  return {};
}

}  // namespace pergpu::cli
