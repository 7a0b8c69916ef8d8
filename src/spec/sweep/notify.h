// Who gets notifications of a sweep: the tables [notify] of its file, and the channels that they
// name.
//
// Secrets are no part of it: where one is needed stands `$NAME`, a variable of the environment that
// the sweep was submitted with.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergpu {

inline constexpr std::chrono::milliseconds kUsualHookTime{60'000};
inline constexpr std::chrono::milliseconds kMostHookTime{600'000};

struct NotifySpec {
  bool on_failure = true;  // a job ended as failed, timeout or lost, and is not tried again
  bool on_hold = true;     // pergpu held jobs by itself (the breaker)
  bool on_end = true;      // nothing of the sweep is queued or running any more
  std::vector<std::string> command = {};  // executed as it is, in the sweep's folder
  std::string webhook = {};               // URL or $NAME
  std::string ntfy = {};                  // topic, URL or $NAME
  std::string slack = {};                 // $NAME
  std::string token = {};                 // $NAME: bearer token for `webhook` and `ntfy`
  std::chrono::milliseconds timeout = kUsualHookTime;  // of `command`
  bool operator==(const NotifySpec&) const = default;
};

/// One way to one receiver.
struct NotifyChannel {
  enum class Kind : std::uint8_t { Command, Webhook, Ntfy, Slack };
  Kind kind = Kind::Command;
  bool on_failure = true;
  bool on_hold = true;
  bool on_end = true;
  std::vector<std::string> command = {};  // Kind::Command
  std::string target = {};                // the others, as written
  std::string token = {};
  std::chrono::milliseconds timeout = kUsualHookTime;
};

std::string_view to_string(NotifyChannel::Kind kind);  // "command", "webhook", …
std::optional<NotifyChannel::Kind> notify_kind_of(std::string_view name);

std::vector<NotifyChannel> channels_of(const std::vector<NotifySpec>& tables);

/// What distinguishes a channel from the sweep's others: "slack $SLACK_URL".  No two of a file are
/// equal.
std::string key_of(const NotifyChannel& channel);

/// The same for people: of a URL nothing but its host, of a command nothing that looks secret.
std::string shown(const NotifyChannel& channel);

/// "NAME" of "$NAME"; "": the text is something else.
std::string variable_of(std::string_view text);

/// Why no message can be sent to this URL; "": one can.  Does not repeat the URL.
std::string why_no_url(std::string_view url);
bool is_ntfy_topic(std::string_view text);
/// "https://user:password@host/"
bool names_user(std::string_view url);

}  // namespace pergpu
