// Folders whose names begin with `_` or `.` are a copy of code, once-steps, results put aside: of
// these only `_once` holds results.
#include "run/found_results.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "os/file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongest = 4u << 20;

/// Records of before told the home as part of a variable that the job got.
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
  const Result<std::string> text = os::read_file(folder + "/attempt.json", kLongest);
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
    return std::nullopt;  // somebody else's file of that name
  }
}

}  // namespace

std::vector<FoundResult> find_results(const std::string& folder, std::size_t most) {
  std::vector<FoundResult> found;
  const Result<std::vector<std::string>> runs = os::list_dir(folder);
  if (!runs) return found;
  for (const std::string& run : *runs) {
    if (run.starts_with('.') || (run.starts_with('_') && run != "_once")) continue;
    const Result<std::vector<std::string>> steps = os::list_dir(folder + "/" + run);
    if (!steps) continue;
    for (const std::string& step : *steps) {
      if (found.size() >= most) return found;
      if (std::optional<FoundResult> result = result_in(folder + "/" + run + "/" + step)) {
        found.push_back(*std::move(result));
      }
    }
  }
  return found;
}

}  // namespace pergpu
