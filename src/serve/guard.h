// Who may ask for what.  A page on loopback can be reached by every web site that the user's
// browser has open and by every other user of the machine, so all of this is checked for each
// request (why: docs/security.md).  Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace pergpu::serve {

struct GuardRules {
  std::vector<std::string> hosts = {};  // "127.0.0.1:7171": what Host may be, exactly
  std::string secret = {};              // what `Authorization: Bearer` of a program holds
  std::string session = {};             // … and of our page; it ends with this server
  std::vector<std::string> open = {};   // paths that may be read without either: the page's files
  bool readonly = false;
};

/// Where the page changes the token of its link for the session: a POST that needs no secret.
inline constexpr std::string_view kLoginPath = "/api/login";

/// What to answer a request that is not let through; nullopt: it may pass.
std::optional<HttpResponse> refuse(const HttpRequest& request, const GuardRules& rules);

/// It comes with the token or the session.
bool has_secret(const HttpRequest& request, const GuardRules& rules);

/// Takes as long for a near miss as for a far one.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace pergpu::serve
