// Names of signals are those of the C library, with or without SIG.
#include "spec/schema/limit_keys.h"

#include <fmt/core.h>
#include <signal.h>

#include <string_view>
#include <vector>

#include "job/growth.h"
#include "job/signal_names.h"
#include "spec/text/suggest.h"
#include "spec/text/units.h"

namespace pergpu {
namespace {

std::vector<std::string_view> signal_names() {
  std::vector<std::string_view> out;
  for (int number = 1; number < kMostSignals; ++number) {
    const std::string_view name = short_signal_name(number);
    if (!name.empty() && number != SIGKILL && number != SIGSTOP) out.emplace_back(name);
  }
  return out;
}

int number_of(std::string_view name) {
  for (int number = 1; number < kMostSignals; ++number) {
    if (name == short_signal_name(number)) return number;
  }
  return 0;
}

std::optional<int> read_signal_number(const Field& field, std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  const int number = number_of(name);
  if (number == SIGKILL || number == SIGSTOP) {
    field.report.error(
        field.node.at,
        fmt::format("`{}`: a program can't handle {}; use a signal such as USR1, INT or TERM",
                    field.key, name));
    return std::nullopt;
  }
  if (number == 0) {
    field.report.error(field.node.at, fmt::format("`{}`: unknown signal `{}`{}", field.key, name,
                                                  did_you_mean(name, signal_names())));
    return std::nullopt;
  }
  return number;
}

template <double Growth::*Member>
void read_factor(const MemberInput<Growth>& in) {
  const Field& field = in.field;
  if (!field.node.is(Node::Kind::Int) && !field.node.is(Node::Kind::Float)) {
    wrong_type(field, "a factor like 1.5");
    return;
  }
  const double factor =
      field.node.is(Node::Kind::Int) ? static_cast<double>(field.node.integer) : field.node.number;
  if (factor > static_cast<double>(in.type.min) && factor <= static_cast<double>(in.type.max)) {
    in.to.*Member = factor;
    return;
  }
  field.report.error(field.node.at,
                     fmt::format("`{}` must be more than {} and at most {}, not {}", field.key,
                                 in.type.min, in.type.max, field.node.text));
}

constexpr KeyType kFactor = {
    .kind = KeyType::Kind::Factor, .min = 1, .max = static_cast<std::int64_t>(kMostGrowth)};

constexpr MemberKey<Growth> kGrowthKeys[] = {
    {{"memory", kFactor, "", "factor for `memory` after an attempt ran out of it"},
     read_factor<&Growth::memory>},
    {{"gpu_memory", kFactor, "", "factor for `gpu_memory` after an attempt ran out of it"},
     read_factor<&Growth::gpu_memory>},
};

}  // namespace

std::optional<EarlySignal> read_early_signal(const Field& field) {
  const std::optional<std::string> text = read_nonempty_text(field);
  if (!text) return std::nullopt;
  const std::size_t at = text->find('@');
  if (at == std::string::npos) {
    field.report.error(field.node.at,
                       fmt::format("`{}` must be a signal and a time like \"USR1@120s\", not "
                                   "\"{}\"",
                                   field.key, *text));
    return std::nullopt;
  }
  const std::optional<int> number = read_signal_number(field, text->substr(0, at));
  const Result<std::chrono::milliseconds> ahead = parse_duration(text->substr(at + 1));
  if (!ahead) {
    field.report.error(field.node.at, fmt::format("`{}`: {}", field.key, ahead.error().message));
  } else if (ahead->count() == 0) {
    field.report.error(
        field.node.at,
        fmt::format("`{}`: the time before the end must be more than zero", field.key));
  }
  if (!number || !ahead || ahead->count() == 0) return std::nullopt;
  return EarlySignal{.number = *number, .ahead = *ahead};
}

std::string signal_text(const EarlySignal& signal) {
  const std::string_view name = short_signal_name(signal.number);
  return fmt::format("{}@{}", name.empty() ? "TERM" : name, format_duration(signal.ahead));
}

std::optional<std::chrono::milliseconds> read_limit_of_time(const Field& field) {
  std::optional<std::chrono::milliseconds> time = read_duration(field);
  if (!time || time->count() != 0) return time;
  field.report.error(field.node.at, fmt::format("`{}` must be more than zero", field.key));
  return std::nullopt;
}

std::optional<std::optional<std::chrono::milliseconds>> read_stall(const Field& field) {
  if (!field.node.is(Node::Kind::Bool)) {
    std::optional<std::chrono::milliseconds> time = read_limit_of_time(field);
    if (!time) return std::nullopt;
    return time;
  }
  const std::optional<bool> wanted = read_truth(field);
  if (!wanted) return std::nullopt;
  return *wanted ? std::optional<std::chrono::milliseconds>(kUsualStall) : std::nullopt;
}

std::vector<KnownKey> growth_keys() { return known_of(kGrowthKeys); }

std::optional<Growth> read_growth(const Field& field) {
  if (!field.node.is(Node::Kind::Table)) {
    wrong_type(field, "a table like { memory = 1.5 }");
    return std::nullopt;
  }
  Growth growth;
  read_members(field, kGrowthKeys, growth);
  return growth;
}

}  // namespace pergpu
