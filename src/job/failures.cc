// Texts are those of the programs that print them: PyTorch, JAX, TensorFlow, the CUDA runtime
// (driver_types.h of CUDA 13 lists its errors) and libc.
#include "job/failures.h"

#include <algorithm>
#include <array>

namespace pergpu {
namespace {

struct KnownText {
  std::string_view text;
  OutcomeClass cls;
};

constexpr std::array<KnownText, 25> kKnown = {{
    {"CUDA out of memory", OutcomeClass::OomGpu},
    {"OutOfMemoryError: CUDA", OutcomeClass::OomGpu},
    {"CUDA_ERROR_OUT_OF_MEMORY", OutcomeClass::OomGpu},
    {"cudaErrorMemoryAllocation", OutcomeClass::OomGpu},
    {"CUBLAS_STATUS_ALLOC_FAILED", OutcomeClass::OomGpu},
    {"RESOURCE_EXHAUSTED: Out of memory", OutcomeClass::OomGpu},
    {"HIP out of memory", OutcomeClass::OomGpu},
    {"can't allocate memory: you tried to allocate", OutcomeClass::OomHost},  // PyTorch, on the CPU
    {"DataLoader worker (pid", OutcomeClass::OomHost},  // "… is killed by signal: Killed."
    {"std::bad_alloc", OutcomeClass::OomHost},
    {"numpy.core._exceptions._ArrayMemoryError", OutcomeClass::OomHost},
    {"uncorrectable ECC error", OutcomeClass::Hardware},
    {"cudaErrorECCUncorrectable", OutcomeClass::Hardware},
    {"uncorrectable NVLink error", OutcomeClass::Hardware},
    {"GPU is lost", OutcomeClass::Hardware},
    {"has fallen off the bus", OutcomeClass::Hardware},
    {"cudaErrorDevicesUnavailable", OutcomeClass::Hardware},
    {"CUDA driver version is insufficient", OutcomeClass::Driver},
    {"Driver/library version mismatch", OutcomeClass::Driver},
    {"unsupported display driver / cuda driver combination", OutcomeClass::Driver},
    {"cudaErrorSystemNotReady", OutcomeClass::Driver},
    {"No space left on device", OutcomeClass::DiskFull},
    {"Disk quota exceeded", OutcomeClass::DiskFull},
    {"Read-only file system", OutcomeClass::DiskFull},
    {"Stale file handle", OutcomeClass::DiskFull},
}};

// Mistakes in a program or its call, which no second start can heal.
constexpr std::array<std::string_view, 13> kMistakes = {
    "AttributeError",     "FileNotFoundError", "ImportError",         "IndentationError",
    "IsADirectoryError",  "KeyError",          "ModuleNotFoundError", "NameError",
    "NotADirectoryError", "PermissionError",   "SyntaxError",         "TabError",
    "TypeError"};

std::optional<OutcomeClass> known_class(std::string_view line) {
  for (const KnownText& known : kKnown) {
    if (line.find(known.text) == std::string_view::npos) continue;
    // Workers end for many reasons; the kernel's own killer leaves this one.
    const bool is_worker = known.text.starts_with("DataLoader");
    if (is_worker && line.find("signal: Killed") == std::string_view::npos) continue;
    return known.cls;
  }
  return std::nullopt;
}

bool names_a_mistake(std::string_view line) {
  return std::any_of(kMistakes.begin(), kMistakes.end(), [&](std::string_view mistake) {
    return line.starts_with(mistake) &&
           (line.size() == mistake.size() || line[mistake.size()] == ':');
  });
}

std::string quotable(std::string_view line) {
  constexpr std::size_t kLongest = 200;
  std::string out(line);
  std::erase_if(out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (out.size() <= kLongest) return out;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xc0) == 0x80)
    --end;  // whole characters
  return out.substr(0, end) + "…";
}

/// The last line for which `class_of` says something.
template <typename ClassOf>
std::optional<FoundFailure> last_line(std::string_view text, ClassOf class_of) {
  while (!text.empty()) {
    if (text.back() == '\n') text.remove_suffix(1);
    const std::size_t before = text.rfind('\n');
    const std::string_view line = before == std::string_view::npos ? text : text.substr(before + 1);
    if (const std::optional<OutcomeClass> cls = class_of(line)) {
      return FoundFailure{*cls, quotable(line)};
    }
    text.remove_suffix(line.size());
  }
  return std::nullopt;
}

}  // namespace

std::optional<FoundFailure> find_failure(std::string_view log_tail,
                                         std::span<const FailureRule> own, bool is_quick) {
  const auto by_own = [&](std::string_view line) -> std::optional<OutcomeClass> {
    for (const FailureRule& rule : own) {
      if (line.find(rule.match) != std::string_view::npos) return rule.cls;
    }
    return std::nullopt;
  };
  if (auto found = last_line(log_tail, by_own)) return found;
  const bool may_be_mistake =
      is_quick && (log_tail.find("Traceback (most recent call last)") != std::string_view::npos ||
                   log_tail.find("SyntaxError") != std::string_view::npos);
  return last_line(log_tail, [&](std::string_view line) -> std::optional<OutcomeClass> {
    if (const auto cls = known_class(line)) return cls;
    if (may_be_mistake && names_a_mistake(line)) return OutcomeClass::UserError;
    return std::nullopt;
  });
}

std::string signature_of(const Outcome& outcome) {
  std::string out(to_string(outcome.cls));
  out += ' ';
  for (const char c : outcome.reason) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && out.back() == '#') continue;
    out += is_digit ? '#' : c;
  }
  return out;
}

}  // namespace pergpu
