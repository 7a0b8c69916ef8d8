// Texts are those of the programs that print them: PyTorch, Lightning, JAX, TensorFlow, the CUDA
// runtime (driver_types.h of CUDA 13 lists its errors) and libc.
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

// A traceback, and what is said after it.  What stands before may be a warning of hours ago.
constexpr int kLastWords = 60;

// Mistakes in a program or its call, which no second start can heal.
constexpr std::array<std::string_view, 13> kMistakes = {
    "AttributeError",     "FileNotFoundError", "ImportError",         "IndentationError",
    "IsADirectoryError",  "KeyError",          "ModuleNotFoundError", "NameError",
    "NotADirectoryError", "PermissionError",   "SyntaxError",         "TabError",
    "TypeError"};

bool has(std::string_view line, std::string_view text) {
  return line.find(text) != std::string_view::npos;
}

std::optional<OutcomeClass> known_class(std::string_view line) {
  for (const KnownText& known : kKnown) {
    if (!has(line, known.text)) continue;
    // Workers end for many reasons; the kernel's own killer leaves this one.
    const bool is_worker = known.text.starts_with("DataLoader");
    if (is_worker && !has(line, "signal: Killed")) continue;
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

/// Whether a number from 1 on stands right behind `text`.
bool has_positive(std::string_view line, std::string_view text) {
  const std::size_t at = line.find(text);
  if (at == std::string_view::npos || at + text.size() == line.size()) return false;
  const char digit = line[at + text.size()];
  return digit >= '1' && digit <= '9';
}

std::string_view last_line_of(std::string_view text) {
  const std::size_t before = text.rfind('\n');
  return before == std::string_view::npos ? text : text.substr(before + 1);
}

/// A list of JAX's devices has no such place: the traceback shows the line of the program, and from
/// Python 3.11 on marks below it.  (Which list another program means, its line does not say.)
bool indexes_devices(std::string_view line, std::string_view above) {
  if (!line.starts_with("IndexError: list index out of range")) return false;
  for (int looked = 0; looked < 2 && !above.empty(); ++looked) {
    above.remove_suffix(1);  // its '\n'
    const std::string_view source = last_line_of(above);
    if (has(source, "jax.devices(") || has(source, "jax.local_devices(")) return true;
    if (source.find_first_not_of(" ~^") != std::string_view::npos) return false;
    above.remove_suffix(source.size());
  }
  return false;
}

/// It names a GPU by a number that it does not have.  Who lacks number 0 sees no GPU at all, which
/// may be the machine's fault, so 0 is not among them; nor is PyTorch's `device < num_gpus INTERNAL
/// ASSERT FAILED`, which a GPU that broke gives, too.
bool names_no_gpu_of_its_own(std::string_view line, std::string_view above) {
  if (has(line, "invalid device ordinal") || has(line, "CUDA_ERROR_INVALID_DEVICE")) return true;
  // PyTorch: get_device_properties() and DataParallel; torch.load().
  if (line.ends_with("AssertionError: Invalid device id")) return true;
  if (has_positive(line, "deserialize object on CUDA device ")) {
    return has_positive(line, "torch.cuda.device_count() is ");
  }
  // Lightning, below "You requested gpu: [3]"; "[]" where none is seen.
  if (has(line, "But your machine only has: [0")) return true;
  // TensorFlow: eagerly (of old, and now), in a graph, and by set_visible_devices().
  if (has(line, " unknown device.") || has(line, "Could not satisfy device specification") ||
      has(line, "was explicitly assigned to")) {
    return has_positive(line, "GPU:");
  }
  if (has(line, "'visible_device_list' listed an invalid")) return has_positive(line, " id '");
  return indexes_devices(line, above);
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

/// A line's class, and what it comes to.
struct Said {
  OutcomeClass cls = OutcomeClass::Exit;
  std::string_view meaning = {};
};

/// The last line for which `said(line, text above it)` tells something.
template <typename SaidBy>
std::optional<FoundFailure> last_line(std::string_view text, SaidBy said_by) {
  while (!text.empty()) {
    if (text.back() == '\n') text.remove_suffix(1);
    const std::string_view line = last_line_of(text);
    text.remove_suffix(line.size());
    if (const std::optional<Said> said = said_by(line, text)) {
      return FoundFailure{.cls = said->cls, .line = quotable(line), .meaning = said->meaning};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<FoundFailure> find_failure(std::string_view log_tail,
                                         std::span<const FailureRule> own, bool is_quick) {
  const auto by_own = [&](std::string_view line, std::string_view) -> std::optional<Said> {
    for (const FailureRule& rule : own) {
      if (has(line, rule.match)) return Said{.cls = rule.cls};
    }
    return std::nullopt;
  };
  if (auto found = last_line(log_tail, by_own)) return found;
  const bool may_be_mistake = is_quick && (has(log_tail, "Traceback (most recent call last)") ||
                                           has(log_tail, "SyntaxError"));
  const auto by_table = [&](std::string_view line, std::string_view above) -> std::optional<Said> {
    if (const auto cls = known_class(line)) return Said{.cls = *cls};
    if (names_no_gpu_of_its_own(line, above)) {
      return Said{.cls = OutcomeClass::UserError, .meaning = kNotItsGpu};
    }
    if (may_be_mistake && names_a_mistake(line)) return Said{.cls = OutcomeClass::UserError};
    return std::nullopt;
  };
  return last_line(log_tail, by_table);
}

std::optional<std::string> find_cuda_error(std::string_view log_tail) {
  constexpr std::array<std::string_view, 8> kErrors = {
      "CUDA error",         "cudaError",     "CUDA_ERROR_",    "Cuda failure",
      "cuda runtime error", "CUDNN_STATUS_", "CUBLAS_STATUS_", "ncclUnhandledCudaError"};
  int lines = 0;
  const auto by_cuda = [&](std::string_view line, std::string_view) -> std::optional<Said> {
    const bool is_one = ++lines <= kLastWords &&
                        std::any_of(kErrors.begin(), kErrors.end(),
                                    [&](std::string_view text) { return has(line, text); });
    return is_one ? std::optional(Said{}) : std::nullopt;
  };
  const std::optional<FoundFailure> found = last_line(log_tail, by_cuda);
  return found ? std::optional(found->line) : std::nullopt;
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
