// Which classes a user may name here: those that a log can show, and those that may be tried again.
#include "spec/schema/failure_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>

#include "spec/text/suggest.h"

namespace pergpu {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 10> kRetried = {
    "exit",    "signal",     "timeout",        "lost",      "oom-host",
    "oom-gpu", "gpu-memory", "output-missing", "disk-full", "stall"};
constexpr std::array<std::string_view, 8> kTold = {"user-error", "exit",   "oom-host",  "oom-gpu",
                                                   "hardware",   "driver", "disk-full", "requeue"};

bool is_one_of(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string_view> listed(Names names) { return {names.begin(), names.end()}; }

/// One of `allowed`, or an error with the nearest one.
std::optional<OutcomeClass> read_class(const Field& field, const std::string& name, Place at,
                                       Names allowed) {
  const std::optional<OutcomeClass> cls = outcome_class_of(name);
  if (cls && is_one_of(allowed, name)) return cls;
  std::string hint = did_you_mean(name, listed(allowed));
  if (hint.empty()) hint = fmt::format("; expected {}", one_of(listed(allowed)));
  field.report.error(at, fmt::format("`{}`: unknown failure class `{}`{}", field.key, name, hint));
  return std::nullopt;
}

void read_retried(const MemberInput<RetryPolicy>& in) {
  static constexpr std::array<std::string_view, 5> kNever = {"user-error", "ok", "cancelled",
                                                             "requeue", "unknown"};
  static constexpr std::array<std::string_view, 3> kMoved = {"hardware", "driver", "neighbour"};
  const Field& field = in.field;
  const Names allowed = in.type.choices;
  std::optional<std::vector<PlacedText>> names = read_texts(field);
  if (!names) return;
  for (const PlacedText& name : *names) {
    if (is_one_of(kNever, name.text)) {
      field.report.error(name.at, fmt::format("`{}`: `{}` is never retried; expected {}", field.key,
                                              name.text, one_of(listed(allowed))));
    } else if (is_one_of(kMoved, name.text)) {
      field.report.error(name.at, fmt::format("`{}`: `{}` never uses up a retry: the job always "
                                              "starts again; remove it from the list",
                                              field.key, name.text));
    } else if (const auto retried = read_class(field, name.text, name.at, allowed)) {
      in.to.on.push_back(*retried);
    }
  }
}

constexpr MemberKey<RetryPolicy> kRetryKeys[] = {
    {{"max", takes::whole(0, 1000), "", "number of retries", true},
     [](const MemberInput<RetryPolicy>& in) {
       const auto max = read_whole(in.field, in.type.min, in.type.max);
       if (max) in.to.max = static_cast<int>(*max);
     }},
    {{"on",
      {.kind = KeyType::Kind::Texts, .choices = kRetried},
      "`[\"exit\", \"signal\", \"timeout\", \"oom-host\", \"output-missing\", \"stall\"]`",
      "failure classes to retry (docs/failures.md)"},
     read_retried},
    {{"delay", takes::duration(), "`\"1s\"`",
      "wait before the first retry; doubles with each retry"},
     [](const MemberInput<RetryPolicy>& in) {
       if (const auto delay = read_duration(in.field)) in.to.delay = *delay;
     }},
};

/// A rule while it is read.
struct RuleDraft {
  FailureRule rule = {};
  bool is_good = true;
};

void read_match(const MemberInput<RuleDraft>& in) {
  auto text = read_nonempty_text(in.field);
  if (text && text->find('\n') != std::string::npos) {
    in.field.report.error(
        in.field.node.at,
        "`failures[].match` contains a line break, but it's matched against single lines");
    text.reset();
  }
  in.to.is_good &= text.has_value();
  if (text) in.to.rule.match = *std::move(text);
}

void read_told(const MemberInput<RuleDraft>& in) {
  const std::optional<std::string> name = read_text(in.field);
  const auto cls = name ? read_class(in.field, *name, in.field.node.at, in.type.choices)
                        : std::optional<OutcomeClass>();
  in.to.is_good &= cls.has_value();
  if (cls) in.to.rule.cls = *cls;
}

constexpr MemberKey<RuleDraft> kRuleKeys[] = {
    {{"match", takes::text(), "", "text to find in a line of the log", true}, read_match},
    {{"class", takes::choice(kTold), "", "failure class of the attempt (docs/failures.md)", true},
     read_told},
};

void read_rule(const Field& field, std::vector<FailureRule>& rules) {
  if (!expect_table(field)) return;
  RuleDraft draft;
  draft.is_good = read_members(field, kRuleKeys, draft) && draft.is_good;
  if (field.node.find("class") == nullptr || field.node.find("match") == nullptr) {
    field.report.error(
        field.node.at,
        "`failures[]` must be like { match = \"loss is nan\", class = \"user-error\" }");
    return;
  }
  if (draft.is_good) rules.push_back(std::move(draft.rule));
}

}  // namespace

std::vector<KnownKey> retry_keys() { return known_of(kRetryKeys); }
std::vector<KnownKey> failure_keys() { return known_of(kRuleKeys); }

std::optional<RetryPolicy> read_retry_policy(const Field& field, const KeyType& type) {
  const Node& node = field.node;
  RetryPolicy policy;
  if (!node.is(Node::Kind::Table)) {
    if (!node.is(Node::Kind::Int)) {
      wrong_type(field, "a whole number or a table like { max = 2, on = [\"exit\"] }");
      return std::nullopt;
    }
    if (std::optional<std::int64_t> max = read_whole(field, type.min, type.max))
      policy.max = static_cast<int>(*max);
    return policy;
  }
  read_members(field, kRetryKeys, policy);
  if (node.find("max") == nullptr)
    field.report.error(node.at, "`retries` lacks `max`, the number of retries");
  return policy;
}

std::vector<FailureRule> read_failure_rules(const Field& field) {
  std::vector<FailureRule> rules;
  if (!field.node.is(Node::Kind::List)) {
    wrong_type(field, "a list like [{ match = \"loss is nan\", class = \"user-error\" }]");
    return rules;
  }
  for (const Node& item : field.node.items) read_rule({field.report, "failures[]", item}, rules);
  return rules;
}

}  // namespace pergpu
