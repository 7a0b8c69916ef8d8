// Folders whose names begin with `_` or `.` are a copy of code, once-steps, results put aside: of
// these only `_once` holds results.
#include "run/found_results.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

#include "os/fs/file.h"
#include "os/fs/written_file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongest = 4u << 20;

/// Earlier records have the home as part of a variable that the job got.
std::string home_in(const nlohmann::json& record) {
  if (const auto it = record.find("home"); it != record.end() && it->is_string()) return *it;
  const auto environment = record.find("environment");
  if (environment == record.end() || !environment->is_object()) return {};
  const auto set = environment->find("set");
  if (set == environment->end() || !set->is_object()) return {};
  const auto marker = set->find("PERGPU_ATTEMPT_ID");
  if (marker == set->end() || !marker->is_string()) return {};
  return os::parent_of(marker->get<std::string>());
}

std::optional<FoundResult> result_in(const std::string& folder) {
  const Result<std::string> text =
      os::read_written(folder + "/attempt.json", os::Writer::Keeper, kLongest);
  if (!text) return std::nullopt;
  const nlohmann::json record = nlohmann::json::parse(*text, nullptr, false);
  if (!record.is_object()) return std::nullopt;
  try {
    return FoundResult{.folder = folder,
                       .id = {{record.value("job", std::int64_t{0})}, record.value("attempt", 0)},
                       .home = home_in(record),
                       .sweep = record.value("sweep", std::string()),
                       .state = record.value("state", std::string())};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // another program's file of that name
  }
}

}  // namespace

void ResultSearch::begin() {
  has_begun_ = true;
  Result<std::vector<std::string>> runs = os::list_dir(folder_);
  if (runs) {
    runs_ = *std::move(runs);
    std::ranges::reverse(runs_);
  } else if (const int error = runs.error().os_errno; error != ENOENT && error != ENOTDIR) {
    trouble_ = runs.error().message;
  }
}

std::vector<FoundResult> ResultSearch::next(std::size_t most) {
  if (!has_begun_) begin();
  std::vector<FoundResult> found;
  for (std::size_t looked = 0; looked < most; ++looked) {
    if (!steps_.empty()) {
      if (std::optional<FoundResult> result = result_in(run_ + "/" + steps_.back())) {
        found.push_back(*std::move(result));
      }
      steps_.pop_back();
      continue;
    }
    if (runs_.empty()) break;
    const std::string run = std::move(runs_.back());
    runs_.pop_back();
    if (run.starts_with('.') || (run.starts_with('_') && run != "_once")) continue;
    run_ = folder_ + "/" + run;
    if (Result<std::vector<std::string>> steps = os::list_dir(run_)) steps_ = *std::move(steps);
    std::ranges::reverse(steps_);
  }
  is_over_ = runs_.empty() && steps_.empty();
  return found;
}

}  // namespace pergpu
