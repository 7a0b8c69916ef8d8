// What is asked of the end of a log besides its verdict.
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

}  // namespace pergpu
