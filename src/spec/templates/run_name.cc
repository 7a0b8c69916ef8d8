// The name is cut by bytes: after sanitising there are no multi-byte characters left.  A secret's
// value is no part of it, nor of its hash: the name stands in paths, pages and messages.
#include "spec/templates/run_name.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "job/redact.h"

namespace pergpu {
namespace {

bool is_structure(const std::string& text) {
  return text.starts_with('{') || text.starts_with('[');
}

bool is_allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._=,+-").find(c) != std::string_view::npos;
}

/// `,` and `=` separate columns, so inside of a value they become `_` as well.
void append_value(std::string& to, std::string_view value) {
  bool was_replaced = false;
  for (char c : value) {
    bool keep = is_allowed(c) && c != ',' && c != '=';
    if (keep) to += c;
    if (!keep && !was_replaced) to += '_';  // one for a whole multi-byte character or run
    was_replaced = !keep;
  }
}

}  // namespace

std::string run_folder_name(const RunParameters& parameters, std::int64_t index, std::int64_t count,
                            const std::vector<std::string>& columns) {
  std::size_t width =
      std::max<std::size_t>(2, std::to_string(std::max<std::int64_t>(count - 1, 0)).size());
  std::string name = fmt::format("{:0{}}", index, width);
  std::string full;  // unsanitised: what the hash stands for
  char separator = '-';
  const auto shown = [&](const std::string& column) {
    return is_secret_name(column) ? nullptr : parameters.text(column);
  };
  const bool has_plain =
      std::any_of(columns.begin(), columns.end(), [&](const std::string& column) {
        const std::string* text = shown(column);
        return text != nullptr && !is_structure(*text);
      });
  for (const std::string& column : columns) {
    const std::string* text = shown(column);
    if (text == nullptr) continue;
    // A table or a list would be all braces: it distinguishes runs only where nothing else does.
    if (has_plain && is_structure(*text)) continue;
    name += separator;
    separator = ',';
    append_value(name, column);
    name += '=';
    append_value(name, *text);
    full += column;
    full += '=';
    full += *text;
    full += '\n';
  }
  if (name.size() <= kMaxRunNameBytes) return name;
  constexpr std::size_t kHashBytes = 9;  // "~" would need quoting in a shell: "+" and 8 digits
  name.resize(kMaxRunNameBytes - kHashBytes);
  std::uint32_t hash = static_cast<std::uint32_t>(XXH3_64bits(full.data(), full.size()));
  return name + fmt::format("+{:08x}", hash);
}

std::string run_folder_name(const RunSpec& run, std::int64_t index, std::int64_t count,
                            const std::vector<std::string>& columns) {
  Result<RunParameters> parameters = RunParameters::parse(run);
  return run_folder_name(parameters ? *parameters : RunParameters(), index, count, columns);
}

}  // namespace pergpu
