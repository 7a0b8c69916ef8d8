// Every answer carries the same fields that keep a browser from doing what none of our pages asks
// for: nothing is fetched from elsewhere, framed, guessed, or sent to other sites.
#include "serve/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "json_text.h"
#include "number.h"

namespace pergpu::serve {
namespace {

constexpr std::string_view kFixedFields =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
    "'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 431:
      return "Request Header Fields Too Large";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
  }
  return "Error";
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// nullopt: a `%` without two digits, or a zero byte.
std::optional<std::string> decoded(std::string_view text, bool plus_is_blank) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_blank) c = ' ';
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    out.push_back(c);
  }
  return out;
}

std::string_view found(const std::map<std::string, std::string>& map, const std::string& name) {
  const auto at = map.find(name);
  return at == map.end() ? std::string_view() : std::string_view(at->second);
}

/// In the words of HTTP, whatever the language of this process.
std::string date_of(std::int64_t now_s) {
  constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = now_s;
  std::tm now = {};
  ::gmtime_r(&seconds, &now);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(now.tm_wday)], now.tm_mday,
                     kMonths[static_cast<std::size_t>(now.tm_mon)], now.tm_year + 1900, now.tm_hour,
                     now.tm_min, now.tm_sec);
}

}  // namespace

std::string_view HttpRequest::field(const std::string& name) const { return found(fields, name); }
std::string_view HttpRequest::parameter(const std::string& name) const {
  return found(query, name);
}

std::int64_t number_in(std::string_view text) {
  return std::max<std::int64_t>(whole_number<std::int64_t>(text).value_or(0), 0);
}

HttpResponse error_response(int status, std::string_view words) {
  const nlohmann::json body = {{"error", words}};
  return {.status = status, .type = "application/json", .body = json_text(body) + "\n"};
}

std::string head_of(const HttpResponse& response, std::int64_t length, bool keep_alive,
                    std::int64_t now_s) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                                 reason_of(response.status), date_of(now_s));
  if (!response.type.empty()) head += fmt::format("Content-Type: {}\r\n", response.type);
  if (length >= 0) head += fmt::format("Content-Length: {}\r\n", length);
  head += keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  bool has_caching = false;
  for (const auto& [name, value] : response.fields) {
    head += fmt::format("{}: {}\r\n", name, value);
    has_caching = has_caching || name == "Cache-Control";
  }
  if (!has_caching) head += "Cache-Control: no-store\r\n";
  head += kFixedFields;
  return head + "\r\n";
}

bool split_target(std::string_view target, std::string& path,
                  std::map<std::string, std::string>& query) {
  if (target.empty() || target.front() != '/') return false;
  const std::size_t mark = target.find('?');
  std::optional<std::string> name = decoded(target.substr(0, mark), false);
  if (!name) return false;
  path = *std::move(name);
  query.clear();
  std::string_view rest = mark == target.npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    const std::size_t equals = pair.find('=');
    const std::string_view text = equals == pair.npos ? "" : pair.substr(equals + 1);
    std::optional<std::string> key = decoded(pair.substr(0, equals), true);
    std::optional<std::string> value = decoded(text, true);
    if (!key || !value) return false;
    if (!key->empty()) query[*std::move(key)] = *std::move(value);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return true;
}

}  // namespace pergpu::serve
