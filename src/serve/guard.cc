// The order is that of who is asking: first what no browser of the user's own page would send, then
// the secret, then what may be done with it.
#include "serve/guard.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace pergpu::serve {
namespace {

constexpr std::string_view kNoLogin =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>pergpu</title>"
    "<h1>Open the link that pergpu serve printed</h1>"
    "<p>It works once, and lets this browser in from then on. For another browser "
    "<code>pergpu serve</code> prints another one.</p></html>\n";

bool is_reading(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

std::string_view bearer_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view field = request.field("authorization");
  return field.starts_with(kScheme) ? field.substr(kScheme.size()) : std::string_view();
}

bool is_one_of(const std::vector<std::string>& hosts, std::string_view host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

/// Of a page that is ours.
bool is_own_origin(const HttpRequest& request, const GuardRules& rules) {
  constexpr std::string_view kScheme = "http://";
  const std::string_view origin = request.field("origin");
  return origin.starts_with(kScheme) && is_one_of(rules.hosts, origin.substr(kScheme.size()));
}

}  // namespace

bool is_same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size() || a.empty()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

std::string_view cookie_of(const HttpRequest& request, std::string_view name) {
  std::string_view rest = request.field("cookie");
  while (!rest.empty()) {
    const std::size_t end = rest.find(';');
    std::string_view pair = rest.substr(0, end);
    while (!pair.empty() && pair.front() == ' ') pair.remove_prefix(1);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return {};
}

std::optional<HttpResponse> refuse(const HttpRequest& request, const GuardRules& rules) {
  // Another name for this address is a site that points its own name here (DNS rebinding).
  if (!is_one_of(rules.hosts, request.field("host"))) {
    return error_response(403, "this name is not one that pergpu serve answers to (--host)");
  }
  const bool has_origin = request.fields.contains("origin");
  if (has_origin && !is_own_origin(request, rules)) {
    return error_response(403, "another site asks");
  }
  // Browsers say where a request comes from; a link that the user follows is "none".  A link on
  // another site to the page itself is let through to the cookie, which SameSite withholds.
  const std::string_view site = request.field("sec-fetch-site");
  const bool is_navigation = request.field("sec-fetch-mode") == "navigate" && is_reading(request);
  if (!site.empty() && site != "same-origin" && site != "none" && !is_navigation) {
    return error_response(403, "another site asks");
  }
  if (!is_reading(request) && request.method != "POST") {
    return error_response(405, "GET, HEAD and POST are known here");
  }
  if (is_reading(request) && request.path == "/login") return std::nullopt;

  const bool by_token = is_same_secret(bearer_of(request), rules.secret);
  const bool by_cookie = is_same_secret(cookie_of(request, rules.cookie), rules.secret);
  if (!by_token && !by_cookie) {
    if (request.path == "/") {
      return HttpResponse{
          .status = 401, .type = "text/html; charset=utf-8", .body = std::string(kNoLogin)};
    }
    return error_response(401, "open the link that `pergpu serve` printed, or send the token");
  }
  if (is_reading(request)) return std::nullopt;
  // A cookie travels with whatever the browser sends; that our own page sent it, Origin says.
  if (!by_token && !has_origin) return error_response(403, "a POST needs Origin or the token");
  if (rules.readonly) return error_response(403, "pergpu serve was started with --readonly");
  if (!request.field("content-type").starts_with("application/json")) {
    return error_response(415, "the body must be application/json");
  }
  return std::nullopt;
}

}  // namespace pergpu::serve
