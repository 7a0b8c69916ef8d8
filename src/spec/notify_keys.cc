// What would be sent nowhere, or never, is a mistake of the file: a night's news must not be lost
// to a typing error that nobody saw.
#include "spec/notify_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "spec/command_words.h"
#include "spec/suggest.h"
#include "spec/typed.h"
#include "spec/units.h"

namespace pergpu {
namespace {

using Names = std::vector<std::string_view>;

const Names kKeys = {"on", "command", "webhook", "ntfy", "slack", "token", "timeout"};
const Names kEvents = {"failure", "hold", "end"};

void read_on(const Field& field, NotifySpec& spec) {
  const std::optional<std::vector<PlacedText>> names = read_texts(field);
  if (!names) return;
  spec.on_failure = spec.on_hold = spec.on_end = false;
  if (names->empty())
    field.report.error(field.node.at, "`notify.on` is empty: nothing would ever be sent");
  for (const PlacedText& name : *names) {
    if (name.text == "failure") {
      spec.on_failure = true;
    } else if (name.text == "hold") {
      spec.on_hold = true;
    } else if (name.text == "end") {
      spec.on_end = true;
    } else {
      std::string hint = did_you_mean(name.text, kEvents);
      if (hint.empty()) hint = fmt::format("; it can be {}", one_of(kEvents));
      field.report.error(name.at,
                         fmt::format("`notify.on`: unknown event `{}`{}", name.text, hint));
    }
  }
}

void read_command(const Field& field, NotifySpec& spec) {
  Report& report = field.report;
  if (field.node.is(Node::Kind::String)) {
    const std::optional<std::string> text = read_nonempty_text(field);
    if (!text) return;
    Result<std::vector<std::string>> words = split_command(*text);
    if (!words)
      return report.error(field.node.at, fmt::format("`{}`: {}", field.key, words.error().message));
    spec.command = *std::move(words);
  } else {
    std::optional<std::vector<PlacedText>> words = read_texts(field);
    if (!words) return;
    for (PlacedText& word : *words) spec.command.push_back(std::move(word.text));
  }
  if (spec.command.empty() || spec.command.front().empty()) {
    report.error(field.node.at, fmt::format("`{}` names no program", field.key));
    spec.command.clear();
  }
}

/// `$NAME`, where nothing else may stand.
std::string read_variable(const Field& field, std::string_view why) {
  const std::optional<std::string> text = read_nonempty_text(field);
  if (!text) return "";
  if (!variable_of(*text).empty()) return *text;
  // The text is not repeated: it may be the secret itself.
  field.report.error(field.node.at,
                     fmt::format("`{0}` must name a variable of the environment, like "
                                 "{0} = \"$NAME\": {1}",
                                 field.key.substr(field.key.rfind('.') + 1), why));
  return "";
}

/// False, and reported: a variable as part of a text would be sent as it stands.
bool has_no_dollar(const Field& field, const std::string& text) {
  if (text.find('$') == std::string::npos) return true;
  field.report.error(field.node.at,
                     fmt::format("`{}`: a variable stands alone, as in \"$NAME\"; its value is the "
                                 "whole text",
                                 field.key));
  return false;
}

bool is_good_url(const Field& field, const std::string& url) {
  std::string why = why_no_url(url);
  if (why.empty() && names_user(url))
    why =
        "it holds a user or a password, and the file is no place for them: write \"$NAME\", and "
        "put the URL into that variable";
  if (why.empty()) return true;
  field.report.error(field.node.at, fmt::format("`{}` cannot be sent to: {}", field.key, why));
  return false;
}

std::string read_url(const Field& field) {
  const std::optional<std::string> text = read_nonempty_text(field);
  if (!text) return "";
  if (!variable_of(*text).empty()) return *text;
  return has_no_dollar(field, *text) && is_good_url(field, *text) ? *text : std::string();
}

std::string read_topic(const Field& field) {
  const std::optional<std::string> text = read_nonempty_text(field);
  if (!text) return "";
  if (!variable_of(*text).empty()) return *text;
  if (!has_no_dollar(field, *text)) return "";
  if (text->find("://") != std::string::npos) return is_good_url(field, *text) ? *text : "";
  if (is_ntfy_topic(*text)) return *text;
  field.report.error(
      field.node.at,
      fmt::format("`{}` must be a topic (letters, digits, _ and -, at most 64), a URL or \"$NAME\"",
                  field.key));
  return "";
}

void read_timeout(const Field& field, NotifySpec& spec) {
  const std::optional<std::chrono::milliseconds> time = read_duration(field);
  if (!time) return;
  if (time->count() == 0 || *time > kMostHookTime) {
    field.report.error(field.node.at,
                       fmt::format("`{}` must be more than 0 and at most {}, not {}", field.key,
                                   format_duration(kMostHookTime), format_duration(*time)));
    return;
  }
  spec.timeout = *time;
}

NotifySpec read_table(Report& report, const Node& table) {
  NotifySpec spec;
  for (std::size_t i = 0; i < table.keys.size(); ++i) {
    const Key& key = table.keys[i];
    const std::string name = "notify." + key.text;
    const Field field{report, name, table.items[i]};
    if (key.text == "on") {
      read_on(field, spec);
    } else if (key.text == "command") {
      read_command(field, spec);
    } else if (key.text == "webhook") {
      spec.webhook = read_url(field);
    } else if (key.text == "ntfy") {
      spec.ntfy = read_topic(field);
    } else if (key.text == "slack") {
      spec.slack = read_variable(field, "whoever knows the URL of a Slack hook can write there");
    } else if (key.text == "token") {
      spec.token = read_variable(field, "the file is no place for a secret");
    } else if (key.text == "timeout") {
      read_timeout(field, spec);
    } else {
      report.error(key.at, fmt::format("unknown key `{}` in [notify]{}", key.text,
                                       did_you_mean(key.text, kKeys)));
    }
  }
  const auto has = [&](std::string_view key) { return table.find(key) != nullptr; };
  if (!has("command") && !has("webhook") && !has("ntfy") && !has("slack"))
    report.error(table.at, "[notify] tells nobody: add `command`, `webhook`, `ntfy` or `slack`");
  if (has("token") && !has("webhook") && !has("ntfy"))
    report.error(table.find("token")->at, "`token` is for `webhook` and `ntfy`, and there is none");
  if (has("timeout") && !has("command"))
    report.error(table.find("timeout")->at, "`timeout` is that of `command`, and there is none");
  return spec;
}

/// Two equal ones would be told everything twice.
void check_each_once(Report& report, const std::vector<NotifySpec>& tables,
                     const std::vector<Place>& places) {
  std::vector<std::string> seen;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    for (const NotifyChannel& channel : channels_of({tables[i]})) {
      const std::string key = key_of(channel);
      if (std::find(seen.begin(), seen.end(), key) == seen.end()) {
        seen.push_back(key);
      } else {
        report.error(places[i], fmt::format("[[notify]] names {} twice", shown(channel)));
      }
    }
  }
}

}  // namespace

std::vector<NotifySpec> read_notify(Report& report, const Node& node) {
  std::vector<NotifySpec> tables;
  std::vector<Place> places;
  const auto read_one = [&](const Node& table) {
    if (!expect_table({report, "notify", table})) return;
    tables.push_back(read_table(report, table));
    places.push_back(table.at);
  };
  if (node.is(Node::Kind::List)) {
    for (const Node& table : node.items) read_one(table);
  } else {
    read_one(node);
  }
  check_each_once(report, tables, places);
  return tables;
}

}  // namespace pergpu
