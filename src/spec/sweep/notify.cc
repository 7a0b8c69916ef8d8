// A URL may be a secret as a whole (Slack's and Discord's are): only its host is ever shown.
#include "spec/sweep/notify.h"

#include <algorithm>

#include "ascii.h"
#include "job/names.h"
#include "job/redact.h"

namespace pergpu {
namespace {

std::size_t scheme_end(std::string_view url) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (url.starts_with(scheme)) return scheme.size();
  }
  return 0;
}

/// "https://host:8080/…"
std::string host_of(std::string_view url) {
  const std::size_t begin = scheme_end(url);
  const std::size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  std::string out(url.substr(0, end));
  return end + 1 < url.size() ? out + "/…" : out;
}

}  // namespace

std::string_view to_string(NotifyChannel::Kind kind) {
  switch (kind) {
    case NotifyChannel::Kind::Command:
      return "command";
    case NotifyChannel::Kind::Webhook:
      return "webhook";
    case NotifyChannel::Kind::Ntfy:
      return "ntfy";
    case NotifyChannel::Kind::Slack:
      return "slack";
  }
  return "?";
}

std::optional<NotifyChannel::Kind> notify_kind_of(std::string_view name) {
  using Kind = NotifyChannel::Kind;
  static constexpr Kind kAll[] = {Kind::Command, Kind::Webhook, Kind::Ntfy, Kind::Slack};
  return enumerator_of(name, kAll);
}

std::vector<NotifyChannel> channels_of(const std::vector<NotifySpec>& tables) {
  using Kind = NotifyChannel::Kind;
  std::vector<NotifyChannel> out;
  for (const NotifySpec& table : tables) {
    const auto add = [&](Kind kind, const std::string& target, const std::string& token) {
      out.push_back({.kind = kind,
                     .on_failure = table.on_failure,
                     .on_hold = table.on_hold,
                     .on_end = table.on_end,
                     .command = kind == Kind::Command ? table.command : std::vector<std::string>(),
                     .target = target,
                     .token = token,
                     .timeout = table.timeout});
    };
    if (!table.command.empty()) add(Kind::Command, "", "");
    if (!table.webhook.empty()) add(Kind::Webhook, table.webhook, table.token);
    if (!table.ntfy.empty()) add(Kind::Ntfy, table.ntfy, table.token);
    if (!table.slack.empty()) add(Kind::Slack, table.slack, "");
  }
  return out;
}

std::string key_of(const NotifyChannel& channel) {
  std::string out(to_string(channel.kind));
  if (channel.kind != NotifyChannel::Kind::Command) return out + " " + channel.target;
  for (const std::string& word : channel.command) out += " " + word;
  return out;
}

std::string shown(const NotifyChannel& channel) {
  std::string out(to_string(channel.kind));
  if (channel.kind != NotifyChannel::Kind::Command) {
    const bool is_url = scheme_end(channel.target) > 0;
    return out + " " + (is_url ? host_of(channel.target) : channel.target);
  }
  for (const std::string& word : redact_words(channel.command)) out += " " + word;
  return out;
}

std::string variable_of(std::string_view text) {
  if (text.size() < 2 || text.front() != '$' || !is_name_start(text[1])) return "";
  const std::string_view name = text.substr(1);
  const bool is_name =
      std::all_of(name.begin(), name.end(), [](char c) { return is_name_char(c); });
  return is_name ? std::string(name) : std::string();
}

std::string why_no_url(std::string_view url) {
  const std::size_t begin = scheme_end(url);
  if (begin == 0) return "it must begin with https:// or http://";
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; };
  if (std::any_of(url.begin(), url.end(), is_bad))
    return "it contains a space or a control character";
  const std::size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  const std::string_view host = url.substr(begin, end - begin);
  return host.empty() ? "it has no host name" : "";
}

bool is_ntfy_topic(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  const auto may_be = [](char c) { return is_name_char(c) || c == '-'; };
  return !text.empty() && text.size() <= kLongest && std::all_of(text.begin(), text.end(), may_be);
}

bool names_user(std::string_view url) {
  const std::size_t begin = scheme_end(url);
  const std::size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  return url.substr(begin, end - begin).find('@') != std::string_view::npos;
}

}  // namespace pergpu
