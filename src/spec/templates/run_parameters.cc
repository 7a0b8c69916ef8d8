// The JSON is canonical when it comes from this program, but it may also come from a store or a
// socket: it is checked while it is split.
#include "spec/templates/run_parameters.h"

#include <algorithm>

#include "spec/text/json_members.h"

namespace pergpu {

Result<RunParameters> RunParameters::parse(const RunSpec& run) {
  RunParameters out;
  auto add = [&](std::string&& name, std::string_view value) {
    out.texts_.emplace_back(std::move(name),
                            value[0] == '"' ? decode_json_string(value) : std::string(value));
  };
  Result<void> read = visit_members(run.json, add);
  if (!read) return Error{ErrorKind::Corrupt, 0, "parameters of a run: " + read.error().message};
  if (run.texts.empty()) return out;
  auto replace = [&](std::string&& name, std::string_view value) {
    for (auto& [key, text] : out.texts_)
      if (key == name && value[0] == '"') text = decode_json_string(value);
  };
  read = visit_members(run.texts, replace);
  if (!read) return Error{ErrorKind::Corrupt, 0, "strings of a run: " + read.error().message};
  return out;
}

const std::string* RunParameters::text(std::string_view name) const {
  auto found = std::find_if(texts_.begin(), texts_.end(),
                            [&](const auto& entry) { return entry.first == name; });
  return found == texts_.end() ? nullptr : &found->second;
}

std::string param_env_name(std::string_view parameter) {
  std::string out = "PERGPU_PARAM_";
  for (char c : parameter) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::vector<std::pair<std::string, std::string>> param_env(const RunParameters& parameters) {
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(parameters.all().size());
  for (const auto& [name, text] : parameters.all()) out.emplace_back(param_env_name(name), text);
  return out;
}

}  // namespace pergpu
