// The order of the checks: first what no browser of the user's own page would send, then
// the secret, then what may be done with it.
//
// No cookie: browsers send a cookie to every port of a host, which are other users' servers, too.
// The page keeps its secret in the storage of its origin, to which the port belongs, and sends it
// itself.
#include "serve/guard.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace pergpu::serve {
namespace {

bool is_reading(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

std::string_view bearer_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view field = request.field("authorization");
  return field.starts_with(kScheme) ? field.substr(kScheme.size()) : std::string_view();
}

bool is_one_of(const std::vector<std::string>& list, std::string_view one) {
  return std::find(list.begin(), list.end(), one) != list.end();
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

bool has_secret(const HttpRequest& request, const GuardRules& rules) {
  const std::string_view bearer = bearer_of(request);
  return is_same_secret(bearer, rules.secret) || is_same_secret(bearer, rules.session);
}

std::optional<HttpResponse> refuse(const HttpRequest& request, const GuardRules& rules) {
  // Another name for this address is a site that points its own name here (DNS rebinding).
  if (!is_one_of(rules.hosts, request.field("host"))) {
    return error_response(
        403, "unknown host name; to allow it, start pergpu serve with --host NAME:PORT");
  }
  const bool has_origin = request.fields.contains("origin");
  if (has_origin && !is_own_origin(request, rules)) {
    return error_response(403, "requests from other sites are refused");
  }
  // Browsers say where a request comes from; a link that the user follows is "none".  A link on
  // another site to the page itself is let through: what it opens is ours, and is not visible to
  // it.
  const std::string_view site = request.field("sec-fetch-site");
  const bool is_navigation = request.field("sec-fetch-mode") == "navigate" && is_reading(request);
  if (!site.empty() && site != "same-origin" && site != "none" && !is_navigation) {
    return error_response(403, "requests from other sites are refused");
  }
  if (!is_reading(request) && request.method != "POST") {
    return error_response(405, "only GET, HEAD and POST are supported");
  }
  const bool is_login = !is_reading(request) && request.path == kLoginPath;
  if (is_reading(request) && is_one_of(rules.open, request.path)) return std::nullopt;

  const bool by_token = is_same_secret(bearer_of(request), rules.secret);
  const bool by_session = is_same_secret(bearer_of(request), rules.session);
  if (!by_token && !by_session && !is_login) {
    return error_response(401, "open the link that `pergpu serve` printed, or send the token");
  }
  if (is_reading(request)) return std::nullopt;
  // Browsers say with every POST which page sends it; a session without that is in other hands.
  if (!by_token && !has_origin)
    return error_response(403, "a POST needs an Origin header or the token");
  if (rules.readonly && !is_login)
    return error_response(403, "pergpu serve was started with --readonly");
  if (!request.field("content-type").starts_with("application/json")) {
    return error_response(415, "the body must be application/json");
  }
  return std::nullopt;
}

}  // namespace pergpu::serve
