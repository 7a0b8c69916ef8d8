// Mistakes are gathered, so that three of them are reported at once.
#include "spec/schema/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "number.h"
#include "spec/schema/step_keys.h"
#include "spec/text/suggest.h"

namespace pergpu {
namespace {

struct Setting {
  std::string_view name;
  std::optional<int> Settings::*value;
  bool may_be_none;  // stored as 0
};

constexpr Setting kKnownSettings[] = {
    {kSettings[0], &Settings::priority, false},
    {kSettings[1], &Settings::weight, true},
    {kSettings[2], &Settings::max_parallel, true},
    {kSettings[3], &Settings::lanes, false},
};

struct Limits {
  std::int64_t least = 1;
  std::int64_t most = 100'000;  // of --lanes, which is no key of a step
};
/// What the sweep file takes.
Limits limits_of(std::string_view key) {
  for (const KnownKey& known : step_keys(/*in_defaults=*/false)) {
    if (known.name == key) return {.least = known.type.min, .most = known.type.max};
  }
  return {};
}

bool is_name_letter(char c, bool is_first) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return is_letter || (!is_first && ((c >= '0' && c <= '9') || c == '-'));
}

/// Why this key isn't known.
std::string refusal(std::string_view key) {
  const std::vector<std::string_view> names(std::begin(kSettings), std::end(kSettings));
  const std::vector<KnownKey> of_step = step_keys(/*in_defaults=*/false);
  if (std::any_of(of_step.begin(), of_step.end(),
                  [&](const KnownKey& known) { return known.is_called(key); })) {
    return fmt::format(
        "`{}` can't be set, only {}: change the sweep file and submit it again; done and running "
        "jobs stay as they are",
        key, one_of(names));
  }
  return fmt::format("unknown setting `{}`; expected {}{}", key, one_of(names),
                     did_you_mean(key, names));
}

/// "" when it was read.
std::string read(std::string_view word, Settings& out) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string_view text = word.substr(equals + 1);
  const auto found = std::find_if(std::begin(kKnownSettings), std::end(kKnownSettings),
                                  [&](const Setting& known) { return known.name == key; });
  if (found == std::end(kKnownSettings)) return refusal(key);
  if (out.*(found->value)) return fmt::format("`{}` is given twice", key);
  const Limits range = limits_of(key);
  std::optional<int> value = whole_number<int>(text);
  if (value && (*value < range.least || *value > range.most)) value.reset();
  if (found->may_be_none && text == "none") value = 0;
  if (!value) {
    return fmt::format("{}={}: expected a whole number from {} to {}{}", key, text, range.least,
                       range.most, found->may_be_none ? ", or `none`" : "");
  }
  out.*(found->value) = value;
  return "";
}

}  // namespace

bool is_setting(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos || equals == 0 || word.find('/') != word.npos) return false;
  for (std::size_t i = 0; i < equals; ++i) {
    if (!is_name_letter(word[i], i == 0)) return false;
  }
  return true;
}

Result<Settings> settings_of(const std::vector<std::string>& words) {
  Settings out;
  std::string mistakes;
  for (const std::string& word : words) {
    const std::string mistake =
        is_setting(word) ? read(word, out) : fmt::format("`{}`: expected KEY=VALUE", word);
    if (!mistake.empty()) mistakes += (mistakes.empty() ? "" : "\n") + mistake;
  }
  if (words.empty())
    mistakes = "nothing to set; expected priority=N, weight=N, max_parallel=N or lanes=N";
  if (!mistakes.empty()) return Error{ErrorKind::Invalid, 0, std::move(mistakes)};
  return out;
}

}  // namespace pergpu
