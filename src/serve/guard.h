// Who may ask for what.  A page on loopback can be reached by every web site that the user's
// browser has open and by every other user of the machine; hence all of this, for each request
// (why: docs/security.md).  Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace pergpu::serve {

struct GuardRules {
  std::vector<std::string> hosts = {};  // "127.0.0.1:7171": what Host may be, exactly
  std::string secret = {};              // what a cookie or `Authorization: Bearer` must hold
  std::string cookie = {};              // its name
  bool readonly = false;
};

/// What to answer a request that is not let through; nullopt: it may pass.  `/login` needs no
/// secret.
std::optional<HttpResponse> refuse(const HttpRequest& request, const GuardRules& rules);

/// Takes as long for a near miss as for a far one.
bool is_same_secret(std::string_view a, std::string_view b);

/// The value of a cookie; "" when it was not sent.
std::string_view cookie_of(const HttpRequest& request, std::string_view name);

}  // namespace pergpu::serve
