// What would be sent nowhere, or never, is a mistake of the file: a night's news must not be lost
// to an unnoticed typing error.
#include "spec/schema/notify_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "spec/templates/command_words.h"
#include "spec/text/suggest.h"
#include "spec/text/units.h"
#include "spec/tree/typed.h"

namespace pergpu {
namespace {

constexpr std::string_view kVariable = "^\\$[A-Za-z_][A-Za-z0-9_]*$";
constexpr std::array<std::string_view, 3> kEvents = {"failure", "hold", "end"};

void read_on(const Field& field, NotifySpec& spec) {
  const std::optional<std::vector<PlacedText>> names = read_texts(field);
  if (!names) return;
  const std::vector<std::string_view> events(kEvents.begin(), kEvents.end());
  spec.on_failure = spec.on_hold = spec.on_end = false;
  if (names->empty())
    field.report.error(field.node.at, "`notify.on` is empty, so nothing would ever be sent");
  for (const PlacedText& name : *names) {
    if (name.text == "failure") {
      spec.on_failure = true;
    } else if (name.text == "hold") {
      spec.on_hold = true;
    } else if (name.text == "end") {
      spec.on_end = true;
    } else {
      std::string hint = did_you_mean(name.text, events);
      if (hint.empty()) hint = fmt::format("; expected {}", one_of(events));
      field.report.error(name.at,
                         fmt::format("`notify.on`: unknown event `{}`{}", name.text, hint));
    }
  }
}

/// A step would have the keys `shell` and `env` for it.
std::string without_key_of_steps(std::string message, const std::string& command) {
  constexpr std::string_view kSteps =
      "needs a shell: write `shell = …`, or put it in single quotes";
  if (const std::size_t env = message.find("write it as `env ="); env != std::string::npos)
    return message.substr(0, env) + "write `env NAME=VALUE …` before it";
  const std::size_t at = message.find(kSteps);
  if (at == std::string::npos) return message;
  if (command.starts_with('~') || command.starts_with('$'))
    return "this command doesn't run in a shell, so nothing is expanded; write the full path";
  return message.replace(at, kSteps.size(),
                         "needs a shell, but this command doesn't run in one: put it into a "
                         "script, write [\"sh\", \"-c\", \"…\"], or put it in single quotes");
}

void read_command(const Field& field, NotifySpec& spec) {
  Report& report = field.report;
  if (field.node.is(Node::Kind::String)) {
    const std::optional<std::string> text = read_nonempty_text(field);
    if (!text) return;
    Result<std::vector<std::string>> words = split_command(*text);
    if (!words)
      return report.error(
          field.node.at,
          fmt::format("`{}`: {}", field.key, without_key_of_steps(words.error().message, *text)));
    spec.command = *std::move(words);
  } else {
    std::optional<std::vector<PlacedText>> words = read_texts(field);
    if (!words) return;
    for (PlacedText& word : *words) spec.command.push_back(std::move(word.text));
  }
  if (!spec.command.empty() && spec.command.front().find_first_of("~$") == 0) {
    report.error(field.node.at,
                 fmt::format("`{}`: \"{}\" isn't a program: the command doesn't run in a shell, so "
                             "nothing is expanded; write the full path",
                             field.key, spec.command.front()));
    spec.command.clear();
    return;
  }
  if (spec.command.empty() || spec.command.front().empty()) {
    report.error(field.node.at, fmt::format("`{}` has no program", field.key));
    spec.command.clear();
  }
}

/// `$NAME`, where nothing else may stand.
std::string read_variable(const Field& field, std::string_view why) {
  const std::optional<std::string> text = read_nonempty_text(field);
  if (!text) return "";
  if (!variable_of(*text).empty()) return *text;
  // The text is not repeated: it may be the secret itself.
  field.report.error(
      field.node.at,
      fmt::format("`{0}` must name an environment variable, like {0} = \"$NAME\": {1}",
                  field.key.substr(field.key.rfind('.') + 1), why));
  return "";
}

/// False, and reported: a variable as part of a text would be sent as it stands.
bool has_no_dollar(const Field& field, const std::string& text) {
  if (text.find('$') == std::string::npos) return true;
  field.report.error(field.node.at,
                     fmt::format("`{}`: a variable can't be part of a longer string; write "
                                 "\"$NAME\" and put the whole value into the variable",
                                 field.key));
  return false;
}

bool is_good_url(const Field& field, const std::string& url) {
  std::string why = why_no_url(url);
  if (why.empty() && names_user(url))
    why =
        "it contains a user name or a password, which don't belong in the file: write \"$NAME\", "
        "and put the URL into that variable";
  if (why.empty()) return true;
  field.report.error(field.node.at, fmt::format("`{}` isn't a valid URL: {}", field.key, why));
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

using Input = MemberInput<NotifySpec>;

constexpr MemberKey<NotifySpec> kNotifyKeys[] = {
    {{"on",
      {.kind = KeyType::Kind::Texts, .choices = kEvents},
      "`[\"failure\", \"hold\", \"end\"]`",
      "events to report (docs/notifications.md)"},
     [](const Input& in) { read_on(in.field, in.to); }},
    {{"command", takes::only(KeyType::Kind::Words), "",
      "program that receives the notification as JSON on standard input"},
     [](const Input& in) { read_command(in.field, in.to); }},
    {{"webhook", takes::text(), "",
      "URL that receives the notification as a JSON POST, or `\"$NAME\"`: the environment variable "
      "with the URL"},
     [](const Input& in) { in.to.webhook = read_url(in.field); }},
    {{"ntfy", takes::text(), "",
      "topic on ntfy.sh, URL of a topic on another server, or `\"$NAME\"`"},
     [](const Input& in) { in.to.ntfy = read_topic(in.field); }},
    {{"slack", takes::text(kVariable), "",
      "`\"$NAME\"`: the environment variable with the URL of a Slack incoming webhook"},
     [](const Input& in) {
       in.to.slack = read_variable(in.field, "the URL of a Slack webhook is a secret");
     }},
    {{"token", takes::text(kVariable), "",
      "`\"$NAME\"`: the environment variable with the bearer token for `webhook` and `ntfy`"},
     [](const Input& in) {
       in.to.token = read_variable(in.field, "secrets don't belong in the file");
     }},
    {{"timeout", takes::limit_of_time(), "`\"60s\"`", "time limit of `command`"},
     [](const Input& in) { read_timeout(in.field, in.to); }},
};

NotifySpec read_table(Report& report, const Node& table) {
  NotifySpec spec;
  (void)read_members({report, "notify", table}, kNotifyKeys, spec);
  const auto has = [&](std::string_view key) { return table.find(key) != nullptr; };
  if (!has("command") && !has("webhook") && !has("ntfy") && !has("slack"))
    report.error(table.at, "[notify] has no channel: add `command`, `webhook`, `ntfy` or `slack`");
  if (has("token") && !has("webhook") && !has("ntfy"))
    report.error(table.find("token")->at,
                 "`token` needs `webhook` or `ntfy`: add one of them, or remove `token`");
  if (has("timeout") && !has("command"))
    report.error(table.find("timeout")->at,
                 "`timeout` needs `command`: add it, or remove `timeout`");
  return spec;
}

/// Two equal ones would get everything twice.
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

std::vector<KnownKey> notify_keys() { return known_of(kNotifyKeys); }

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
