// Values of `$NAME` are looked up here and nowhere earlier, so that no other part of pergpu ever
// holds them.  They go to curl through descriptors; from what is said afterwards they are taken
// out.
#include "cli/notify/notify_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "job/redact.h"
#include "json_text.h"
#include "notify/http_post.h"
#include "os/process/spawn.h"
#include "run/run_program.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

using ChannelKind = NotifyChannel::Kind;

constexpr std::string_view kNtfyServer = "https://ntfy.sh/";
constexpr std::size_t kLongestAnswer = 200;

/// What was written, or the value that it names; then `secrets` holds that, too.
Result<std::string> resolved(const std::string& written, const Environment& environment,
                             std::vector<std::string>& secrets) {
  const std::string name = variable_of(written);
  if (name.empty()) return written;
  std::optional<std::string> value = os::value_in(environment, name);
  if (!value || value->empty())
    return invalid(fmt::format("the variable {} is {} in the environment of the submit", name,
                               value ? "empty" : "not set"));
  secrets.push_back(*value);
  return *std::move(value);
}

struct Address {
  std::string url = {};
  std::string token = {};
  std::vector<std::string> secrets = {};
};

Result<Address> address_of(const NotifyChannel& channel, const Environment& environment) {
  Address address;
  Result<std::string> target = resolved(channel.target, environment, address.secrets);
  if (!target) return std::move(target).error();
  const bool is_topic = channel.kind == ChannelKind::Ntfy && is_ntfy_topic(*target);
  address.url = is_topic ? std::string(kNtfyServer) + *target : *target;
  const std::string why = why_no_url(address.url);
  if (!why.empty()) {
    const std::string name = variable_of(channel.target);
    return invalid(name.empty() ? why : fmt::format("the value of {}: {}", name, why));
  }
  if (!channel.token.empty()) {
    Result<std::string> token = resolved(channel.token, environment, address.secrets);
    if (!token) return std::move(token).error();
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
    if (std::any_of(token->begin(), token->end(), is_control))
      return invalid(
          fmt::format("the value of {} contains a control character", variable_of(channel.token)));
    address.token = *std::move(token);
  }
  return address;
}

std::string without(std::string text, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + kRedacted.size()))
      text.replace(at, secret.size(), kRedacted);
  }
  return text;
}

Result<std::string> send_http(const NotifyChannel& channel, const Environment& environment,
                              const view::Notice& notice, const view::Message& message) {
  Result<Address> address = address_of(channel, environment);
  if (!address) return std::move(address).error();
  HttpPost request{.url = address->url};
  if (channel.kind == ChannelKind::Ntfy) {
    request.headers = view::ntfy_headers(message);
    request.body = view::ntfy_text(message);
  } else {
    request.headers = {"Content-Type: application/json"};
    request.body = channel.kind == ChannelKind::Slack ? view::slack_body(message)
                                                      : json_text(view::facts_of(notice, message));
  }
  if (!address->token.empty()) request.headers.push_back("Authorization: Bearer " + address->token);
  Result<std::string> sent = post(request, environment);
  if (sent) return sent;
  return Error{sent.error().kind, 0, without(sent.error().message, address->secrets)};
}

Result<std::string> run_hook(const NotifyChannel& channel, const std::string& folder,
                             const Environment& environment, const view::Notice& notice,
                             const view::Message& message) {
  Environment own = environment;
  for (const auto& [name, value] : view::hook_variables(notice, message))
    os::set_variable(own, name, value);
  const std::string facts = json_text(view::facts_of(notice, message));
  const std::chrono::nanoseconds limit = channel.timeout;
  const Result<ProgramEnd> end = run_program({.argv = channel.command,
                                              .env = std::move(own),
                                              .cwd = folder,
                                              .input = facts + "\n",
                                              .limit_ns = limit.count()});
  if (!end) return end.error();
  std::string how;
  if (!end->status) {
    how = "it took too long and was killed";
  } else if (const auto* exited = std::get_if<os::Exited>(&*end->status)) {
    if (exited->code == 0) return std::string("exit code 0");
    how = fmt::format("exit code {}", exited->code);
  } else {
    how = fmt::format("ended by signal {}", std::get<os::Signaled>(*end->status).signal);
  }
  const std::string_view line = last_line(end->complaint.empty() ? end->output : end->complaint);
  const std::string words = view::safe_line(redact_text(line.substr(0, kLongestAnswer)));
  return Error{ErrorKind::Unavailable, 0, words.empty() ? how : how + ": " + words};
}

}  // namespace

Result<std::string> send_notice(const NotifyChannel& channel, const std::string& folder,
                                const Environment& environment, const view::Notice& notice,
                                const view::Message& message) {
  if (channel.kind == ChannelKind::Command)
    return run_hook(channel, folder, environment, notice, message);
  return send_http(channel, environment, notice, message);
}

Result<std::vector<std::string>> check_notify(const SweepSpec& sweep,
                                              const Environment& environment) {
  std::vector<std::string> warnings;
  bool needs_curl = false;
  for (const NotifyChannel& channel : channels_of(sweep.notify)) {
    if (channel.kind != ChannelKind::Command) {
      needs_curl = true;
      const Result<Address> address = address_of(channel, environment);
      if (!address)
        return invalid(fmt::format("[notify] {}: {}", shown(channel), address.error().message));
      continue;
    }
    std::string program = channel.command.front();
    const bool is_relative = program.find('/') != std::string::npos && program.front() != '/';
    if (is_relative) program = sweep.folder + "/" + program;
    if (find_executable(program, environment).empty())
      warnings.push_back(
          fmt::format("[notify] {}: no such program yet; create it before the first notification",
                      shown(channel)));
  }
  if (needs_curl && find_executable("curl", environment).empty())
    warnings.push_back(
        "[notify]: `curl` is not installed, so no notification is sent over HTTP; install the "
        "package curl");
  return warnings;
}

}  // namespace pergpu::cli
