// One HTTP request, by the program `curl`: pergpu links no TLS library whose security holes it
// would have to fix.  URL, headers and body go to curl by descriptors: others can read its command
// line.
//
// Waits for the answer: not for the deciding thread.
#pragma once

#include <string>
#include <vector>

#include "result.h"

namespace pergpu {

struct HttpPost {
  std::string url = {};
  std::vector<std::string> headers = {};  // "Name: value"
  std::string body = {};
};

/// "HTTP 204", or why it did not arrive: no answer in half a minute, a status other than 2xx (a
/// redirect is not followed), no curl.  `env` is curl's environment: PATH, proxies, certificates.
Result<std::string> post(const HttpPost& request, const std::vector<std::string>& env);

/// The configuration of curl.  Exposed for tests.
std::string curl_config(const HttpPost& request);

}  // namespace pergpu
