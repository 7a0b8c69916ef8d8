// Which classes a user may name here: those that a log can tell, and those that may be tried again.
#include "spec/failure_keys.h"

#include <fmt/core.h>

#include <algorithm>

#include "spec/suggest.h"

namespace pergpu {
namespace {

using Names = std::vector<std::string_view>;

const Names kRetried = {"exit",    "signal",     "timeout",        "lost",      "oom-host",
                        "oom-gpu", "gpu-memory", "output-missing", "disk-full", "stall"};
const Names kTold = {"user-error", "exit",   "oom-host",  "oom-gpu",
                     "hardware",   "driver", "disk-full", "requeue"};

bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// One of `allowed`, or an error with the nearest one.
std::optional<OutcomeClass> read_class(const Field& field, const std::string& name, Place at,
                                       const Names& allowed) {
  const std::optional<OutcomeClass> cls = outcome_class_of(name);
  if (cls && is_one_of(allowed, name)) return cls;
  std::string hint = did_you_mean(name, allowed);
  if (hint.empty()) hint = fmt::format("; it can be {}", one_of(allowed));
  field.report.error(at, fmt::format("`{}`: unknown outcome `{}`{}", field.key, name, hint));
  return std::nullopt;
}

void read_retried(const Field& field, RetryPolicy& policy) {
  static const Names kNever = {"user-error", "ok", "cancelled", "requeue", "unknown"};
  static const Names kMoved = {"hardware", "driver"};
  std::optional<std::vector<PlacedText>> names = read_texts(field);
  if (!names) return;
  for (const PlacedText& name : *names) {
    if (is_one_of(kNever, name.text)) {
      field.report.error(name.at, fmt::format("`{}`: `{}` is never retried; it can be {}",
                                              field.key, name.text, one_of(kRetried)));
    } else if (is_one_of(kMoved, name.text)) {
      field.report.error(name.at, fmt::format("`{}`: `{}` costs no retry: the job is started again "
                                              "in any case",
                                              field.key, name.text));
    } else if (const auto retried = read_class(field, name.text, name.at, kRetried)) {
      policy.on.push_back(*retried);
    }
  }
}

void read_rule(const Field& field, std::vector<FailureRule>& rules) {
  if (!expect_table(field)) return;
  Report& report = field.report;
  FailureRule rule;
  bool has_class = false;
  bool is_good = true;
  for (std::size_t i = 0; i < field.node.keys.size(); ++i) {
    const std::string& key = field.node.keys[i].text;
    const Node& value = field.node.items[i];
    if (key == "match") {
      if (auto text = read_nonempty_text({report, "failures[].match", value})) {
        rule.match = *std::move(text);
        if (rule.match.find('\n') == std::string::npos) continue;
        report.error(value.at, "`failures[].match` has a line break; it is looked for in one line");
      }
      is_good = false;
    } else if (key == "class") {
      has_class = true;
      const Field of_class{report, "failures[].class", value};
      std::optional<std::string> name = read_text(of_class);
      auto cls = name ? read_class(of_class, *name, value.at, kTold) : std::nullopt;
      is_good = is_good && cls;
      if (cls) rule.cls = *cls;
    } else {
      report.error(field.node.keys[i].at, fmt::format("unknown key `{}` in `failures[]`{}", key,
                                                      did_you_mean(key, {"match", "class"})));
      is_good = false;
    }
  }
  if (!has_class || field.node.find("match") == nullptr) {
    report.error(field.node.at,
                 "`failures[]` must be like { match = \"loss is nan\", class = \"user-error\" }");
    return;
  }
  if (is_good) rules.push_back(std::move(rule));
}

}  // namespace

std::optional<RetryPolicy> read_retry_policy(const Field& field) {
  const Node& node = field.node;
  RetryPolicy policy;
  if (!node.is(Node::Kind::Table)) {
    if (!node.is(Node::Kind::Int)) {
      wrong_type(field, "a whole number or a table like { max = 2, on = [\"exit\"] }");
      return std::nullopt;
    }
    if (std::optional<std::int64_t> max = read_whole(field, 0, 1000))
      policy.max = static_cast<int>(*max);
    return policy;
  }
  Report& report = field.report;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i].text;
    const Node& value = node.items[i];
    if (key == "max") {
      if (std::optional<std::int64_t> max = read_whole({report, "retries.max", value}, 0, 1000))
        policy.max = static_cast<int>(*max);
    } else if (key == "on") {
      read_retried({report, "retries.on", value}, policy);
    } else if (key == "delay") {
      if (auto delay = read_duration({report, "retries.delay", value})) policy.delay = *delay;
    } else {
      report.error(node.keys[i].at, fmt::format("unknown key `{}` in `retries`{}", key,
                                                did_you_mean(key, {"max", "on", "delay"})));
    }
  }
  if (node.find("max") == nullptr)
    report.error(node.at, "`retries` lacks `max`, the number of retries");
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
