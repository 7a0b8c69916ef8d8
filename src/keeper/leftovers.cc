// A record of a keeper has room for few and short names (keeper/record.cc).
#include "keeper/leftovers.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "os/process/proc.h"

namespace pergpu::keeper {
namespace {

constexpr std::size_t kMostNames = 4;
constexpr std::size_t kLongestName = 60;
constexpr std::size_t kMostProcessesRead = 64;  // processes whose words are read

std::string_view base_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_script(std::string_view word) {
  constexpr std::array<std::string_view, 8> kEndings = {".py", ".sh", ".R",  ".jl",
                                                        ".pl", ".rb", ".js", ".lua"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return word.ends_with(ending); });
}

}  // namespace

std::string program_name(const std::string& short_name, const std::vector<std::string>& words) {
  if (words.empty() || base_of(words.front()).empty()) return short_name;
  std::string name(base_of(words.front()));
  const auto script = std::find_if(words.begin() + 1, words.end(),
                                   [](const std::string& word) { return !word.starts_with("-"); });
  if (script != words.end() && is_script(*script)) name.append(" ").append(base_of(*script));
  if (name.size() > kLongestName) name.resize(kLongestName);
  return name;
}

std::vector<std::string> names_of(const std::vector<os::TreeMember>& left) {
  std::vector<std::string> names;
  const std::size_t read = std::min(left.size(), kMostProcessesRead);
  for (std::size_t i = 0; i < read && names.size() < kMostNames; ++i) {
    std::string name = program_name(left[i].name, os::arguments_of(left[i].pid));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace pergpu::keeper
