// What is asked of the end of a log besides its verdict; signatures of failures.
#include "job/failures.h"

#include <algorithm>
#include <array>
#include <vector>

#include "job/end_of_log.h"
#include "job/log_lines.h"

namespace pergpu {
namespace {

// A traceback, and what is said after it.  What stands before may be a warning of hours ago.
constexpr int kLastWords = 60;

}  // namespace

std::optional<std::string> find_cuda_error(std::string_view log_tail) {
  constexpr std::array<std::string_view, 8> kErrors = {
      "CUDA error",         "cudaError",     "CUDA_ERROR_",    "Cuda failure",
      "cuda runtime error", "CUDNN_STATUS_", "CUBLAS_STATUS_", "ncclUnhandledCudaError"};
  const std::vector<LogLine> lines = log_lines(log_tail);
  int looked = 0;
  for (auto line = lines.rbegin(); line != lines.rend() && looked++ < kLastWords; ++line) {
    const bool is_one = std::any_of(kErrors.begin(), kErrors.end(), [&](std::string_view text) {
      return line->text.find(text) != std::string::npos;
    });
    if (is_one) return quotable(line->text);
  }
  return std::nullopt;
}

std::string signature_of(const Outcome& outcome) {
  const auto is_hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  std::string out(to_string(outcome.cls));
  out += ' ';
  const std::string& reason = outcome.reason;
  for (std::size_t i = 0; i < reason.size(); ++i) {
    if (std::string_view(reason).substr(i).starts_with("0x")) {  // an address
      i += 2;
      while (i < reason.size() && is_hex(reason[i])) ++i;
      out += '#';
    }
    if (i == reason.size()) break;
    const bool is_digit = reason[i] >= '0' && reason[i] <= '9';
    if (is_digit && out.back() == '#') continue;
    out += is_digit ? '#' : reason[i];
  }
  return out;
}

}  // namespace pergpu
