// `curl -q -K -`: -q must come first and keeps a ~/.curlrc out, which may print what it sends.  The
// status comes back on stderr behind a mark, apart from what the server says.
#include "notify/http_post.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "run/run_program.h"
#include "version.h"

namespace pergpu {
namespace {

constexpr int kConnectSeconds = 10;
constexpr int kAllSeconds = 30;
constexpr std::int64_t kCurlNs = (kAllSeconds + 5) * std::int64_t{1'000'000'000};
constexpr std::string_view kMark = "pergpu-status:";
constexpr std::size_t kLongestAnswer = 200;

/// In the quotes of curl's configuration.
std::string curl_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n' || c == '\r') continue;  // another header, or an option
    out += c;
  }
  return out + '"';
}

std::string first_line(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  text.remove_prefix(begin);
  text = text.substr(0, text.find_first_of("\r\n"));
  return std::string(text.substr(0, kLongestAnswer));
}

/// 0: there was no answer.
int status_of(std::string_view said) {
  const std::size_t at = said.rfind(kMark);
  if (at == std::string_view::npos) return 0;
  return std::atoi(std::string(said.substr(at + kMark.size(), 3)).c_str());
}

}  // namespace

std::string curl_config(const HttpPost& request) {
  std::string out = fmt::format(
      "silent\nshow-error\ngloboff\nproto = \"=http,https\"\nconnect-timeout = {}\nmax-time = {}\n"
      "user-agent = \"pergpu/{}\"\nurl = {}\n",
      kConnectSeconds, kAllSeconds, PERGPU_VERSION, curl_quoted(request.url));
  for (const std::string& header : request.headers)
    out += fmt::format("header = {}\n", curl_quoted(header));
  out += "header = \"Expect:\"\n";  // no question before the body
  out += "data-binary = \"@/dev/fd/3\"\n";
  out += fmt::format("write-out = \"%{{stderr}}\\n{}%{{http_code}}\\n\"\n", kMark);
  return out;
}

Result<std::string> post(const HttpPost& request, const std::vector<std::string>& env) {
  if (find_executable("curl", env).empty()) {
    return Error{ErrorKind::Unavailable, 0,
                 "can't find `curl`, which sends notifications: install the package curl"};
  }
  const Result<ProgramEnd> end = run_program({.argv = {"curl", "-q", "-K", "-"},
                                              .env = env,
                                              .cwd = "/",
                                              .input = curl_config(request),
                                              .more = request.body,
                                              .limit_ns = kCurlNs});
  if (!end) return end.error();
  const int status = status_of(end->complaint);
  if (status >= 200 && status < 300) return fmt::format("HTTP {}", status);
  std::string why;
  if (status >= 300 && status < 400) {
    why = fmt::format("HTTP {}: the URL has moved; use the new one", status);
  } else if (status != 0) {
    const std::string answer = first_line(end->output);
    why = fmt::format("HTTP {}{}{}", status, answer.empty() ? "" : ": ", answer);
  } else if (!end->status) {
    why = "curl timed out";
  } else {
    why = first_line(end->complaint.substr(0, end->complaint.rfind(kMark)));
    if (why.empty()) why = "curl failed without a message";
  }
  return Error{ErrorKind::Unavailable, 0, std::move(why)};
}

}  // namespace pergpu
