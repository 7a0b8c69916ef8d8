// Selectors (docs/commands.md) are what makes "17", "17.2", "@" and "a*" impossible as names.
#include "spec/sweep/sweep_name.h"

#include <algorithm>

namespace pergpu {
namespace {

constexpr std::size_t kMaxNameBytes = 100;

/// `$NAME`, `${NAME}` or `$(…)` is in it.
bool begins_variable(std::string_view name) {
  for (std::size_t at = name.find('$'); at != std::string_view::npos; at = name.find('$', at + 1)) {
    const char next = at + 1 < name.size() ? name[at + 1] : ' ';
    const bool is_letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    if (is_letter || next == '_' || next == '{' || next == '(') return true;
  }
  return false;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

std::string why_no_sweep_name(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > kMaxNameBytes) return "it is longer than 100 bytes";
  if (std::any_of(name.begin(), name.end(), is_control)) return "it contains control characters";
  if (name.find('/') != std::string_view::npos)
    return "it becomes a folder name, so it can't contain /";
  if (name.find('*') != std::string_view::npos) return "* is a wildcard on the command line";
  if (name[0] == '.') return "it begins with a dot";
  if (name[0] == '~' || begins_variable(name))
    return "variables and ~ aren't expanded in `name`; write the full name";
  if (name[0] == '-') return "it would look like an option";
  if (name[0] == '@') return "@ means the last sweep on the command line";
  if (name.find_first_not_of("0123456789.") == std::string_view::npos)
    return "a number means a job on the command line";
  if (name.front() == ' ' || name.back() == ' ') return "it begins or ends with a space";
  return {};
}

std::string to_sweep_name(std::string_view text) {
  std::string name;
  for (char c : text.substr(0, kMaxNameBytes / 2)) {
    bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '.' || c == '_' || c == '-';
    if (keep) name += c;
    if (!keep && (name.empty() || name.back() != '_')) name += '_';
  }
  if (!why_no_sweep_name(name).empty()) name = "run_" + name;
  return name;
}

}  // namespace pergpu
